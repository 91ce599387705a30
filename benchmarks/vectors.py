"""A cache of the vectors of benchmark texts, for benchmarks of quality. Benchmarks of speed do not use it."""

import hashlib
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from index.encoding.encoder import Encoder, load_encoder
from index.records import EncodedQuery, Floats

CACHE = Path(__file__).parent / ".cache"
DOCUMENTS, QUERIES = "vectors", "query_vectors"


def converted_encoder(model: str) -> Encoder:
    """Return the encoder of a service, converted into the cache of the benchmarks."""
    return load_encoder(model, cache=CACHE / "encoders")


class CachedEncoder:
    """An encoder that asks another encoder only for texts that no earlier run has encoded."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.dim = encoder.dim
        self.fingerprint = encoder.fingerprint
        self.precision = encoder.precision
        self.cutter = encoder.cutter
        self.words = encoder.words
        CACHE.mkdir(exist_ok=True)
        self._path = CACHE / f"{encoder.fingerprint}.sqlite"
        with self._connection() as connection:
            for table in (DOCUMENTS, QUERIES):
                connection.execute(
                    f"CREATE TABLE IF NOT EXISTS {table} (sha256 BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID"
                )

    def encode(self, texts: Sequence[str], encoded: Callable[[int], None] | None = None) -> Floats:
        """Return unit vectors (len(texts), D) of documents. encoded: is called with their number at the end."""
        vectors = self._known_or_new(DOCUMENTS, texts, self._encoder.encode)
        if encoded:
            encoded(len(texts))
        return vectors

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Return unit vectors (len(texts), D) of queries."""
        return self._known_or_new(QUERIES, texts, self._encoder.encode_queries)

    def encode_query(self, text: str) -> EncodedQuery:
        """Return the unit vector (D,) of a query; all its tokens count as known."""
        return EncodedQuery(self.encode_queries([text])[0])

    def known_share(self, text: str) -> float:
        """Return 1: all tokens count as known."""
        return 1.0

    def _known_or_new(self, table: str, texts: Sequence[str], encode: Callable[[Sequence[str]], Floats]) -> Floats:
        names = [hashlib.sha256(text.encode("utf-8", "replace")).digest() for text in texts]
        with self._connection() as connection:
            known = {}
            for name in set(names):
                row = connection.execute(f"SELECT vector FROM {table} WHERE sha256 = ?", (name,)).fetchone()
                if row:
                    known[name] = np.frombuffer(row[0], "<f4")
        missing = [at for at, name in enumerate(names) if name not in known]
        if missing:
            fresh = encode([texts[at] for at in missing])
            with self._connection() as connection:
                connection.executemany(
                    f"INSERT OR REPLACE INTO {table} VALUES (?, ?)",
                    [(names[at], vector.astype("<f4").tobytes()) for at, vector in zip(missing, fresh, strict=True)],
                )
            known |= {names[at]: vector for at, vector in zip(missing, fresh, strict=True)}
        return np.stack([known[name] for name in names]) if texts else np.empty((0, self.dim), np.float32)

    def _connection(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=60)
