"""Keys in one generation and in several parts: how the candidates by keys are split, and whether they are the same.

In this process, one part after the other, without messages between processes. A search over parts on machines of their
own takes as long as the slowest part.
"""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.growth import DIM, WANTED, Truth, blocks, queries
from index.generation.generation import Generation, IndexedDocument
from index.generation.store import GenerationStore
from index.partitions.part import nominate
from index.partitions.parted import cut
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.retrieval import Mode, Query
from index.records import Floats, Ints, Key, KeyKind

HEAD = AttentionHead(HeadConfig(dim=DIM))
WARM = 20
"""Searches that are not counted."""


def measure_parts(count: int, parts: int) -> dict[str, Any]:
    """Return the figures of this number of keys, in one generation and in parts."""
    with tempfile.TemporaryDirectory() as made:
        truth = Truth(queries())
        stores = [GenerationStore(Path(made) / str(at), DIM, "none") for at in range(parts + 1)]
        for first, vectors in blocks(count):
            truth.see(first, vectors)
            _add(stores, first, vectors)
        for store in stores:
            store.settle()
        whole, *split = (store.current for store in stores)
        right = truth.nearest()["all"]
        alone, own = _searches([whole], right)
        parted, each = _searches(split, right)
        for store in stores:
            store.close()
    return {
        "keys": count,
        "parts": parts,
        "recall": alone,
        "parted_recall": parted,
        "p50_cpu_ms": _p50(own[:, 0]),
        "slowest_p50_cpu_ms": _p50(each.max(axis=1)),
        "sum_p50_cpu_ms": _p50(each.sum(axis=1)),
    }


def _add(stores: Sequence[GenerationStore], first: int, vectors: Floats) -> None:
    """Add documents of one key each to the whole, the first store, and to the parts by the remainder of their rows."""
    documents = [
        IndexedDocument(first + row, "", [Key(KeyKind.PASSAGE, vector, 0, 1)]) for row, vector in enumerate(vectors)
    ]
    parts = len(stores) - 1
    stores[0].apply(1, documents)
    for number, store in enumerate(stores[1:]):
        store.apply(1, [one for one in documents if one.row % parts == number])


def _searches(generations: Sequence[Generation], truth: Sequence[Ints]) -> tuple[float, Floats]:
    """Return the recall of the candidates, and the processor milliseconds (QUERIES, parts) of each part."""
    shared, spent = [], []
    for vector, right in zip(queries(), truth, strict=True):
        query = Query("", vector, Mode.DENSE, WANTED)
        nominated, times = [], []
        for generation in generations:
            used = time.thread_time()
            nominated.append(nominate(generation, HEAD, query, vector[None], vector))
            times.append(1000 * (time.thread_time() - used))
        rows, _ = cut(nominated, query)
        shared.append(len(np.intersect1d(rows, right)) / WANTED)
        spent.append(times)
    return round(float(np.mean(shared)), 5), np.asarray(spent[WARM:], np.float32)


def _p50(times: Floats) -> float:
    return round(float(np.median(times)), 2)
