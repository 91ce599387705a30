"""Many keys in one and in four partitions of a Ray cluster: the rows are written to the database without a service."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.growth import DIM, blocks
from benchmarks.partitions import coordinator, timings
from benchmarks.ray_process import replicas_of
from benchmarks.searchers import rate
from benchmarks.workers import proportional_mib
from index.encoding.documents import EncodedDocument
from index.records import Document, Key, KeyKind
from service.documents.repository import insert_documents, insert_vectors
from service.runtime.collection_repository import bump_watermark
from service.runtime.runtime import Runtime
from service.settings import Settings

COUNTS = (1, 4)
QUERIES = 200
WORDS = 5000
"""Different words of the documents; a query has two."""
ROWS = 5_000
"""Documents of a transaction."""


def measure_keys(folder: Path, address: str, count: int) -> dict[str, Any]:
    """Return the figures of a collection with so many documents of one key each."""
    written = write_rows(folder / "keys-writer", address, count)
    queries = [f"word{at} word{7 * at % WORDS}" for at in range(QUERIES)]
    found: dict[str, Any] = {"keys": count, "write_seconds": written, "ready": {}, "rates": {}, "rounds": {}, "mib": {}}
    for partitions in COUNTS:
        begun = time.monotonic()
        with coordinator(folder, address, None, partitions) as port:
            name = str(partitions)
            found["ready"][name] = time.monotonic() - begun
            found["rates"][name] = rate([port], queries)
            found["rounds"][name] = timings(port, queries)
            found["mib"][name] = [proportional_mib(replicas_of(part)[0]) for part in range(partitions)]
    return found


def write_rows(data: Path, address: str, count: int) -> float:
    """Write documents with made vectors and two words to the collection `default`; return the seconds."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    runtime = Runtime.open(Settings(data=data, database=address))  # type: ignore[arg-type]
    begun = time.monotonic()
    try:
        number = runtime.collection("default").id
        assert runtime.encoder.dim == DIM
        for first, vectors in blocks(count):
            for start in range(0, len(vectors), ROWS):
                part = vectors[start : start + ROWS]
                _write(runtime, number, first + start, list(part))
    finally:
        runtime.close()
    return time.monotonic() - begun


def _write(runtime: Runtime, collection: int, first: int, vectors: Sequence[np.ndarray]) -> None:
    records = [
        Document(f"d{at}", f"word{at % WORDS} word{at // WORDS % WORDS}") for at in range(first, first + len(vectors))
    ]
    encoded = [EncodedDocument([Key(KeyKind.PASSAGE, one, 0, 9)], one) for one in vectors]
    with runtime.database.write() as connection:
        rows = insert_documents(connection, collection, records, {})
        insert_vectors(connection, collection, rows, encoded)
        bump_watermark(connection, collection, documents=True)
