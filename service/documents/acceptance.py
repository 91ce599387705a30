"""Validates documents and stores them as pending, durably."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection

from service.documents import repository
from service.documents.checking import Wrong, check_document
from service.documents.schemas import DocumentIn
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import require_collection
from service.runtime.runtime import Runtime

INVALID = "invalid_document"
"""The code of a document that is not as documented."""


@dataclass(frozen=True)
class Accepted:
    """The sequence numbers of the stored documents, and the outcome of every item in the order posted."""

    sequences: list[int]
    items: list[dict[str, Any]]
    unchanged: int = 0
    """The number of documents that were stored already with the same content. They are not encoded again."""


def accept(
    runtime: Runtime,
    state: CollectionState,
    items: Sequence[Any],
    in_transaction: Callable[[Connection], None] = lambda _: None,
) -> Accepted:
    """Check each item and store the valid documents as pending, in one transaction.

    in_transaction: what is written with the documents.
    If an id occurs more than once, the last document with this id is stored. Raises Problem 404 if the collection was
    deleted.
    """
    state.require_encoder(runtime.encoder)
    outcomes: list[dict[str, Any]] = []
    bodies: dict[str, dict[str, Any]] = {}
    for index, item in enumerate(items):
        document, outcome = _validated(index, item)
        outcomes.append(outcome)
        if document:
            bodies[document.id] = document.model_dump(exclude={"id"})
    with noting_replacements(state) as insert_pending, runtime.database.write() as connection:
        require_collection(connection, state.id)
        stored = repository.stored_bodies(connection, state.id, list(bodies))
        pending = repository.pending_among(connection, state.id, list(bodies))
        unchanged = _unchanged(bodies, stored) - pending.keys()
        changed = {id: body for id, body in bodies.items() if id not in unchanged}
        sequences = insert_pending(connection, changed, pending)
        in_transaction(connection)
    known = stored.keys() | pending.keys()
    for outcome in outcomes:
        if outcome["code"] is None:
            outcome["status"] = 200 if outcome["id"] in known else 201
            known.add(outcome["id"])  # a later item of the batch replaces it
    return Accepted(sequences, outcomes, len(unchanged))


InsertPending = Callable[[Connection, dict[str, Any], Mapping[str, int]], list[int]]


@contextmanager
def noting_replacements(state: CollectionState) -> Iterator[InsertPending]:
    """Give the function that stores documents (id -> body) as pending, and notes which pending ones they replace.

    Its last argument is id -> sequence number of the pending documents among them and perhaps others. It notes before
    the commit: where the older document is gone, the newer one is known. An error undoes the notes.
    """
    noted: dict[int, int] = {}

    def insert(connection: Connection, bodies: dict[str, Any], pending: Mapping[str, int]) -> list[int]:
        older = {id: pending[id] for id in bodies if id in pending}
        sequences = repository.insert_pending(connection, state.id, bodies)
        newer = repository.pending_among(connection, state.id, list(older))
        noted.update({sequence: newer[id] for id, sequence in older.items()})
        state.replacements.note(noted)
        return sequences

    try:
        yield insert
    except BaseException:
        state.replacements.undo(noted)
        raise


def summary(accepted: Accepted) -> dict[str, Any]:
    """Return the counts of the outcomes, and the first 1,000 outcomes that failed."""
    errors = [item for item in accepted.items if item["code"] is not None]
    return {
        "items_total": len(accepted.items),
        "succeeded": len(accepted.items) - len(errors),
        "failed": len(errors),
        "unchanged": accepted.unchanged,
        "errors": errors[:1000],
    }


def _unchanged(bodies: dict[str, Any], stored: dict[str, Any]) -> set[str]:
    """Return the ids of the documents that are searchable with the same content.

    A stored document that differs from its checksum has no content, so that it is replaced.
    """
    return {id for id, body in stored.items() if body is not None and content_of(body) == content_of(bodies[id])}


def content_of(body: dict[str, Any]) -> bytes:
    """Return the content of a document. In contrast to equality, it tells 1 from true."""
    return orjson.dumps(body, option=orjson.OPT_SORT_KEYS)


def failed_item(index: int, code: str, detail: str, id: str | None = None, field: str | None = None) -> dict[str, Any]:
    """Return the outcome of an item that is refused; `field` is the field that is wrong, where there is one."""
    named = {"field": field} if field else {}
    return {"index": index, "id": id, "status": 422, "code": code, "detail": detail, **named}


def shown_id(item: Any) -> str | None:
    """Return the id of an item that is refused, None if it has no valid id."""
    id = item.get("id") if isinstance(item, dict) else None
    return id if isinstance(id, str) and len(id) <= 512 else None


def _validated(index: int, item: Any) -> tuple[DocumentIn | None, dict[str, Any]]:
    """Return the document of an item, None if it is invalid, and the outcome of the item."""
    document = check_document(item, DocumentIn)
    if isinstance(document, Wrong):
        return None, failed_item(index, INVALID, document.detail, shown_id(item), document.field)
    return document, {"index": index, "id": document.id, "status": 201, "code": None}
