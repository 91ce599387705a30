"""What a training run learns from, written down as it starts: taken up again, it sees this and nothing that came later.

A folder of its own in the run's staging: the generation as its store saves it, feedback and memory as JSON and arrays
without pickle, everything under a manifest with sha256 that is written last. A folder without it is not complete.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from sqlalchemy import Connection, select

from index.encoding.encoder import load_encoder
from index.encoding.precision import Precision
from index.errors import DamagedFile
from index.generation.generation import Generation
from index.generation.store import GenerationStore
from index.learning.examples import Feedback, Showings, Solved
from index.ranking.attention import HeadConfig
from index.records import Floats, MemoryKey
from index.storage.files import read_manifest, sync_directory, write_manifest
from service.runtime.collection import CollectionSettings, indexed_documents, memory_keys
from service.runtime.feedback_log import gather_feedback
from service.storage.database import Database
from service.storage.tables import Collection

INDEX = "index"
TEXTS = "texts.json"
ARRAYS = "arrays.npz"

EncodeBy = Callable[[str, Sequence[str]], Floats]
"""An encoder's name and texts of queries to unit vectors (len(texts), D)."""


@dataclass(frozen=True)
class Inputs:
    """All that a fit is given besides the champion and its configuration, and the encoder's fingerprint."""

    generation: Generation
    feedback: list[Feedback]
    initial: HeadConfig
    fingerprint: str


def encode_by(model: str, texts: Sequence[str], precision: Precision = "auto", cache: Path | None = None) -> Floats:
    """Return unit vectors (len(texts), D) of queries by an encoder that is loaded for them."""
    return load_encoder(model, precision, cache).encode_queries(texts)


def inputs_of(directory: Path, database: Database, collection_id: int, encode: EncodeBy = encode_by) -> Inputs:
    """Return the inputs that lie in the directory; if they are not whole, they are gathered, written and read back.

    A run always learns from what was read back, so that taken up again it gets the same, down to the order of things.
    """
    try:
        return read_inputs(directory)
    except DamagedFile:  # also: the first start, or one that was broken off before the manifest was written
        shutil.rmtree(directory, ignore_errors=True)
        with database.read() as connection:
            write_inputs(directory, connection, collection_id, encode)
        return read_inputs(directory)


def write_inputs(directory: Path, connection: Connection, collection_id: int, encode: EncodeBy = encode_by) -> None:
    """Write what the database holds of a collection, as of this connection's snapshot, into a new directory."""
    directory.mkdir(parents=True)
    row = connection.execute(select(Collection.__table__).where(Collection.id == collection_id)).mappings().one()
    language, watermark = row["settings"]["language"], row["watermark"]
    store = GenerationStore(directory / INDEX, row["dim"], language)
    store.apply(watermark, indexed_documents(connection, collection_id))
    store.save(language, watermark)
    feedback = gather_feedback(connection, collection_id, lambda texts: encode(row["encoder"], texts))
    memory = memory_keys(connection, row)
    vectors: dict[str, Floats] = {}
    for key in memory:
        vectors.setdefault(key.query_key, key.vector)  # all keys of a past query have its vector
    texts = {"feedback": [_told(one) for one in feedback], "memory": list(vectors)}
    (directory / TEXTS).write_bytes(orjson.dumps(texts, option=orjson.OPT_NON_STR_KEYS))
    place = {query_key: at for at, query_key in enumerate(vectors)}
    np.savez(
        directory / ARRAYS,
        feedback=_stacked([one.vector for one in feedback], row["dim"]),
        memory=_stacked(list(vectors.values()), row["dim"]),
        source=np.asarray([place[key.query_key] for key in memory], np.int64),
        row=np.asarray([key.row for key in memory], np.int64),
        weight=np.asarray([key.weight for key in memory], np.float64),
        count=np.asarray([key.count for key in memory], np.int64),
    )
    facts = {name: row[name] for name in ("dim", "watermark", "settings", "fingerprint")}
    write_manifest(directory, [TEXTS, ARRAYS], facts)
    sync_directory(directory.parent)


def read_inputs(directory: Path) -> Inputs:
    """Return the inputs; raises DamagedFile unless every byte is there as it was written."""
    facts = read_manifest(directory)
    try:
        settings = CollectionSettings(**facts["settings"])
        dim, watermark = facts["dim"], facts["watermark"]
        texts = orjson.loads((directory / TEXTS).read_bytes())
        with np.load(directory / ARRAYS, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        store = GenerationStore.open(directory / INDEX, dim, settings.language, watermark)
        generation = store.remember(watermark, _memory(texts["memory"], arrays))
        generation.key_guard.check_all(generation.keys)  # a run that finds damage halfway would have to begin again
        store.close()  # nothing more is written; the generation stays searchable
        told = zip(texts["feedback"], arrays["feedback"], strict=True)
        feedback = [_feedback(one, vector) for one, vector in told]
        return Inputs(generation, feedback, settings.initial(dim), facts["fingerprint"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedFile(f"{directory.name}: the manifest does not describe the inputs of a run") from error


def _stacked(vectors: Sequence[Floats], dim: int) -> Floats:
    return np.asarray(vectors, np.float32).reshape(len(vectors), dim)


def _memory(query_keys: Sequence[str], arrays: Mapping[str, Any]) -> list[MemoryKey]:
    vectors = arrays["memory"]
    columns = (arrays[name].tolist() for name in ("source", "row", "weight", "count"))
    return [
        MemoryKey(row, vectors[query_key], weight, query_keys[query_key], count)
        for query_key, row, weight, count in zip(*columns, strict=True)
    ]


def _told(one: Feedback) -> dict[str, Any]:
    return {
        "source": one.query_key,
        "text": one.text,
        "gains": dict(one.gains),
        "shown": one.shown,
        "clicks": one.clicks,
        "examined": None if one.examined is None else sorted(one.examined),
        "sessions": [{"shown": dict(each.shown), "clicked": sorted(each.clicked)} for each in one.sessions],
    }


def _feedback(told: Mapping[str, Any], vector: Floats) -> Feedback:
    examined = told["examined"]
    return Feedback(
        told["source"],
        told["text"],
        vector,
        _by_number(told["gains"]),
        _showings(told["shown"]),
        _showings(told["clicks"]),
        None if examined is None else frozenset(examined),
        tuple(Solved(_by_number(each["shown"]), frozenset(each["clicked"])) for each in told["sessions"]),
    )


def _showings(told: Mapping[str, Any] | None) -> Showings | None:
    return None if told is None else {int(row): _by_number(times) for row, times in told.items()}


def _by_number(told: Mapping[str, Any]) -> dict[int, Any]:
    return {int(number): value for number, value in told.items()}
