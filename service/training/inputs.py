"""The inputs of a training run, written to its staging folder at its start: a resumed run reads the same inputs.

The folder holds the saved generation, and feedback and memory as JSON and arrays without pickle. A manifest with sha256
covers all files and is written last; a folder without a manifest is incomplete.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from sqlalchemy import Connection

from index.encoding.encoder import Encoder, load_encoder
from index.errors import DamagedFile, EncoderMismatch
from index.generation.generation import Generation
from index.generation.store import GenerationStore
from index.learning.examples import Feedback, InContext, Showings, Solved, with_search_vectors
from index.learning.field_effects import Label, key_of, labels_of
from index.learning.made_queries import SourceText
from index.learning.slates import Slate
from index.ranking.attention import HeadConfig
from index.records import Floats, MemoryKey
from index.storage.files import read_manifest, sync_directory, write_manifest
from service.runtime.collection_repository import PART_SIZE, collection_row, indexed_documents, require_collection
from service.runtime.collection_settings import CollectionSettings
from service.runtime.feedback_log import gather_feedback
from service.runtime.feedback_repository import learned_since
from service.runtime.loader import memory_keys
from service.storage.database import DatabaseReader
from service.training.repository import document_rows, feedback_window, metadata_of, newer_documents, texts_of

INDEX = "index"
TEXTS = "texts.json"
ARRAYS = "arrays.npz"
MAX_DOCUMENTS = 20_000
"""Documents that a run without feedback reads, at most: its cost does not grow with a large collection."""
MAX_TEXTS = 400
"""Documents whose texts a run without feedback reads, at most."""

LoadEncoder = Callable[[str], Encoder]
"""Name of an encoder to the encoder of the service."""


@dataclass(frozen=True)
class Inputs:
    """The inputs of a fit, without the champion and the fit's configuration, and the encoder with its fingerprint.

    A run on feedback has no texts; a run on the documents has no feedback and no memory.
    """

    generation: Generation
    feedback: list[Feedback]
    initial: HeadConfig
    fingerprint: str
    encoder: str = ""
    texts: tuple[SourceText, ...] = ()
    new: frozenset[int] = frozenset()
    """The rows of the documents that are newer than all documents that a list of the feedback shows."""
    window: Mapping[str, Any] | None = None
    """The counts and times of the feedback, as of the read of the inputs; None for a run on the documents."""
    labels: Mapping[int, Label] = field(default_factory=dict)
    """The labels of the keys of metadata that may have an effect: of filterable fields."""
    newer: frozenset[int] = frozenset()
    """The rows of the documents that are newer than all documents that the feedback names."""


def encoder_of_keys(load: LoadEncoder, model: str, fingerprint: str) -> Encoder:
    """Load the encoder of the keys, whose fingerprint is given.

    Raises EncoderMismatch if the weights of this machine have another one.
    """
    encoder = load(model)
    if encoder.fingerprint != fingerprint:
        raise EncoderMismatch("the collection was encoded with other weights than this machine has")
    return encoder


def load_inputs(
    directory: Path,
    database: DatabaseReader,
    collection_id: int,
    load: LoadEncoder = load_encoder,
    known: frozenset[str] = frozenset(),
    learn_from: str = "feedback",
    explored: bool = False,
) -> Inputs:
    """Return the inputs in the directory. If they are incomplete or damaged, gather and write them first.

    known: the words that are not corrected in queries. learn_from: `feedback` or `documents`. explored: whether the run
    learns from explored lists.

    The inputs are always read from the directory, so that a resumed run gets the same inputs in the same order.
    """
    try:
        return read_inputs(directory, known)
    except DamagedFile:  # also at the first start, and after an interruption before the manifest was written
        shutil.rmtree(directory, ignore_errors=True)
        with database.read() as connection:
            write_inputs(directory, connection, collection_id, load, known, learn_from, explored)
        return read_inputs(directory, known)


def write_inputs(
    directory: Path,
    connection: Connection,
    collection_id: int,
    load: LoadEncoder = load_encoder,
    known: frozenset[str] = frozenset(),
    learn_from: str = "feedback",
    explored: bool = False,
) -> None:
    """Write the inputs of a collection into a new directory, as of this connection's snapshot (`load_inputs`).

    Raises Problem 404 if the collection was deleted.
    """
    require_collection(connection, collection_id)
    directory.mkdir(parents=True)
    row = collection_row(connection, collection_id)
    language, watermark = row["settings"]["language"], row["watermark"]
    store = GenerationStore(directory / INDEX, row["dim"], language)
    feedback: list[Feedback] = []
    memory: list[MemoryKey] = []
    documents: list[tuple[int, str, str]] = []
    new: frozenset[int] = frozenset()
    window: dict[str, Any] | None = None
    labels: dict[int, Label] = {}
    newer: frozenset[int] = frozenset()
    if learn_from == "documents":
        rows = _spaced(document_rows(connection, collection_id), MAX_DOCUMENTS)
        parts = (rows[start : start + PART_SIZE] for start in range(0, len(rows), PART_SIZE))
        store.apply(watermark, [one for part in parts for one in indexed_documents(connection, collection_id, part)])
        documents = texts_of(connection, _spaced(rows, MAX_TEXTS))
    else:
        store.apply(watermark, indexed_documents(connection, collection_id))
        encoder = cache(partial(encoder_of_keys, load, row["encoder"], row["fingerprint"]))
        settings = CollectionSettings(**row["settings"])
        since = learned_since(connection, collection_id, settings.memory_half_life_days)
        feedback = gather_feedback(
            connection, collection_id, lambda texts: encoder().encode_queries(texts), explored, since
        )
        reading = replace(settings.reading, known=known)
        feedback = with_search_vectors(store.current, feedback, encoder, reading)
        memory = memory_keys(connection, row)
        shown = {row for one in feedback for row in one.shown or ()}
        new = frozenset(newer_documents(connection, collection_id, sorted(shown)))
        window = feedback_window(connection, collection_id) | {"learned_since": since}
        named = shown | {row for one in feedback for row, gain in one.gains.items() if gain > 0}
        newer = frozenset(newer_documents(connection, collection_id, sorted(named)))
        metadata = metadata_of(connection, collection_id)
        labels = labels_of(store.current, metadata, row["settings"].get("filterable") or ())
    store.save(language, watermark)
    vectors: dict[str, Floats] = {}
    for key in memory:
        vectors.setdefault(key.query_key, key.vector)  # all keys of a query have the same vector
    texts = {
        "feedback": [_feedback_json(one) for one in feedback],
        "memory": list(vectors),
        "documents": documents,
        "new": sorted(new),
        "window": window,
        "labels": list(labels.values()),
        "newer": sorted(newer),
    }
    (directory / TEXTS).write_bytes(orjson.dumps(texts, option=orjson.OPT_NON_STR_KEYS))
    query_index = {query_key: index for index, query_key in enumerate(vectors)}
    np.savez(
        directory / ARRAYS,
        feedback=_stacked([one.vector for one in feedback if len(one.vector)], row["dim"]),
        typed=_stacked([one.memory_vector for one in feedback if one.memory_vector is not None], row["dim"]),
        memory=_stacked(list(vectors.values()), row["dim"]),
        source=np.asarray([query_index[key.query_key] for key in memory], np.int64),
        row=np.asarray([key.row for key in memory], np.int64),
        weight=np.asarray([key.weight for key in memory], np.float64),
        count=np.asarray([key.count for key in memory], np.int64),
    )
    facts = {name: row[name] for name in ("dim", "watermark", "settings", "fingerprint", "encoder")}
    write_manifest(directory, [TEXTS, ARRAYS], facts)
    sync_directory(directory.parent)


def read_inputs(directory: Path, known: frozenset[str] = frozenset()) -> Inputs:
    """Return the inputs. known: the words that are not corrected in queries.

    Raises DamagedFile if a file is missing or differs from its checksum.
    """
    facts = read_manifest(directory)
    try:
        settings = CollectionSettings(**facts["settings"])
        dim, watermark = facts["dim"], facts["watermark"]
        texts = orjson.loads((directory / TEXTS).read_bytes())
        with np.load(directory / ARRAYS, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        store = GenerationStore.open(
            directory / INDEX, dim, settings.language, watermark, replace(settings.reading, known=known)
        )
        generation = store.remember(watermark, _memory(texts["memory"], arrays))
        generation.key_guard.check_all(generation.keys)  # damage found later would waste the trials until then
        store.close()  # the generation stays searchable
        feedback = _feedbacks(texts["feedback"], arrays["feedback"], arrays["typed"])
        documents = tuple(SourceText(*one) for one in texts.get("documents", []))
        initial, encoder = settings.initial(dim), facts.get("encoder", "")
        new = frozenset(texts.get("new", ()))
        window = texts.get("window")
        labels = {key_of(label): label for label in map(_label, texts.get("labels", ()))}
        newer = frozenset(texts.get("newer", ()))
        given = generation, feedback, initial, facts["fingerprint"], encoder, documents, new, window
        return Inputs(*given, labels, newer)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedFile(f"{directory.name}: the manifest does not describe the inputs of a run") from error


def _label(stored: Sequence[Any]) -> Label:
    field, category = stored
    return field, category


def _spaced(rows: Sequence[int], most: int) -> Sequence[int]:
    """Return at most `most` rows, evenly spaced."""
    return [rows[at * len(rows) // most] for at in range(most)] if len(rows) > most else rows


def _stacked(vectors: Sequence[Floats], dim: int) -> Floats:
    return np.asarray(vectors, np.float32).reshape(len(vectors), dim)


def _memory(query_keys: Sequence[str], arrays: Mapping[str, Any]) -> list[MemoryKey]:
    vectors = arrays["memory"]
    columns = (arrays[name].tolist() for name in ("source", "row", "weight", "count"))
    return [
        MemoryKey(row, vectors[index], weight, query_keys[index], count)
        for index, row, weight, count in zip(*columns, strict=True)
    ]


def _feedback_json(one: Feedback) -> dict[str, Any]:
    return {
        "source": one.query_key,
        "text": one.text,
        "gains": dict(one.gains),
        "shown": one.shown,
        "clicks": one.clicks,
        "examined": None if one.examined is None else sorted(one.examined),
        "contexts": [
            {"context": each.context, "shown": dict(each.shown), "clicked": sorted(each.clicked)}
            for each in one.contexts
        ],
        "sessions": [{"shown": dict(each.shown), "clicked": sorted(each.clicked)} for each in one.sessions],
        "explored": [asdict(each) for each in one.explored],
        "known": one.known,
        "contrasts": one.contrasts,
        "clients": one.clients,
        "typed": one.memory_vector is not None,
    }


def _feedbacks(records: Sequence[Mapping[str, Any]], vectors: Floats, typed: Floats) -> list[Feedback]:
    """Return the feedback of these records. The last records, queries without feedback, have no vector.

    typed (T, D): vectors of the typed texts of the T queries for which searches encode another text, in their order.
    """
    silent, left = [np.empty(0, np.float32)] * (len(records) - len(vectors)), iter(typed)
    return [
        _feedback(record, vector, next(left) if record["typed"] else None)
        for record, vector in zip(records, [*vectors, *silent], strict=True)
    ]


def _feedback(record: Mapping[str, Any], vector: Floats, memory_vector: Floats | None) -> Feedback:
    examined = record["examined"]
    return Feedback(
        record["source"],
        record["text"],
        vector,
        _by_number(record["gains"]),
        _showings(record["shown"]),
        _showings(record["clicks"]),
        None if examined is None else frozenset(examined),
        tuple(Solved(_by_number(each["shown"]), frozenset(each["clicked"])) for each in record["sessions"]),
        contexts=tuple(_in_context(each) for each in record.get("contexts", ())),
        explored=tuple(
            Slate(**{name: tuple(values) for name, values in each.items()}) for each in record.get("explored", [])
        ),
        memory_vector=memory_vector,
        known=record["known"],
        contrasts=tuple((earlier, rank, value) for earlier, rank, value in record.get("contrasts", ())),
        clients=_showings(record.get("clients")),
    )


def _in_context(record: Mapping[str, Any]) -> InContext:
    return InContext(tuple(record["context"]), _by_number(record["shown"]), frozenset(record["clicked"]))


def _showings(counts: Mapping[str, Any] | None) -> Showings | None:
    return None if counts is None else {int(row): _by_number(times) for row, times in counts.items()}


def _by_number(values: Mapping[str, Any]) -> dict[int, Any]:
    return {int(number): value for number, value in values.items()}
