"""Schemas of answers about rules."""

from pydantic import Field

from service.http.answers import Answer, example, sometimes

RULE = {
    "id": "christmas",
    "query": {"near": "gifts for christmas", "cosine": 0.8},
    "pin": [{"id": "gift-card", "position": 1}],
    "hide": ["summer-sale"],
    "from": None,
    "until": None,
    "created_at": "2026-09-20T10:00:00.000Z",
}


class RuleCondition(Answer):
    """The condition of a rule on the query: one of exact, contains and near."""

    exact: str = sometimes()
    """The query is this text."""
    contains: str = sometimes()
    """The query contains these words in this order."""
    near: str = sometimes()
    """The query is near this text."""
    cosine: float = sometimes()
    """The least cosine of `near`."""


class PinnedDocument(Answer):
    """A document and its position."""

    id: str
    """The id of the document."""
    position: int
    """The position, from 1."""


class Rule(Answer):
    """Documents that get a position or are not shown, for queries that match."""

    model_config = example(**RULE)

    id: str
    """The id of the rule."""
    query: RuleCondition
    """The condition on the query."""
    pin: list[PinnedDocument]
    """Documents that get a position."""
    hide: list[str]
    """Ids of documents that are not shown."""
    from_: str | None = Field(alias="from")
    """The time from which the rule applies."""
    until: str | None
    """The time at which the rule ends."""
    created_at: str
    """The time of the last change."""


class RuleList(Answer):
    """The rules of a collection, by id."""

    model_config = example(rules=[RULE])

    rules: list[Rule]
    """The rules."""
