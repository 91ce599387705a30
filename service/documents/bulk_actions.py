"""Records of Elasticsearch and OpenSearch: hits with `_id` and `_source`, and lines of bulk requests.

A line of a bulk request names an action and the id; the next line has the document. A document is a hit here, too.
"""

from collections.abc import Mapping
from typing import Any

from service.documents.reading import Fault, Found, Record

STORING = ("index", "create")
"""Actions whose next line is a document."""
REFUSED = {
    "update": "an update is a part of a document: send it as a PATCH of the document",
    "delete": "a deletion is no document: send the ids to documents/delete",
}
"""Other actions, and what to do instead."""
OF_ACTIONS = {
    "_id",
    "_index",
    "_type",
    "routing",
    "pipeline",
    "require_alias",
    "retry_on_conflict",
    "dynamic_templates",
}
"""What the line of an action may have."""


def with_actions(found: Found) -> Found:
    """Yield the records of lines: each document of a bulk request as a hit, with the number of its own line."""
    begun: Record | None = None
    for one in found:
        action = action_of(one)
        if begun is not None and action is None:
            yield _ended(begun, one)
            begun = None
            continue
        if begun is not None:
            yield _without_document(begun)
            begun = None
        if action is None:
            yield one
        elif action == "delete":
            yield Fault(one.number, "invalid_document", REFUSED[action], content=_content(one))
        elif isinstance(one, Record):
            begun = one
    if begun is not None:
        yield _without_document(begun)


def source_of(record: Mapping[str, Any]) -> tuple[Mapping[str, Any], Any]:
    """Return the document of a hit and its id; another record as it is, and None."""
    source = record.get("_source")
    is_hit = isinstance(source, Mapping) and ("_id" in record or "_index" in record)
    return (source, record.get("_id")) if is_hit and isinstance(source, Mapping) else (record, None)


def hits_in(answer: Mapping[str, Any]) -> list[Any] | None:
    """Return the hits of the answer to a search, `{"hits": {"hits": […]}}`; None for another object."""
    inner = answer.get("hits")
    hits = inner.get("hits") if isinstance(inner, Mapping) else None
    return hits if isinstance(hits, list) else None


def action_of(one: Record | Fault) -> str | None:
    """Return the action that a line names; None for a document and for a fault."""
    content = _content(one)
    if not isinstance(content, Mapping) or len(content) != 1:
        return None
    ((name, named),) = content.items()
    is_action = (name in STORING or name in REFUSED) and isinstance(named, Mapping) and named.keys() <= OF_ACTIONS
    return name if is_action else None


def _ended(action: Record, next_line: Record | Fault) -> Record | Fault:
    """Return the record of an action and the line after it."""
    ((name, named),) = action.value.items()
    if isinstance(next_line, Fault):
        return next_line
    if name in REFUSED:
        content = action.value | next_line.value
        return Fault(action.number, "invalid_document", REFUSED[name], content=content)
    return Record(
        next_line.number, {"_id": named.get("_id"), "_index": named.get("_index"), "_source": next_line.value}
    )


def _without_document(action: Record) -> Fault:
    return Fault(action.number, "invalid_document", "no document follows this action", content=action.value)


def _content(one: Record | Fault) -> Any:
    return one.value if isinstance(one, Record) else None
