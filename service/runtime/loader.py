"""Creates collections, and builds their state in memory from the tables."""

import shutil
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeVar

import numpy as np
import structlog
from sqlalchemy import Connection, RowMapping

from index.encoding.encoder import Encoder
from index.errors import DamagedFile
from index.generation.generation import Generation
from index.generation.store import GenerationStore
from index.memory.bounded_memory import BoundedMemory
from index.memory.confirmation import Confirmation
from index.ranking.attention import AttentionHead
from index.records import MemoryKey
from service.runtime.click_repository import click_counts
from service.runtime.collection import BOUNDS, CollectionState, Shelter, empty_memory
from service.runtime.collection_repository import (
    PART_SIZE,
    collection_row,
    confirmations,
    confirmations_without_vectors,
    document_rows,
    indexed_documents,
    insert_collection,
    read_confirmations,
    rows_without_vectors,
)
from service.runtime.collection_settings import CollectionSettings
from service.runtime.model_files import load_version
from service.runtime.model_repository import champion_version, click_worth, insert_model, point_alias
from service.runtime.rule_repository import rulebook
from service.runtime.served_collection import Serving
from service.storage.database import Database
from service.storage.unreadable_rows import reading

T = TypeVar("T")
log = structlog.get_logger()


def create_collection(
    database: Database, data: Path, name: str, settings: CollectionSettings, encoder_name: str, encoder: Encoder
) -> CollectionState:
    """Create an empty collection with the untrained model as champion, durably, and return its state.

    The index is made before the commit: after an error there is neither the row nor the folder.
    """
    state = None
    try:
        with database.write() as connection:
            state = _inserted(database, connection, data, name, settings, encoder_name, encoder)
    except BaseException:
        if state is not None:
            state.store.close()
            shutil.rmtree(state.directory, ignore_errors=True)
        raise
    return state


def _inserted(
    database: Database,
    connection: Connection,
    data: Path,
    name: str,
    settings: CollectionSettings,
    encoder_name: str,
    encoder: Encoder,
) -> CollectionState:
    """Insert a collection and make its index; the caller commits."""
    row = insert_collection(connection, name, asdict(settings), encoder_name, encoder.fingerprint, encoder.dim)
    insert_model(connection, row["id"], 0, {"lineage": {"kind": "initial"}, "report": {}, "decision": {}})
    point_alias(connection, row["id"], "champion", 0)
    try:
        return load_collection(database, row, data, sheltered=False)
    except BaseException:
        shutil.rmtree(index_directory(data, row["id"]), ignore_errors=True)
        raise


def index_directory(data: Path, collection_id: int) -> Path:
    """Return the folder of a collection's index."""
    return data / "indexes" / str(collection_id)


def load_collection(
    database: Database, row: RowMapping, data: Path, sheltered: bool = True, has_index: bool = True
) -> CollectionState:
    """Return the state of a stored collection. A missing, outdated or damaged index is rebuilt.

    sheltered: whether a full disk lets the index lie in a temporary folder. has_index: whether a missing
    index is damage, which is logged. Raises UnreadableRow.
    """
    directory = index_directory(data, row["id"])
    language, watermark = row["settings"]["language"], row["documents_watermark"]
    shelter: Shelter | None = None
    with database.read() as connection:
        try:
            store = GenerationStore.open(directory, row["dim"], language, watermark)
            saved = watermark
        except DamagedFile as damage:
            if watermark and has_index:
                log.warning("index_rebuilt", collection=row["name"], reason=str(damage))
            shelter, store = _rebuilt(connection, row, directory, sheltered)
            saved = -1
        state = CollectionState(row, directory, store, load_serving(connection, row))
        state.saved_watermark, state.shelter, state.behind = saved, shelter, shelter is not None
        state.without_vectors = rows_without_vectors(connection, row["id"])
        state.reindex = partial(reindex, database, state)
        state.rebuild = partial(rebuild_index, database, state)
        state.count_clicks = partial(click_counts, database, row["id"])
        state.read_log = partial(read_confirmations, database, row["id"])
        with reading("keys, events or judgments"):
            state.load_memory(confirmations_without_vectors(connection, row["id"]), row["watermark"])
        with reading("rules"):
            state.rules = rulebook(connection, row["id"], row["dim"])
        if state.rules.unreadable:
            log.error("rules_unreadable", collection=row["name"], rules=sorted(state.rules.unreadable))
    return state


def _rebuilt(
    connection: Connection, row: RowMapping, directory: Path, sheltered: bool
) -> tuple[Shelter | None, GenerationStore]:
    """Return an index of the stored documents, so that the service can search.

    Where the directory cannot be written, as on a full disk, it lies in a temporary folder. The word index reports a
    full disk in several ways, so every error counts; an error of the documents occurs there again.
    """
    shutil.rmtree(directory, ignore_errors=True)
    try:
        return None, _filled(connection, row, directory)
    except Exception as error:
        shutil.rmtree(directory, ignore_errors=True)
        if not sheltered:
            raise
        log.warning("index_behind", collection=row["name"], reason=str(error))
    shelter = Shelter(prefix="softseek-index-")
    return shelter, _filled(connection, row, Path(shelter.name) / directory.name)


def _filled(connection: Connection, row: RowMapping, directory: Path) -> GenerationStore:
    store = GenerationStore(directory, row["dim"], row["settings"]["language"])
    try:
        store.apply(row["documents_watermark"], indexed_documents(connection, row["id"]))
    except BaseException:
        store.close()
        raise
    return store


def load_serving(connection: Connection, row: RowMapping) -> Serving:
    """Return the champion. If its files are damaged, version 0 serves instead and every answer reports it."""
    initial = CollectionSettings(**row["settings"]).initial(row["dim"])
    with reading("aliases"):
        champion = champion_version(connection, row["id"])
    try:
        with reading("models"):
            worth = click_worth(connection, row["id"], champion)
        return Serving(champion, load_version(connection, row["id"], initial, champion), worth=worth)
    except DamagedFile as damage:
        log.error("champion_damaged", collection=row["name"], version=champion, reason=str(damage))
        return Serving(0, AttentionHead(initial), ("champion_damaged",))


def rebuild_index(database: Database, state: CollectionState, damaged: Generation) -> None:
    """Rebuild the index from the database, unless another thread has rebuilt it since `damaged` was current."""
    with state.lock:
        if state.is_removed or state.generation.key_guard is not damaged.key_guard:
            return
        log.warning("index_rebuilt", collection=state.name, reason="a key differs from its checksum")
        state.behind = True  # until the rebuild has succeeded
        with database.read() as connection:
            _rebuild(connection, state)
        state.behind = False


def reindex(database: Database, state: CollectionState, rebuild: bool) -> None:
    """Bring the index of a collection up to the database: by what it lacks, or else as a whole. The caller locks."""
    with database.read() as connection:
        watermark = collection_row(connection, state.id)["documents_watermark"]
        try:
            if rebuild:
                raise DamagedFile("a rebuild is asked for")
            _catch_up(connection, state, watermark)
        except Exception as error:  # the files are gone, or hold something else than they should
            log.warning("index_rebuilt", collection=state.name, reason=str(error))
            _rebuild(connection, state)
        state.without_vectors = rows_without_vectors(connection, state.id)
    state.documents_watermark = watermark


def _catch_up(connection: Connection, state: CollectionState, watermark: int) -> None:
    """Add the documents that the index lacks, and remove those that are not stored. Raises what the index raises."""
    if not state.store.is_on_disk or state.shelter is not None:
        raise DamagedFile("the files are missing")
    stored = np.asarray(document_rows(connection, state.id), np.int64)
    generation = state.generation
    missing = np.setdiff1d(stored, generation.rows[generation.alive])
    gone = np.setdiff1d(generation.rows, stored).tolist()
    for start in range(0, max(1, len(missing)), PART_SIZE):
        part = missing[start : start + PART_SIZE].tolist()
        added = indexed_documents(connection, state.id, part) if part else []
        state.store.apply(max(watermark, generation.watermark), added, gone)


def _rebuild(connection: Connection, state: CollectionState) -> None:
    """Replace the index by an index of the stored documents with the same memory."""
    before = state.generation
    documents = indexed_documents(connection, state.id)  # first: a row that cannot be read leaves the index as it is
    store = state.discard_index()
    try:
        store.apply(before.watermark, documents)
    except BaseException:
        store.close()
        raise
    store.remember(before.watermark, before.memory.keys)
    state.store = store
    if state.shelter is not None:
        state.shelter.cleanup()
        state.shelter = None


def memory_keys(connection: Connection, row: RowMapping) -> list[MemoryKey]:
    """Return the merged memory of a stored collection, aged to today, by the worth of clicks of its champion."""
    worth = click_worth(connection, row["id"], champion_version(connection, row["id"]))
    settings = CollectionSettings(**row["settings"])
    memory = empty_memory(settings, worth)
    read_log = partial(_stored_confirmations, connection, row["id"])
    bounded = BoundedMemory(memory, row["dim"], settings.memory_max_bytes, BOUNDS, read_log)
    bounded.load(confirmations_without_vectors(connection, row["id"]))
    return list(chain.from_iterable(memory.keys().values()))


def _stored_confirmations(
    connection: Connection, collection_id: int, query_keys: Sequence[str] | None
) -> list[Confirmation]:
    return confirmations(connection, collection_id, query_keys=query_keys)
