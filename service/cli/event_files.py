"""Reads events from UBI files: lines or arrays of events, and exports of OpenSearch.

An export has each record of the indexes `ubi_queries` and `ubi_events` behind a line such as
`{"index": {"_index": "ubi_events"}}`, or in `_source`. The file is read twice, because an event may stand before its
query, and because only the whole file tells whether positions begin at 0.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from service.cli.records import Fault, Found, Record, read_objects
from service.cli.times import as_timestamp
from service.documents.metadata import as_text

BULK_ACTIONS = ("index", "create")
RAISED = "positions begin at 0 in this file: each was raised by 1"
"""The note on an import whose positions were changed."""
MAX_HITS = 1_000
"""Hits of a query that become impressions."""
OF_QUERY = ("user_query", "client_id", "session_id")
"""Fields that an event takes from its query where it has none."""
TEXTS = ("query_id", *OF_QUERY, "user_id")
"""Fields whose numbers become text: the API takes text only, and logs often have numbers as ids."""


@dataclass
class EventLog:
    """What the whole file tells about its records."""

    queries: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Query id -> the fields OF_QUERY of its record."""
    with_impressions: set[str] = field(default_factory=set)
    """Ids of the queries that have impression events."""
    id_fields: Counter[str] = field(default_factory=Counter)
    lowest_ordinal: int | None = None
    made_impressions: int = 0

    @property
    def from_zero(self) -> bool:
        """Whether positions begin at 0."""
        return self.lowest_ordinal == 0

    def notes(self) -> list[str]:
        """Return what the import did beyond storing events as they are."""
        found = []
        if self.queries:
            found.append(f"{len(self.queries)} queries were read; events take their text from them")
        if self.from_zero:
            found.append(RAISED)
        if fields := [name for name in self.id_fields if name != "id"]:
            found.append(
                f"object_id_field is {', '.join(sorted(fields))}: the object_id is taken as the id of a document"
            )
        if self.made_impressions:
            found.append(f"{self.made_impressions} impressions were made from the hits of queries without impressions")
        return found


def read_log(path: Path) -> EventLog:
    """Return what the whole file tells. Faults are left to `read_events`."""
    log = EventLog()
    for found in unwrapped(read_objects(path)):
        if isinstance(found, Record) and is_query(found.value):
            query = with_text(found.value)
            log.queries[as_text(query["query_id"])] = {
                name: query[name] for name in OF_QUERY if isinstance(query.get(name), str)
            }
        elif isinstance(found, Record):
            _count(found.value, log)
    return log


def _count(event: dict[str, Any], log: EventLog) -> None:
    if event.get("action_name") == "impression" and event.get("query_id") is not None:
        log.with_impressions.add(as_text(event["query_id"]))
    attributes = _object(event, "event_attributes")
    if isinstance(id_field := _object(attributes, "object").get("object_id_field"), str):
        log.id_fields[id_field] += 1
    ordinal = whole(_object(attributes, "position").get("ordinal"))
    if ordinal is not None:
        log.lowest_ordinal = min(ordinal, ordinal if log.lowest_ordinal is None else log.lowest_ordinal)


def read_events(path: Path, log: EventLog) -> Found:
    """Yield the events of a file in the form of the API, and impressions for the hits of queries that have none."""
    for found in unwrapped(read_objects(path)):
        if isinstance(found, Fault):
            yield found
        elif is_query(found.value):
            for event in impressions_of(found.value, log):
                yield Record(found.number, event)
        else:
            yield Record(found.number, as_event(found.value, log))


def unwrapped(records: Found) -> Iterator[Record | Fault]:
    """Yield the records without the lines and objects that an export of OpenSearch puts around them."""
    for found in records:
        if isinstance(found, Record):
            value = found.value
            if len(value) == 1 and isinstance(next(iter(value.values())), dict) and next(iter(value)) in BULK_ACTIONS:
                continue
            if isinstance(value.get("_source"), dict):
                found = Record(found.number, value["_source"])
        yield found


def is_query(value: dict[str, Any]) -> bool:
    """Return whether a record is a query of `ubi_queries` and not an event."""
    is_event = "action_name" in value or "event_attributes" in value
    return not is_event and "user_query" in value and value.get("query_id") is not None


def as_event(value: dict[str, Any], log: EventLog) -> dict[str, Any]:
    """Return an event in the form of the API: without null, with the text of its query and with positions from 1."""
    event: dict[str, Any] = with_text(without_null(value))
    event = log.queries.get(str(event.get("query_id")), {}) | event
    if not event.get("user_query"):
        event.pop("user_query", None)
    if "timestamp" in event:
        event["timestamp"] = as_timestamp(event["timestamp"])
    attributes = _object(event, "event_attributes")
    shown = _object(attributes, "object")
    if isinstance(shown.get("object_id"), int | float):
        shown["object_id"] = as_text(shown["object_id"])
    position = _object(attributes, "position")
    if (ordinal := whole(position.get("ordinal"))) is not None:
        position["ordinal"] = ordinal + log.from_zero
    return event


def impressions_of(query: dict[str, Any], log: EventLog) -> Iterator[dict[str, Any]]:
    """Yield an impression for each hit of a query without impression events."""
    query_id, hits = as_text(query["query_id"]), query.get("query_response_hit_ids")
    if query_id in log.with_impressions or not isinstance(hits, list) or "user_query" not in log.queries[query_id]:
        return
    common = {"action_name": "impression", "query_id": query_id, **log.queries[query_id]}
    for position, hit in enumerate(hits[:MAX_HITS], 1):
        log.made_impressions += 1
        attributes = {"object": {"object_id": as_text(hit)}, "position": {"ordinal": position}}
        yield common | {"timestamp": as_timestamp(query.get("timestamp")), "event_attributes": attributes}


def with_text(record: dict[str, Any]) -> dict[str, Any]:
    """Return an event or a query whose numbers in the fields TEXTS are text: 7 and 7.0 are "7"."""
    numbers = {name: record[name] for name in TEXTS if isinstance(record.get(name), int | float)}
    return record | {name: as_text(number) for name, number in numbers.items()}


def without_null(value: Any) -> Any:
    """Return a JSON value without the fields that are null."""
    if isinstance(value, dict):
        return {name: without_null(inner) for name, inner in value.items() if inner is not None}
    return [without_null(inner) for inner in value] if isinstance(value, list) else value


def whole(value: Any) -> int | None:
    """Return a whole number of at least 0, also as text or as 3.0; None for any other text or value."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    digits = re.fullmatch(r"\s*([0-9]+)(\.0+)?\s*", value) if isinstance(value, str) else None
    return int(digits[1]) if digits else None


def _object(value: dict[str, Any], name: str) -> dict[str, Any]:
    inner = value.get(name)
    return inner if isinstance(inner, dict) else {}
