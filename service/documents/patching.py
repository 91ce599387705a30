"""Changes parts of a document: title, text, url, and metadata by key.

A change of url or metadata copies the stored keys and value to the new row of the document. A change of title or text
encodes the document again.
"""

from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection

from index.records import Document as DocumentRecord
from service.documents import repository
from service.documents.acceptance import content_of, noting_replacements
from service.documents.indexing import Change, make_searchable, write_documents
from service.documents.schemas import DocumentIn, DocumentPatch
from service.documents.stored_versions_repository import stored_versions
from service.http.input_errors import input_errors
from service.http.problems import MAX_ERRORS, Problem, not_found
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import require_collection
from service.runtime.runtime import Runtime

ENCODED = ("title", "text")
"""The fields that keys are made from."""


def patch_document(runtime: Runtime, state: CollectionState, document_id: str, patch: DocumentPatch) -> dict[str, Any]:
    """Change a document, durably, and return it when the change is searchable.

    Raises Problem 404 without such a document, 409 for a document that differs from its checksum, and 422 if the
    changed document is not valid.
    """
    with state.lock:
        with noting_replacements(state) as insert_pending, runtime.database.write() as connection:
            require_collection(connection, state.id)
            before, is_pending = _newest(connection, state, document_id)
            after = _merged(before, patch)
            change, sequences = None, []
            if content_of(after) != content_of(before):
                if not is_pending and all(after[name] == before[name] for name in ENCODED):
                    change = _written_with_stored_vectors(connection, state, after)
                if change is None:
                    state.require_encoder(runtime.encoder)
                    body = {name: value for name, value in after.items() if name != "id"}
                    pending = repository.pending_among(connection, state.id, [document_id])
                    sequences = insert_pending(connection, {document_id: body}, pending)
        if change is not None:
            change.publish(state)
    if sequences:
        make_searchable(runtime, state, sequences)
    return after  # not read again: another request may have deleted it by now


def _newest(connection: Connection, state: CollectionState, document_id: str) -> tuple[dict[str, Any], bool]:
    """Return the newest version of a document, and whether it is still pending. Raises Problem 404 and 409."""
    pending = repository.pending_body(connection, state.id, document_id)
    if pending is not None:
        return {"id": document_id, **pending}, True
    found = repository.stored_bodies(connection, state.id, [document_id])
    if document_id not in found:
        raise not_found("document")
    body = found[document_id]
    if body is None:
        raise Problem(409, "document_damaged", "the stored document differs from its checksum; put it again as a whole")
    return {"id": document_id, **body}, False


def _merged(before: dict[str, Any], patch: DocumentPatch) -> dict[str, Any]:
    """Return the changed document. Raises Problem 422 if it is not valid, for example with too much metadata."""
    given = patch.model_dump(exclude_unset=True, exclude={"id"})
    if "metadata" in given:
        metadata = given["metadata"]
        merged = {} if metadata is None else before["metadata"] | metadata
        given["metadata"] = {name: value for name, value in merged.items() if value is not None}
    changed = before | given
    try:
        return DocumentIn.model_validate(changed).model_dump()
    except ValidationError as error:
        errors = input_errors(error.errors(), changed)
        detail = "the document is not valid with this change"
        raise Problem(422, "invalid_document", detail, errors[:MAX_ERRORS]) from error


def _written_with_stored_vectors(
    connection: Connection, state: CollectionState, document: dict[str, Any]
) -> Change | None:
    """Write a document with the vectors that it has; return None if they are not stored, or damaged."""
    found = stored_versions(connection, state.id, [document["id"]])
    changed = [(DocumentRecord(**document), vectors) for _, vectors in found.values()]
    return write_documents(connection, state, changed) if changed else None
