"""The schemas of a logged search. Optional fields are there if the search asked for them."""

from typing import Any

from service.http.answers import Answer, example, sometimes


class ShownHit(Answer):
    """A document of a logged search."""

    id: str
    """The id of the document."""
    position: int
    """The position in the list, from 1."""
    logit: float
    """The sum of the evidence."""
    score: float
    """The attention weight."""
    pinned: bool = sometimes()
    """Whether a rule placed the document here."""
    propensity: float
    """The assumed probability that a user looks at this position."""
    selection_probability: float = sometimes()
    """With `explore`: the probability that this document was put at this position, given the documents above it."""
    exact_rating: bool = sometimes()
    """With `explore`: whether the document came first because of its exact rating, and was not explored."""


class UsedVersion(Answer):
    """The model that ranked a logged search."""

    version: int
    """The version; 0 is the untrained model."""


class LoggedSearch(Answer):
    """A logged search: the documents shown, their positions, and the model."""

    model_config = example(
        query_id="0199c7a0-0000-7000-8000-000000000000",
        q="how do I copy a folder",
        client_id="b-123",
        session_id=None,
        request={"limit": 10, "offset": 0, "filter": None, "mode": "hybrid", "candidates": 200},
        shown=[{"id": "doc-7", "position": 1, "logit": 12.2, "score": 0.41, "propensity": 1.0}],
        null_weight=0.04,
        answered=None,
        model={"version": 12},
        generation=81234,
        created_at="2026-09-20T10:00:00.000Z",
    )

    query_id: str
    """The id of the search."""
    q: str
    """The text of the query."""
    client_id: str | None
    """The client that searched."""
    session_id: str | None
    """The session of the client."""
    request: dict[str, Any]
    """The parameters that selected the documents."""
    shown: list[ShownHit]
    """The documents shown, by position."""
    null_weight: float
    """The weight of the null slot."""
    answered: bool | None
    """False if the response said that no document answers the query; otherwise null."""
    model: UsedVersion
    """The model that ranked."""
    generation: int
    """The watermark of the searched state."""
    created_at: str
    """The time of the search."""
