"""Changes parts of documents: title, text, url, and metadata by key.

A change of url or metadata copies the stored keys and value to the new row of the document. A change of title or text
encodes the document again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NoReturn

from pydantic import ValidationError

from index.records import Document as DocumentRecord
from service.documents import repository
from service.documents.acceptance import INVALID, content_of, failed_item, noting_replacements, shown_id
from service.documents.checking import Wrong, check_document
from service.documents.indexing import make_searchable, write_documents
from service.documents.metadata import with_changes
from service.documents.schemas import DocumentIn, DocumentPatch
from service.documents.stored_versions_repository import stored_versions
from service.http.input_errors import input_errors
from service.http.problems import MAX_ERRORS, Problem, not_found
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import require_collection
from service.runtime.runtime import Runtime

PART = 100
"""Documents that are changed in one transaction: their texts are in memory, up to 4 MB each."""
ENCODED = ("title", "text")
"""The fields that keys are made from."""


def patch_document(runtime: Runtime, state: CollectionState, document_id: str, patch: DocumentPatch) -> dict[str, Any]:
    """Change a document, durably, and return it when the change is searchable.

    Raises Problem 404 without such a document, 409 for a document that differs from its checksum, and 422 if the
    changed document is not valid.
    """

    def refuse(problem: Problem) -> NoReturn:
        raise problem

    (after,) = _patch(runtime, state, [(document_id, patch)], refuse).outcomes
    assert after is not None
    return after  # not read again: another request may have deleted it by now


def patch_documents(runtime: Runtime, state: CollectionState, items: Sequence[Any]) -> dict[str, Any]:
    """Change documents, durably; return what happened when the changes are searchable.

    items: patches with an id. An item that is not valid, or whose document is not there, is refused by itself. Several
    patches of a document follow each other. PART of them are changed at a time, so after an error the first ones may be
    changed. Raises Problem 404 if the collection was deleted.
    """
    errors: list[dict[str, Any]] = []
    given: list[tuple[int, str, DocumentPatch]] = []
    for index, item in enumerate(items):
        patch = check_document(item, DocumentPatch)
        if isinstance(patch, Wrong):
            errors.append(failed_item(index, INVALID, patch.detail, shown_id(item), patch.field))
        elif patch.id is None:
            errors.append(failed_item(index, INVALID, "id: is required", None, "id"))
        else:
            given.append((index, patch.id, patch))
    unchanged = 0
    for start in range(0, len(given), PART):
        part = given[start : start + PART]
        problems: list[Problem] = []
        patched = _patch(runtime, state, [(id, patch) for _, id, patch in part], problems.append)
        unchanged += patched.unchanged
        refused = [(index, id) for (index, id, _), after in zip(part, patched.outcomes, strict=True) if after is None]
        errors += [_refused(*place, problem) for place, problem in zip(refused, problems, strict=True)]
    return {
        "items_total": len(items),
        "succeeded": len(items) - len(errors),
        "failed": len(errors),
        "unchanged": unchanged,
        "errors": sorted(errors, key=itemgetter("index")),
    }


def _refused(index: int, id: str, problem: Problem) -> dict[str, Any]:
    """Return the outcome of an item that was refused with a problem, with the first part that is wrong."""
    first = next((f"{one['pointer'].lstrip('/')}: {one['detail']}" for one in problem.errors), problem.detail)
    return failed_item(index, problem.code, first, id) | {"status": problem.status}


@dataclass(frozen=True)
class Patched:
    """The document after each patch, None for one that was refused, and the number of patches that changed nothing."""

    outcomes: list[dict[str, Any] | None]
    unchanged: int


def _patch(
    runtime: Runtime,
    state: CollectionState,
    patches: Sequence[tuple[str, DocumentPatch]],
    refuse: Callable[[Problem], None],
) -> Patched:
    """Change documents in one transaction, and make the changes searchable.

    patches: pairs of an id and a patch. refuse: is called within the transaction for each patch that is refused.
    """
    outcomes: list[dict[str, Any] | None] = []
    unchanged = 0
    with state.lock:
        with noting_replacements(state) as insert_pending, runtime.database.write() as connection:
            require_collection(connection, state.id)
            ids = list(dict.fromkeys(id for id, _ in patches))
            pending = repository.pending_bodies(connection, state.id, ids)
            before = repository.stored_bodies(connection, state.id, ids) | pending
            after = dict(before)
            for id, patch in patches:
                try:
                    newest = {"id": id, **_known(after, id)}
                    changed = _merged(newest, patch)
                except Problem as problem:
                    refuse(problem)
                    outcomes.append(None)
                    continue
                outcomes.append(changed)
                unchanged += content_of(changed) == content_of(newest)
                after[id] = {name: value for name, value in changed.items() if name != "id"}
            bodies = {  # in the order of the patches, so that documents keep theirs
                id: body for id in ids if (body := after.get(id)) and content_of(body) != content_of(before[id] or {})
            }
            copied = [id for id in bodies if id not in pending and _is_encoded_alike(before[id] or {}, bodies[id])]
            versions = stored_versions(connection, state.id, copied)
            records = [(DocumentRecord(id, **bodies[id]), versions[id][1]) for id in copied if id in versions]
            change = write_documents(connection, state, records) if records else None
            others = {id: body for id, body in bodies.items() if id not in versions}
            sequences = []
            if others:
                state.require_encoder(runtime.encoder)
                sequences = insert_pending(
                    connection, others, repository.pending_among(connection, state.id, list(others))
                )
        if change is not None:
            change.publish(state)
    if sequences:
        make_searchable(runtime, state, sequences)
    return Patched(outcomes, unchanged)


def _known(bodies: Mapping[str, dict[str, Any] | None], id: str) -> dict[str, Any]:
    """Return the body of a document. Raises Problem 404, and 409 if it is None because it is damaged."""
    if id not in bodies:
        raise not_found("document")
    body = bodies[id]
    if body is None:
        raise Problem(409, "document_damaged", "the stored document differs from its checksum; put it again as a whole")
    return body


def _is_encoded_alike(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether two versions of a document have the same keys."""
    return all(after[name] == before.get(name) for name in ENCODED)


def _merged(before: dict[str, Any], patch: DocumentPatch) -> dict[str, Any]:
    """Return the changed document. Raises Problem 422 if it is not valid, for example with too much metadata."""
    given = patch.model_dump(exclude_unset=True, exclude={"id"})
    if "metadata" in given:
        metadata = given["metadata"]
        given["metadata"] = {} if metadata is None else with_changes(before["metadata"], metadata)
    changed = before | given
    try:
        return DocumentIn.model_validate(changed).model_dump()
    except ValidationError as error:
        errors = input_errors(error.errors(), changed)
        detail = "the document is not valid with this change"
        raise Problem(422, INVALID, detail, errors[:MAX_ERRORS]) from error
