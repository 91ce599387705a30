"""Records of Elasticsearch and OpenSearch: hits with `_id` and `_source`, and lines of bulk requests.

A line of a bulk request names an action and the id; the next line has the document. A document is a hit here, too.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from service.documents.reading import Fault, Found, Record

STORING = ("index", "create")
"""Actions whose next line is a document."""
REFUSED = {
    "update": "an update is a part of a document: send it as a PATCH of the document",
    "delete": "a deletion is no document: send the ids to documents/delete",
}
"""Other actions, and what to do instead."""
HIT = ("_id", "_source")


def with_actions(found: Found) -> Found:
    """Yield the records of lines: each document of a bulk request as a hit, with the number of its own line."""
    for one in found:
        action = _action(one)
        if action in STORING:
            yield from _document(one, found)
        elif action is not None:
            if action == "update":
                next(found, None)
            yield Fault(one.number, "invalid_document", REFUSED[action], content=_content(one))
        else:
            yield one


def source_of(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the document of a hit, with its `_id`; another record as it is."""
    source = record.get("_source")
    if not isinstance(source, Mapping):
        return record
    id = record.get("_id")
    return source if id is None else {**source, "_id": id}


def hits_in(answer: Mapping[str, Any]) -> list[Any] | None:
    """Return the hits of the answer to a search, `{"hits": {"hits": […]}}`; None for another object."""
    inner = answer.get("hits")
    hits = inner.get("hits") if isinstance(inner, Mapping) else None
    return hits if isinstance(hits, list) else None


def _document(action: Record | Fault, found: Iterator[Record | Fault]) -> Iterator[Record | Fault]:
    """Yield the document after the line of an action."""
    (named,) = _content(action).values()
    document = next(found, None)
    if document is None:
        yield Fault(action.number, "invalid_document", "no document follows this action", content=_content(action))
    elif isinstance(document, Fault):
        yield document
    else:
        hit = {"_id": named.get("_id"), "_source": document.value}
        yield Record(document.number, hit if named.get("_id") is not None else document.value)


def _action(one: Record | Fault) -> str | None:
    """Return the action that a line names; None for a document and for a fault."""
    content = _content(one)
    if not isinstance(content, Mapping) or len(content) != 1:
        return None
    ((name, named),) = content.items()
    known = name in STORING or name in REFUSED
    return name if known and isinstance(named, Mapping) and not named.keys() & {"title", "text", "name"} else None


def _content(one: Record | Fault) -> Any:
    return one.value if isinstance(one, Record) else None
