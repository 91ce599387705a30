"""Shows, lists and deletes documents."""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, Row

from index.filters.parser import parse_filter
from service.documents import repository
from service.documents.paging import InvalidCursor, Place, cursor_of, place_of
from service.http.problems import Problem, not_found
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import bump_watermark, require_collection
from service.runtime.runtime import Runtime

PART = 32
"""Documents of a page that are read at once."""
MAX_CHARACTERS = 16_000_000
"""A page with more characters of texts ends."""


def show_document(runtime: Runtime, state: CollectionState, document_id: str) -> dict[str, Any]:
    """Return the newest version of a document, searchable or still pending."""
    with runtime.database.read() as connection:
        pending = repository.pending_body(connection, state.id, document_id)
        if pending is not None:
            return {"id": document_id, **pending}
        row = repository.document(connection, state.id, document_id)
    if row is None:
        raise not_found("document")
    return document_body(row)


def list_documents(runtime: Runtime, state: CollectionState, limit: int, cursor: str) -> dict[str, Any]:
    """Return searchable documents in the order of their arrival, and the cursor of the next page.

    Documents that cannot be read are left out; a page then has fewer than `limit`, and names them. Raises Problem 422
    for a cursor that no page gave.
    """
    try:
        place = place_of(cursor)
    except InvalidCursor as error:
        detail = "must be the cursor of the previous page; start without a cursor"
        raise Problem(
            422, "invalid_request", f"cursor: {detail}", [{"pointer": "/cursor", "detail": detail}]
        ) from error
    with runtime.database.read() as connection:
        rows, unreadable, places, is_end = _arrived_after(connection, state.id, place, limit + 1)
    shown = places if is_end else places[:-1]
    page = set(shown)
    return {
        "documents": [document_body(row) for row in rows if (row.created_at, row.id) in page],
        "unreadable": [row.id for row in unreadable if (row.created_at, row.id) in page],
        "cursor": None if is_end else cursor_of(shown[-1]),
    }


def _arrived_after(
    connection: Connection, collection_id: int, place: Place, most: int
) -> tuple[list[Row[Any]], list[Row[Any]], list[Place], bool]:
    """Return up to `most` documents after a place, those that cannot be read, their places, and whether none follows.

    They are fewer where texts are long, so that an answer needs little memory: those up to the PART in which the texts
    exceed MAX_CHARACTERS.
    """
    rows: list[Row[Any]] = []
    unreadable: list[Row[Any]] = []
    places: list[Place] = []
    while len(places) < most and sum(len(row.text) for row in rows) <= MAX_CHARACTERS:
        wanted = min(PART, most - len(places))
        found, damaged = repository.documents_arrived_after(connection, collection_id, *(places or [place])[-1], wanted)
        # in order: SQLite alone has unreadable rows, and it orders ids as Python does
        places += sorted(map(_place, (*found, *damaged))) if damaged else map(_place, found)
        rows, unreadable = rows + found, unreadable + damaged
        if len(found) + len(damaged) < wanted:
            return rows, unreadable, places, True
    return rows, unreadable, places, False


def _place(row: Row[Any]) -> Place:
    return Place(row.created_at, row.id)


def document_body(row: Any) -> dict[str, Any]:
    """Return a row of `documents` as the API shows it."""
    return {"id": row.id, "title": row.title, "text": row.text, "url": row.url, "metadata": row.metadata}


def delete_matching(runtime: Runtime, state: CollectionState, condition: str) -> str:
    """Delete the documents whose newest version matches a filter, as `delete_documents` does.

    Raises FilterSyntax, and Problem 422 for a blank filter, which selects everything in a search.
    """
    if not condition.strip():
        detail = "the filter is blank; name the documents to delete, or delete the collection"
        raise Problem(422, "invalid_filter", detail, [{"pointer": "/filter", "detail": detail, "position": 0}])
    node = parse_filter(condition, state.settings.filterable)
    with runtime.database.read() as connection:  # reads the collection while others write
        numbers = repository.newest_numbers(connection, state.id)
        likely = repository.matching_ids(connection, state.id, node)

    def select(connection: Connection) -> list[str]:
        later = repository.ids_after(connection, state.id, *numbers)
        return repository.matching_ids(connection, state.id, node, list({*likely, *later}))

    return _delete(runtime, state, select)


def delete_documents(runtime: Runtime, state: CollectionState, ids: Sequence[str]) -> str:
    """Delete documents with their keys and memory; return the id of a task that has ended, with their number.

    Later searches do not return them.
    """
    return _delete(runtime, state, lambda _: ids)


def _delete(runtime: Runtime, state: CollectionState, select: Callable[[Connection], Sequence[str]]) -> str:
    """Delete the selected documents. They are selected in the transaction that deletes them: no version is newer.

    Raises Problem 404 if the collection was deleted.
    """
    with state.lock:
        with runtime.database.write() as connection:
            require_collection(connection, state.id)
            rows, memory, count = repository.delete_documents(connection, state.id, select(connection))
            watermark = bump_watermark(connection, state.id, documents=True)
            task_id = runtime.jobs.finished(connection, "documents_deletion", state.name, {"deleted": count}, count)
        state.publish(watermark, [], rows, [], memory)
    return task_id


def delete_document(runtime: Runtime, state: CollectionState, document_id: str) -> None:
    """Delete a document with its keys and memory. Raises Problem 404. Later searches do not return it."""
    with state.lock:
        with runtime.database.write() as connection:
            rows, memory, count = repository.delete_documents(connection, state.id, [document_id])
            if not count:
                raise not_found("document")
            watermark = bump_watermark(connection, state.id, documents=True)
        state.publish(watermark, [], rows, [], memory)
