"""The request body of a rule."""

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AwareDatetime, Field, WithJsonSchema, field_validator, model_validator

from index.memory.query_key import as_query_key
from index.words.reading_options import folded
from service.http.requests import Strict
from service.storage.database import rfc3339

ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$"
MAX_RULES = 1000
MAX_PINS = 50
MAX_HIDES = 200
MAX_POSITION = 1000

Text = Annotated[str, Field(min_length=1, max_length=2048)]
DocumentId = Annotated[str, Field(min_length=1, max_length=512)]
Moment = Annotated[AwareDatetime, Field(strict=False), WithJsonSchema({"type": "string", "format": "date-time"})]


class RuleQuery(Strict):
    """The condition of a rule: one of exact, contains and near."""

    exact: Text | None = None
    contains: Text | None = None
    near: Text | None = None
    cosine: Annotated[float, Field(gt=0, le=1)] | None = None

    @model_validator(mode="after")
    def _one_condition(self) -> "RuleQuery":
        given = [text for text in (self.exact, self.contains, self.near) if text is not None]
        if len(given) != 1:
            raise ValueError("needs one of exact, contains and near")
        if self.cosine is not None and self.near is None:
            raise ValueError("cosine belongs to near")
        if not as_query_key(given[0]) or (self.contains is not None and not folded(self.contains)):
            raise ValueError("the text must contain a word")
        return self


class Pin(Strict):
    """A document and the 1-based position that it gets."""

    id: DocumentId
    position: Annotated[int, Field(ge=1, le=MAX_POSITION)]


class RuleIn(Strict):
    """A rule: for queries that match, documents that get a position, and documents that are not shown."""

    query: RuleQuery
    pin: Annotated[list[Pin], Field(max_length=MAX_PINS)] = Field(default_factory=list)
    hide: Annotated[list[DocumentId], Field(max_length=MAX_HIDES)] = Field(default_factory=list)
    from_: Moment | None = Field(None, alias="from")
    until: Moment | None = None

    @field_validator("from_", "until", mode="before")
    @classmethod
    def _is_text(cls, moment: Any) -> Any:
        if moment is not None and not isinstance(moment, str):
            raise ValueError("must be RFC 3339 text, such as 2026-12-24T00:00:00Z")
        return moment

    @field_validator("from_", "until")
    @classmethod
    def _within_utc(cls, moment: datetime | None) -> datetime | None:
        try:
            return None if moment is None else moment.astimezone(UTC)
        except OverflowError:
            raise ValueError("must be representable in UTC") from None

    @model_validator(mode="after")
    def _consistent(self) -> "RuleIn":
        pinned, positions = [one.id for one in self.pin], [one.position for one in self.pin]
        if not pinned and not self.hide:
            raise ValueError("a rule pins or hides at least one document")
        if len(set(pinned)) < len(pinned) or len(set(positions)) < len(positions):
            raise ValueError("pin must name each document and each position once")
        if set(pinned) & set(self.hide):
            raise ValueError("a document cannot be both pinned and hidden")
        if self.from_ is not None and self.until is not None and self.from_ >= self.until:
            raise ValueError("from must be before until")
        return self

    def body(self) -> dict[str, Any]:
        """Return the rule as it is stored and shown."""
        query = self.query.model_dump(exclude_none=True)
        if self.query.near is not None:
            query.setdefault("cosine", 0.8)
        return {
            "query": query,
            "pin": [pin.model_dump() for pin in sorted(self.pin, key=lambda pin: pin.position)],
            "hide": list(dict.fromkeys(self.hide)),
            "from": None if self.from_ is None else rfc3339(self.from_),
            "until": None if self.until is None else rfc3339(self.until),
        }
