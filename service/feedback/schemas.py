"""Schemas of feedback: UBI 1.3.0 events, and judgments."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any

import numpy as np
import orjson
from pydantic import (
    AfterValidator,
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

from index.memory.query_key import as_query_key
from service.feedback.event_times import EARLIEST
from service.feedback.grades import GRADES
from service.http.requests import Strict, not_blank

MAX_ITEMS = 1000
MAX_LINES = 2 * MAX_ITEMS
"""Lines of newline-delimited JSON, with the blank ones."""
MAX_EVENT_BYTES = 16_384
"""Bytes of an event as JSON, own fields included: a key for browsers may send events, and they are stored whole."""
MAX_DEPTH = 32
"""Nesting depth of an event. Fields that the schema does not name are stored unchanged."""
VERDICTS = ("thumbs_up", "thumbs_down")
"""Actions that may apply to a whole search, without a document: they state whether the search solved the problem."""
DWELLING = ("click", "watch")
"""Actions whose grade depends on the dwell time, if the event has a dwell time."""
DWELL_SECONDS = (5.0, 30.0)
DWELL_SHARES = (0.3, 1.0)
"""Share of the grade up to the first of DWELL_SECONDS, and from the second on; linear in between. A quick return shows
that the document did not answer the query (Fox et al. 2005; Kim et al. 2014)."""
MAX_DWELL_SECONDS = 86_400.0

Short = Annotated[StrictStr, Field(max_length=512)]
Text = Annotated[StrictStr, Field(min_length=1, max_length=2048)]


def _inside(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _as_number(value: str | float) -> float | None:
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


class Open(BaseModel):
    """A part of the UBI schema. UBI allows additional fields."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)


class EventObject(Open):
    """The object of an event."""

    object_id: Annotated[str, Field(min_length=1, max_length=512)]
    object_id_field: Short | None = None


class EventPosition(Open):
    """The position of an event: a rank in the list, or coordinates on the screen."""

    ordinal: Annotated[StrictInt, Field(ge=1, le=1_000_000)] | None = None
    xy: dict[str, Any] | None = None


class EventAttributes(Open):
    """The attributes of an event. UBI requires a position; events without a position are common and accepted too."""

    object: EventObject | None = None
    position: EventPosition | None = None
    dwell_time_seconds: Annotated[StrictFloat, Field(ge=0, le=MAX_DWELL_SECONDS)] | None = None
    """Time from the click to the return to the results. This field is an addition to the UBI schema."""


class EventIn(Open):
    """An event of the feedback log."""

    action_name: Annotated[StrictStr, Field(min_length=1, max_length=100)]
    timestamp: AwareDatetime
    query_id: Short | None = None
    user_query: Annotated[Text, AfterValidator(not_blank)] | None = None
    client_id: Short | None = None
    session_id: Short | None = None
    event_attributes: EventAttributes | None = None

    @model_validator(mode="before")
    @classmethod
    def _shallow(cls, event: Any) -> Any:
        level = [event]
        for _ in range(MAX_DEPTH):
            level = [inner for value in level if isinstance(value, dict | list) for inner in _inside(value)]
        if level:
            raise ValueError(f"must have at most {MAX_DEPTH} levels of nesting")
        if isinstance(event, dict) and len(orjson.dumps(event, default=str)) > MAX_EVENT_BYTES:
            raise ValueError(f"must have at most {MAX_EVENT_BYTES} bytes as JSON")
        return event

    @field_validator("timestamp", mode="before")
    @classmethod
    def _with_an_offset(cls, timestamp: Any) -> Any:
        """Refuse numbers that are no time since EARLIEST in seconds or milliseconds since 1970, also as text."""
        number = _as_number(timestamp) if isinstance(timestamp, str | int | float) else None
        if isinstance(timestamp, bool):
            raise ValueError("must be a date and time with its offset, such as 2026-09-20T10:00:00Z")
        if number is not None and number < EARLIEST:
            raise ValueError("a number must be a time from the year 2000 on, in seconds or milliseconds since 1970")
        return timestamp

    @field_validator("timestamp")
    @classmethod
    def _within_utc(cls, timestamp: datetime) -> datetime:
        try:
            return timestamp.astimezone(UTC)
        except OverflowError:
            raise ValueError("must be representable in UTC") from None

    @property
    def document_id(self) -> str | None:
        """The id of the event's document, or None."""
        attributes = self.event_attributes
        return attributes.object.object_id if attributes and attributes.object else None

    @property
    def grade(self) -> float | None:
        """The grade of the document by this event; None for actions that no model learns from."""
        grade = GRADES.get(self.action_name)
        dwell = self.event_attributes.dwell_time_seconds if self.event_attributes else None
        if grade is None or dwell is None or self.action_name not in DWELLING:
            return grade
        return grade * float(np.interp(dwell, DWELL_SECONDS, DWELL_SHARES))

    @property
    def is_verdict(self) -> bool:
        """Whether the event applies to a whole search or session, not to a document."""
        return self.document_id is None and self.action_name in VERDICTS

    @property
    def position(self) -> int | None:
        """The 1-based rank of the document in the list, or None."""
        attributes = self.event_attributes
        return attributes.position.ordinal if attributes and attributes.position else None


class JudgmentIn(Strict):
    """The grade of a document for a query by a rater. A null rating deletes the judgment."""

    query: Text
    document_id: Annotated[str, Field(min_length=1, max_length=512)]
    rating: Annotated[StrictInt, Field(ge=0, le=4)] | None
    rater: Annotated[str, Field(max_length=256)] = ""

    @model_validator(mode="after")
    def _about_a_query(self) -> "JudgmentIn":
        """Refuse a grade for a blank query. Earlier releases stored such judgments; they can be deleted."""
        if self.rating is not None and not as_query_key(self.query):
            raise ValueError("query must contain more than white space")
        return self


class JudgmentBatch(Strict):
    """Up to 1,000 judgments. Each judgment is checked separately."""

    judgments: Annotated[
        list[Any],
        Field(
            min_length=1,
            json_schema_extra={"maxItems": MAX_ITEMS, "items": {"$ref": "#/components/schemas/JudgmentIn"}},
        ),
    ]


class EventDeletion(Strict):
    """The events to delete: the events of a search, of a client, or about a query text."""

    query_id: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    client_id: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    query: Text | None = None
