"""Milvus standalone: the server with its etcd and its queue in a single process, reached over gRPC."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pymilvus import DataType, MilvusClient

from benchmarks.servers.stores import DIM, Backend
from benchmarks.servers.stores.embedding import Embedding

COLLECTION = "documents"
EF_SEARCH = 100
MAX_BYTES = 65_535
"""Length limit of a VARCHAR."""


def serve(folder: Path) -> Backend:
    """Start the server over the folder, create the collection and load it."""
    from milvus import MilvusServer

    server = MilvusServer(data_dir=str(folder))
    server.start()
    address = f"http://127.0.0.1:{server.listen_port}"
    client = MilvusClient(uri=address)
    if not client.has_collection(COLLECTION):
        _create(client)
    client.load_collection(COLLECTION)
    client.close()
    return Backend(address, server.stop)  # kills it after a second: it does not end by itself within 40


class MilvusStore:
    def __init__(self, address: str, model: str) -> None:
        self._encode = Embedding(model)
        self._client = MilvusClient(uri=address)

    def add(self, ids: list[str], texts: list[str], vectors: Sequence[Any] | None) -> None:
        found = np.asarray(self._encode(texts) if vectors is None else vectors, np.float32)
        rows = zip(ids, texts, found, strict=True)
        self._client.insert(COLLECTION, [{"id": one, "text": text, "vector": vector} for one, text, vector in rows])

    def settle(self) -> None:
        self._client.flush(COLLECTION)

    def search(self, text: str, limit: int) -> list[dict[str, Any]]:
        (hits,) = self._client.search(
            COLLECTION,
            data=[self._encode.query(text)],
            limit=limit,
            output_fields=["text"],
            search_params={"metric_type": "IP", "params": {"ef": EF_SEARCH}},
        )
        return [{"id": hit["id"], "text": hit["entity"]["text"], "score": hit["distance"]} for hit in hits]


def _create(client: MilvusClient) -> None:
    schema = client.create_schema()
    schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=512)
    schema.add_field("text", DataType.VARCHAR, max_length=MAX_BYTES)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=DIM)
    index = client.prepare_index_params()
    index.add_index("vector", index_type="HNSW", metric_type="IP", params={"M": 16, "efConstruction": 200})
    client.create_collection(COLLECTION, schema=schema, index_params=index)
