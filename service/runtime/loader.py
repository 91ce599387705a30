"""Creates collections, and builds their state in memory from the tables."""

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeVar

import structlog
from sqlalchemy import Connection, RowMapping

from index.encoding.encoder import Encoder
from index.errors import DamagedFile, DamagedKeys
from index.generation.generation import Generation
from index.generation.store import GenerationStore
from index.memory.bounded_memory import BoundedMemory
from index.memory.confirmation import Confirmation
from index.ranking.attention import AttentionHead
from index.records import MemoryKey
from service.runtime.click_repository import click_counts
from service.runtime.collection import BOUNDS, CollectionState, Serving, empty_memory
from service.runtime.collection_repository import (
    confirmations,
    confirmations_without_vectors,
    indexed_documents,
    insert_collection,
    read_confirmations,
    rows_without_vectors,
)
from service.runtime.collection_settings import CollectionSettings
from service.runtime.model_files import load_version
from service.runtime.model_repository import champion_version, click_worth, insert_model, point_alias
from service.runtime.rule_repository import rules
from service.runtime.rules import Rulebook
from service.storage.database import Database

T = TypeVar("T")
log = structlog.get_logger()


def create_collection(
    database: Database, data: Path, name: str, settings: CollectionSettings, encoder_name: str, encoder: Encoder
) -> CollectionState:
    """Create an empty collection with the untrained model as champion, durably, and return its state."""
    with database.write() as connection:
        row = insert_collection(connection, name, vars(settings), encoder_name, encoder.fingerprint, encoder.dim)
        insert_model(connection, row["id"], 0, {"lineage": {"kind": "initial"}, "report": {}, "decision": {}})
        point_alias(connection, row["id"], "champion", 0)
    return load_collection(database, row, data)


def index_directory(data: Path, collection_id: int) -> Path:
    """Return the folder of a collection's index."""
    return data / "indexes" / str(collection_id)


def load_collection(database: Database, row: RowMapping, data: Path) -> CollectionState:
    """Return the state of a stored collection. A missing, outdated or damaged index is rebuilt."""
    directory = index_directory(data, row["id"])
    language, watermark = row["settings"]["language"], row["documents_watermark"]
    with database.read() as connection:
        try:
            store = GenerationStore.open(directory, row["dim"], language, watermark)
            saved = watermark
        except DamagedFile as damage:
            if watermark:
                log.warning("index_rebuilt", collection=row["name"], reason=str(damage))
            shutil.rmtree(directory, ignore_errors=True)
            store, saved = GenerationStore(directory, row["dim"], language), -1
            store.apply(watermark, indexed_documents(connection, row["id"]))
        state = CollectionState(row, directory, store, load_serving(connection, row, data))
        state.saved_watermark = saved
        state.without_vectors = rows_without_vectors(connection, row["id"])
        state.count_clicks = partial(click_counts, database, row["id"])
        state.read_log = partial(read_confirmations, database, row["id"])
        state.load_memory(confirmations_without_vectors(connection, row["id"]), row["watermark"])
        state.rules = Rulebook(rules(connection, row["id"]))
    return state


def load_serving(connection: Connection, row: RowMapping, data: Path) -> Serving:
    """Return the champion. If its file is damaged, version 0 serves instead and every answer reports it."""
    initial = CollectionSettings(**row["settings"]).initial(row["dim"])
    champion = champion_version(connection, row["id"])
    try:
        worth = click_worth(connection, row["id"], champion)
        return Serving(champion, load_version(row["id"], initial, champion, data), worth=worth)
    except DamagedFile as damage:
        log.error("champion_damaged", collection=row["name"], version=champion, reason=str(damage))
        return Serving(0, AttentionHead(initial), ("champion_damaged",))


def with_sound_index(database: Database, state: CollectionState, work: Callable[[], T]) -> T:
    """Return the result of work on the index. If the index is damaged, it is rebuilt, and the work is done again."""
    generation = state.generation
    try:
        return work()
    except DamagedKeys:
        rebuild_index(database, state, generation)
        return work()


def rebuild_index(database: Database, state: CollectionState, damaged: Generation) -> None:
    """Rebuild the index from the database, unless another thread has rebuilt it since `damaged` was current."""
    with state.lock:
        before = state.generation
        if before.key_guard is not damaged.key_guard:
            return
        log.warning("index_rebuilt", collection=state.name, reason="a key differs from its checksum")
        store = state.discard_index()
        with database.read() as connection:
            store.apply(before.watermark, indexed_documents(connection, state.id))
        store.remember(before.watermark, before.memory.keys)
        state.store = store


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
