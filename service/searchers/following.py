"""Brings a collection in the memory of a searcher up to its rows in the copy."""

from collections.abc import Collection, Iterator

from sqlalchemy import Connection, RowMapping

from service.runtime.collection import CollectionState
from service.runtime.collection_repository import PART_SIZE, confirmations, indexed_documents, rows_without_vectors
from service.runtime.collection_settings import CollectionSettings
from service.runtime.loader import load_serving
from service.runtime.rule_repository import rulebook
from service.searchers.replica import Effects

OF_MODELS = {"models", "model_files", "aliases"}


def follow_collection(connection: Connection, state: CollectionState, row: RowMapping, effects: Effects) -> bool:
    """Use the changed rows of a collection; return False if it must be loaded anew. The caller holds its lock.

    connection: on the copy. row: of the collection.
    """
    state.name = row["name"]
    settings = CollectionSettings(**row["settings"])
    if row["fingerprint"] != state.fingerprint or settings.language != state.settings.language:
        return False
    if not _use_documents(connection, state, row, effects):
        return False
    _use_settings(state, settings)
    if effects.tables & OF_MODELS:
        serving = load_serving(connection, row)
        if (serving.version, serving.degraded) != (state.serving.version, state.serving.degraded):
            state.serve(serving)
    if "rules" in effects.tables:
        state.rules = rulebook(connection, state.id, state.dim)
    return True


def _use_documents(connection: Connection, state: CollectionState, row: RowMapping, effects: Effects) -> bool:
    """Publish the documents and the memory. A document whose vectors were replaced in place is of a rebuilt index."""
    touched, ids = effects.documents.get(state.id, set()), effects.confirmations.get(state.id, set())
    searched = effects.searched.get(state.id, set())
    watermark, before = row["watermark"], state.generation
    indexed = {*touched} & set(before.rows[before.alive].tolist())
    documents = [one for part in _parts(touched) for one in indexed_documents(connection, state.id, part)]
    stored = {document.row for document in documents}
    if stored & indexed:
        return False
    remembered = [one for part in _parts(ids) for one in confirmations(connection, state.id, part)]
    forgotten = ids - {one.id for one in remembered}
    if touched:
        state.publish(watermark, documents, sorted(indexed - stored), remembered, forgotten)
        state.without_vectors = rows_without_vectors(connection, state.id)
    state.documents_watermark = row["documents_watermark"]
    if searched:
        state.forget(watermark, forgotten, remembered, searched)
    elif not touched and (ids or watermark != before.watermark):
        state.remember(watermark, remembered, forgotten)
    return True


def _use_settings(state: CollectionState, settings: CollectionSettings) -> None:
    before = state.settings
    if settings == before:
        return
    state.configure(settings)
    if settings.memory_half_life_days != before.memory_half_life_days:
        state.age(state.generation.watermark, settings.decay_clock())
    if settings.memory_max_mb != before.memory_max_mb:
        state.limit_memory(state.generation.watermark)


def _parts(numbers: Collection[int]) -> Iterator[list[int]]:
    ordered = sorted(numbers)
    return (ordered[start : start + PART_SIZE] for start in range(0, len(ordered), PART_SIZE))
