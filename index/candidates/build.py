"""Builds the index that suits the number of keys, and reads saved ones (measured: docs/performance/growth.md)."""

from pathlib import Path

import faiss

from index.candidates.base import CandidateIndex, SealedIndex
from index.candidates.int8 import Int8Index
from index.candidates.pq4 import PQ4Index
from index.candidates.refined import VectorReader
from index.records import Floats

PQ4_FROM = 100_000
"""Keys from which on a 4-bit scan that refines more keys is faster than an 8-bit scan."""


def seal(keys: Floats, read: VectorReader, previous: CandidateIndex | None = None) -> SealedIndex:
    """Return an index over keys (K, D); `read` returns keys by position for as long as the index is searched.

    previous: an index over the first of these keys. If it has the same type, only the other keys are added to a copy.
    The result is the same to the bit.
    """
    if len(keys) < PQ4_FROM:
        return Int8Index.build(keys, read, previous if isinstance(previous, Int8Index) else None)
    return PQ4Index.build(keys, read, previous if isinstance(previous, PQ4Index) else None)


def read_sealed(path: Path, read: VectorReader) -> SealedIndex:
    """Return the index of a file; the caller has verified the file's checksum."""
    index = faiss.read_index(str(path))
    if isinstance(index, faiss.IndexIVFPQFastScan):
        return PQ4Index(index, read)
    return Int8Index(index, read)
