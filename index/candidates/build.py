"""The choice of an index by the number of keys; docs/performance.md has the measurements that it rests on."""

from pathlib import Path

import faiss

from index.candidates.int8 import Int8Index
from index.candidates.pq4 import PQ4Index
from index.candidates.refined import Reader
from index.records import Floats

COMPRESSED_FROM = 100_000
"""Keys from which on a scan in 4 bits with more to refine is quicker than one in 8."""

SealedIndex = Int8Index | PQ4Index


def seal(keys: Floats, read: Reader, previous: SealedIndex | None = None) -> SealedIndex:
    """Return an index over keys (K, D); `read` gives them by position for as long as the index is searched.

    previous is one over the first of these keys: where it is of the same kind, only the others are added. What comes
    out is the same to the bit.
    """
    if len(keys) < COMPRESSED_FROM:
        return Int8Index(keys, read, previous if isinstance(previous, Int8Index) else None)
    return PQ4Index(keys, read, previous if isinstance(previous, PQ4Index) else None)


def read_sealed(path: Path, read: Reader) -> SealedIndex:
    """Return the index of a file whose checksum the caller has verified."""
    index = faiss.read_index(str(path))
    if isinstance(index, faiss.IndexIVFPQFastScan):
        return PQ4Index.of(index, read)
    return Int8Index.of(index, read)
