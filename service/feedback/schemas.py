"""What feedback must be to be accepted: UBI 1.3.0 events, and judgments."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any

import numpy as np
from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    field_validator,
    model_validator,
)

from service.http.requests import Strict

MAX_ITEMS = 1000
MAX_DEPTH = 32
"""Levels of objects and lists in an event: what it holds beyond the schema is stored as it is."""
GRADES = {
    "impression": 0.0,
    "click": 1.0,
    "watch": 1.0,
    "add_to_cart": 2.0,
    "purchase": 3.0,
    "thumbs_up": 3.0,
    "thumbs_down": -1.0,
}
"""Action -> grade; other actions are stored and not learned from."""
VERDICTS = ("thumbs_up", "thumbs_down")
"""Actions that may be about a whole search, without a document: whether it solved the problem."""
DWELLING = ("click", "watch")
"""Actions whose grade depends on how long the searcher stayed with the document, where that was told."""
DWELL_SECONDS = (5.0, 30.0)
DWELL_SHARES = (0.3, 1.0)
"""Share of the grade for a stay up to the first of DWELL_SECONDS and from the second on, a straight line between: a
quick return says that the document was not it (Fox et al. 2005; Kim et al. 2014)."""
MAX_DWELL_SECONDS = 86_400.0

Short = Annotated[StrictStr, Field(max_length=512)]
Text = Annotated[StrictStr, Field(min_length=1, max_length=2048)]


def _inside(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


class Open(BaseModel):
    """A part of the UBI schema, which allows more fields than it names."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)


class EventObject(Open):
    """What an event was about."""

    object_id: Annotated[str, Field(min_length=1, max_length=512)]
    object_id_field: Short | None = None


class EventPosition(Open):
    """Where it happened: a place in the list, or on the screen."""

    ordinal: Annotated[StrictInt, Field(ge=1, le=1_000_000)] | None = None
    xy: dict[str, Any] | None = None


class EventAttributes(Open):
    """The attributes of an event. UBI wants a position here; the common event without one is taken as well."""

    object: EventObject | None = None
    position: EventPosition | None = None
    dwell_time_seconds: Annotated[StrictFloat, Field(ge=0, le=MAX_DWELL_SECONDS)] | None = None
    """How long the searcher stayed with the document before coming back; an addition to UBI's fields."""


class EventIn(Open):
    """One line of the feedback log."""

    action_name: Annotated[StrictStr, Field(min_length=1, max_length=100)]
    timestamp: AwareDatetime
    query_id: Short | None = None
    user_query: Text | None = None
    client_id: Short | None = None
    session_id: Short | None = None
    event_attributes: EventAttributes | None = None

    @model_validator(mode="before")
    @classmethod
    def _shallow(cls, event: Any) -> Any:
        level = [event]
        for _ in range(MAX_DEPTH):
            level = [inner for one in level if isinstance(one, dict | list) for inner in _inside(one)]
        if level:
            raise ValueError(f"must be nested {MAX_DEPTH} levels deep at most")
        return event

    @field_validator("timestamp")
    @classmethod
    def _within_utc(cls, timestamp: datetime) -> datetime:
        try:
            return timestamp.astimezone(UTC)
        except OverflowError:
            raise ValueError("must be a time that UTC can tell") from None

    @property
    def moment(self) -> datetime:
        """When it happened."""
        return self.timestamp

    @property
    def document_id(self) -> str | None:
        """The document that it was about."""
        attributes = self.event_attributes
        return attributes.object.object_id if attributes and attributes.object else None

    @property
    def grade(self) -> float | None:
        """What the action says of its document; None where it is not learned from."""
        grade = GRADES.get(self.action_name)
        stayed = self.event_attributes.dwell_time_seconds if self.event_attributes else None
        if grade is None or stayed is None or self.action_name not in DWELLING:
            return grade
        return grade * float(np.interp(stayed, DWELL_SECONDS, DWELL_SHARES))

    @property
    def is_verdict(self) -> bool:
        """Whether it is about a whole search or session, not about one document."""
        return self.document_id is None and self.action_name in VERDICTS

    @property
    def position(self) -> int | None:
        """The 1-based place in the list where it happened, where it was told."""
        attributes = self.event_attributes
        return attributes.position.ordinal if attributes and attributes.position else None


class JudgmentIn(Strict):
    """A grade that a rater gives to a document for a query; null takes it back."""

    query: Text
    document_id: Annotated[str, Field(min_length=1, max_length=512)]
    rating: Annotated[StrictInt, Field(ge=0, le=4)] | None
    rater: Annotated[str, Field(max_length=256)] = ""


class JudgmentBatch(Strict):
    """Up to 1,000 judgments; each is checked by itself."""

    judgments: Annotated[
        list[Any],
        Field(
            min_length=1,
            json_schema_extra={"maxItems": MAX_ITEMS, "items": {"$ref": "#/components/schemas/JudgmentIn"}},
        ),
    ]


class EventDeletion(Strict):
    """Whose events to take back: those of one search, or of one client."""

    query_id: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    client_id: Annotated[str, Field(min_length=1, max_length=512)] | None = None
