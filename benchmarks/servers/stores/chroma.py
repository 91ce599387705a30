"""Chroma: `chroma run`, and its client in every worker, which embeds with Chroma's own SentenceTransformer function."""

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import chromadb
from chromadb.utils.embedding_functions import SentenceTransformerEmbeddingFunction

from benchmarks.servers.ports import free_port
from benchmarks.servers.stores import Backend

COLLECTION = "documents"
CONFIGURATION: Any = {"hnsw": {"space": "ip", "ef_construction": 200, "ef_search": 200}}
START_SECONDS = 60


def serve(folder: Path) -> Backend:
    """Start the server over the folder and wait until it answers."""
    port = free_port()
    command = [str(Path(sys.executable).with_name("chroma")), "run", "--path", str(folder / "chroma")]
    server = subprocess.Popen([*command, "--host", "127.0.0.1", "--port", str(port)], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            chromadb.HttpClient("127.0.0.1", port)
            return Backend(str(port), server.terminate)
        except Exception:  # any error, until it listens
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


class ChromaStore:
    def __init__(self, address: str, model: str) -> None:
        embed: Any = SentenceTransformerEmbeddingFunction(model_name=model, device="cpu", normalize_embeddings=True)
        self._collection = chromadb.HttpClient("127.0.0.1", int(address)).get_or_create_collection(
            COLLECTION, embedding_function=embed, configuration=CONFIGURATION
        )

    def add(self, ids: list[str], texts: list[str], vectors: Sequence[Any] | None) -> None:
        given: Any = None if vectors is None else list(vectors)
        self._collection.add(ids=ids, documents=texts, embeddings=given)

    def settle(self) -> None:
        """Nothing to do: Chroma flushes by itself."""

    def search(self, text: str, limit: int) -> list[dict[str, Any]]:
        found: Any = self._collection.query(query_texts=[text], n_results=limit, include=["documents", "distances"])
        rows = zip(found["ids"][0], found["documents"][0], found["distances"][0], strict=True)
        return [{"id": one, "text": text, "score": 1 - distance} for one, text, distance in rows]
