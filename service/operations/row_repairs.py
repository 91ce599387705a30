"""Makes damaged vectors again from sound texts, for `softseek doctor --repair`. It names what it cannot mend.

A document with a damaged vector is written again with new vectors, if its row is sound. A past query is encoded again,
if only the vector of its key is damaged and its event or judgment is sound. All else stays as it is: nothing in the
database knows what it was.
"""

from typing import Any

from index.encoding.documents import encode_documents
from index.records import Document
from service.documents.indexing import Encoded, write_documents
from service.documents.repository import stored_bodies
from service.operations import damaged_rows_repository as repository
from service.operations.reencoding_repository import set_vectors
from service.operations.row_checks import Damage, listed
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import bump_watermark, confirmations
from service.runtime.runtime import Runtime

CHUNK = 128
"""Documents or past queries that are encoded and committed together."""
FEEDBACK = "delete the feedback on their queries, or restore a copy"
REMEDIES = {
    "events": FEEDBACK,
    "judgments": FEEDBACK,
    "pending documents": "post them again, or delete them",
    "logged searches": "they are deleted after retention_days; or restore a copy",
    "rules": "put them again, or delete them",
    "training runs": "restore a copy, or leave them: no search reads them",
    "settings": "restore a copy; or check name and settings, and import an export into a new directory",
    "records of models": "restore a copy, or train again and promote the new model",
    "files of models": "restore a copy, or train again and promote the new model",
    "champion and challenger": "promote a model or train again, or restore a copy",
    "promotions": "restore a copy, or leave them: only a rollback reads them",
}
"""Kind of rows that no repair makes again -> what remains to be done."""
REMEDIES_OUTSIDE = {
    "identity of the database": "it stays; if the next start refuses the data directory, start once with --new",
    "API keys": "they are refused from the next start on: make new keys, then delete them",
    "aliases of collections": "point them again, or delete them",
    "acts in the audit log": "they stay as they are; copies of before may have the right ones",
    "receipts of erasures": "they stay as they are; erase again, or keep the receipt of a copy",
    "tasks": "they stay until newer tasks replace them; no search reads them",
    "answers kept for Idempotency-Keys": "they are deleted after 24 hours",
}
"""Kind of rows that belong to no collection -> what remains to be done."""
Check = dict[str, Any]


def repair_rows(runtime: Runtime, state: CollectionState, damage: Damage) -> list[Check]:
    """Mend what can be mended of the damaged rows of a collection; return a check of each repair."""
    checks = []
    if damage.counts["documents"]:
        lost = f"their stored content is lost: {damage.named('documents')}; post them again, or delete them"
        checks.append(_check(state, "documents", False, lost))
    for kind in ("vectors", "memory"):
        if not damage.counts[kind]:
            continue
        if state.fingerprint != runtime.encoder.fingerprint:
            checks.append(_check(state, kind, False, "the encoder is not the encoder of the collection"))
        else:
            mend = _mend_documents if kind == "vectors" else _mend_memory
            checks.append(mend(runtime, state, damage))
    for kind, remedy in REMEDIES.items():
        if damage.counts[kind]:
            checks.append(_check(state, kind, False, _lost(damage, kind, remedy)))
    return checks


def repair_outside(damage: Damage) -> list[Check]:
    """Return a check of each kind of damaged rows outside all collections: none can be mended, all need the user."""
    return [
        {"name": f"repair of the {kind}", "ok": False, "detail": _lost(damage, kind, remedy)}
        for kind, remedy in REMEDIES_OUTSIDE.items()
        if damage.counts[kind]
    ]


def _lost(damage: Damage, kind: str, remedy: str) -> str:
    return f"what they were is lost: {damage.named(kind)}; {remedy}"


def _mend_documents(runtime: Runtime, state: CollectionState, damage: Damage) -> Check:
    """Encode the documents of damaged keys and values again, and write them as new rows with these vectors."""
    rows = sorted({number for _, row in damage.rows["vectors"] for number in row.documents})
    mended = 0
    lost: dict[int, str] = {}
    for start in range(0, len(rows), CHUNK):
        with runtime.database.read() as connection:
            found = repository.ids_of_rows(connection, state.id, rows[start : start + CHUNK])
            bodies = stored_bodies(connection, state.id, list(found.values()))
        sound = [Document(id, **body) for id, body in bodies.items() if body is not None]
        lost |= {row: id for row, id in found.items() if bodies.get(id) is None}
        vectors = encode_documents(runtime.encoder, sound, state.settings.kinds)
        _write(runtime, state, list(zip(sound, vectors, strict=True)))
        mended += len(sound)
    left = [(table, row.number) for table, row in damage.rows["vectors"] if lost.keys().isdisjoint(row.documents)]
    numbers = {kind: [number for table, number in left if table == kind] for kind in ("keys", "values")}
    with runtime.database.write() as connection:
        repository.delete_left_vectors(connection, **numbers)
    said = f"{mended} documents were encoded again"
    if lost:
        said += f"; not these, which are damaged: {listed(lost.values(), len(lost))}"
    return _check(state, "vectors", not lost, said)


def _write(runtime: Runtime, state: CollectionState, documents: list[Encoded]) -> None:
    if documents:
        with state.lock:
            with runtime.database.write() as connection:
                change = write_documents(connection, state, documents)
            change.publish(state)


def _mend_memory(runtime: Runtime, state: CollectionState, damage: Damage) -> Check:
    """Encode the texts of past queries again whose keys have damaged vectors."""
    unsound = {kind: {row.number for _, row in damage.rows[kind]} for kind in ("events", "judgments")}
    candidates = [row.number for _, row in damage.rows["memory"] if row.vector]
    mended = 0
    for start in range(0, len(candidates), CHUNK):
        with runtime.database.read() as connection:
            found = repository.query_texts(connection, candidates[start : start + CHUNK])
        texts = {
            key: text
            for key, (text, event, judgment) in found.items()
            if event not in unsound["events"] and judgment not in unsound["judgments"]
        }
        if texts:
            _replace_vectors(runtime, state, texts)
        mended += len(texts)
    lost = damage.counts["memory"] - mended
    said = f"{mended} past queries were encoded again"
    return _check(state, "memory", not lost, f"{said}; {lost} are lost: delete the feedback on them" if lost else said)


def _replace_vectors(runtime: Runtime, state: CollectionState, texts: dict[int, str]) -> None:
    vectors = runtime.encoder.encode_queries(list(texts.values()))
    with state.lock:
        with runtime.database.write() as connection:
            set_vectors(connection, zip(texts, vectors, strict=True))
            watermark = bump_watermark(connection, state.id, documents=False)
        with runtime.database.read() as connection:
            changed = confirmations(connection, state.id, list(texts))
        state.remember(watermark, changed, list(texts))


def _check(state: CollectionState, kind: str, ok: bool, detail: str) -> Check:
    return {"name": f"repair of the {kind} of {state.name}", "ok": ok, "detail": detail}
