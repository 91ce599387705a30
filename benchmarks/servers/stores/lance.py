"""LanceDB in the process of the worker. No index: its documentation advises the exact scan below 100,000 rows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa

from benchmarks.servers.stores import DIM, Backend
from benchmarks.servers.stores.embedding import Embedding

TABLE = "documents"


def serve(folder: Path) -> Backend:
    """Return a backend without a process: LanceDB runs in the workers."""
    return Backend(str(folder), lambda: None)


class LanceStore:
    def __init__(self, address: str, model: str) -> None:
        self._encode = Embedding(model)
        self._schema = pa.schema([("id", pa.string()), ("text", pa.string()), ("vector", pa.list_(pa.float32(), DIM))])
        self._table = lancedb.connect(address).create_table(TABLE, schema=self._schema, exist_ok=True)

    def add(self, ids: list[str], texts: list[str], vectors: Sequence[Any] | None) -> None:
        found = self._encode(texts) if vectors is None else vectors
        numbers = pa.array(np.asarray(found, np.float32).ravel())
        columns = [pa.array(ids), pa.array(texts), pa.FixedSizeListArray.from_arrays(numbers, DIM)]
        self._table.add(pa.table(columns, schema=self._schema))

    def settle(self) -> None:
        self._table.optimize()

    def search(self, text: str, limit: int) -> list[dict[str, Any]]:
        asked = self._table.search(self._encode.query(text)).distance_type("dot").limit(limit)
        rows = asked.select(["id", "text", "_distance"]).to_list()
        return [{"id": row["id"], "text": row["text"], "score": 1 - row["_distance"]} for row in rows]
