"""Small collections for the tests of this folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.encoding.hashing_encoder import HashingEncoder
from index.generation.generation import Generation, IndexedDocument
from index.generation.store import GenerationStore
from index.records import Floats, Key, KeyKind, MemoryKey

ENCODER = HashingEncoder(dim=32)


def unit(*numbers: float) -> Floats:
    """Return the unit vector in this direction."""
    vector = np.asarray(numbers, np.float32)
    return vector / np.linalg.norm(vector)


def random_vectors(count: int, dim: int, seed: int) -> Floats:
    """Return random unit vectors (count, dim)."""
    vectors = np.random.default_rng(seed).normal(size=(count, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def vector_of(text: str) -> Floats:
    """Return the vector that `ENCODER` gives a text."""
    return ENCODER.encode([text])[0]


def passages(row: int, words: str, *vectors: Floats) -> IndexedDocument:
    """Return a document whose passages have these vectors; passage i has the characters [10 i, 10 i + 9)."""
    keys = [Key(KeyKind.PASSAGE, vector, 10 * i, 10 * i + 9) for i, vector in enumerate(vectors)]
    return IndexedDocument(row, words, keys)


def written(row: int, text: str, title: str | None = None) -> IndexedDocument:
    """Return a document with a text of one passage and an optional title; both are indexed by words."""
    keys = [Key(KeyKind.PASSAGE, vector_of(text), 0, len(text))]
    if title:
        keys.insert(0, Key(KeyKind.TITLE, vector_of(title), 0, len(title)))
    return IndexedDocument(row, f"{title or ''}\n{text}", keys, title=title or "")


def remembered(number: int, row: int, query: str | Floats, weight: float = 1.0, query_key: str = "") -> MemoryKey:
    """Return a memory key: a document confirmed for a query, given as a text or a vector."""
    vector = vector_of(query) if isinstance(query, str) else query
    return MemoryKey(row, vector, weight, query_key or (query if isinstance(query, str) else f"source {number}"))


def arrays_of(generation: Generation) -> dict[str, NDArray[Any]]:
    """Return the arrays of documents that a search reads, by name, without the arrays of memory."""
    return {
        "keys": generation.keys,
        "values": generation.values,
        "alive": generation.alive,
        **generation.columns.by_name(),
    }


def store_of(directory: Path, documents: Sequence[IndexedDocument], dim: int = ENCODER.dim) -> GenerationStore:
    """Return a store with these documents at watermark 1, without stemming."""
    store = GenerationStore(directory, dim, "none")
    store.apply(1, documents)
    return store


def generation_of(
    directory: Path, documents: Sequence[IndexedDocument], memory: Sequence[MemoryKey] = (), dim: int = ENCODER.dim
) -> Generation:
    """Return a generation of these documents and this memory."""
    store = store_of(directory, documents, dim)
    generation = store.remember(2, memory)
    store.close()
    return generation
