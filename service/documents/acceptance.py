"""Validates documents and stores them as pending, durably."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from service.documents import repository
from service.documents.schemas import DocumentIn
from service.http.requests import first_error
from service.runtime.collection import CollectionState
from service.runtime.runtime import Runtime


@dataclass(frozen=True)
class Accepted:
    """The sequence numbers of the stored documents, and the outcome of every item in the order posted."""

    sequences: list[int]
    items: list[dict[str, Any]]


def accept(runtime: Runtime, state: CollectionState, items: Sequence[Any]) -> Accepted:
    """Check each item and store the valid documents as pending, in one transaction.

    If an id occurs more than once, the last document with this id is stored.
    """
    state.require_encoder(runtime.encoder)
    outcomes: list[dict[str, Any]] = []
    bodies: dict[str, dict[str, Any]] = {}
    for index, item in enumerate(items):
        document, outcome = _validated(index, item)
        outcomes.append(outcome)
        if document:
            bodies[document.id] = document.model_dump(exclude={"id"})
    with runtime.database.write() as connection:
        sequences = repository.insert_pending(connection, state.id, bodies)
        replaced = repository.rows_by_id(connection, state.id, list(bodies))
    for outcome in outcomes:
        if outcome["code"] is None and outcome["id"] in replaced:
            outcome["status"] = 200
    return Accepted(sequences, outcomes)


def summary(items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the counts of the outcomes, and the first 1,000 outcomes that failed."""
    errors = [item for item in items if item["code"] is not None]
    return {
        "items_total": len(items),
        "succeeded": len(items) - len(errors),
        "failed": len(errors),
        "errors": errors[:1000],
    }


def _validated(index: int, item: Any) -> tuple[DocumentIn | None, dict[str, Any]]:
    """Return the document of an item, None if it is invalid, and the outcome of the item."""
    id = item.get("id") if isinstance(item, dict) else None
    shown_id = id if isinstance(id, str) and len(id) <= 512 else None
    try:
        document = DocumentIn.model_validate(item)
    except ValidationError as error:
        detail = first_error(error)
        return None, {"index": index, "id": shown_id, "status": 422, "code": "invalid_document", "detail": detail}
    return document, {"index": index, "id": document.id, "status": 201, "code": None}
