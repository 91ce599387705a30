"""What learning is compared with: BM25, dense, RRF and the best fixed fusion, over every document of a generation.

They read the same keys and the same word index as our search, so that the comparison is of rankings alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from index.evaluate import measure_run
from index.generation import Generation
from index.records import Floats, KeyKind

RRF_K = 60
RRF_DEPTH = 1000
WEIGHTS = tuple(round(0.05 * step, 2) for step in range(1, 41))
BLOCK = 256


@dataclass(frozen=True)
class Signals:
    """Scores of one block of queries over all N documents: dense (B, N), the best passage's cosine; words (B, N)."""

    queries: list[str]
    dense: Floats
    words: Floats


def signals(generation: Generation, texts: Mapping[str, str], vectors: Mapping[str, Floats]) -> Iterator[Signals]:
    """Yield the signals of all queries, a block at a time; texts and vectors are by query id."""
    passages = np.flatnonzero(generation.key_kind == KeyKind.PASSAGE)
    owner = generation.key_place[passages]
    starts = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
    queries = sorted(texts)
    for first in range(0, len(queries), BLOCK):
        block = queries[first : first + BLOCK]
        scores = np.stack([vectors[query] for query in block]) @ generation.keys[passages].T
        dense = np.full((len(block), len(generation.rows)), -1.0, np.float32)
        dense[:, owner[starts]] = np.maximum.reduceat(scores, starts, axis=1)
        words = np.zeros_like(dense)
        for at, query in enumerate(block):
            rows, found = generation.words.search(texts[query], len(generation.rows))
            words[at, generation.places(rows)] = found
        yield Signals(block, dense, words)


def fixed_fusions(one: Signals) -> Iterator[tuple[str, Floats]]:
    """Yield every fixed fusion tried: cosine or min-max dense, plus a weight times BM25 over its maximum."""
    words = one.words / np.maximum(one.words.max(1, keepdims=True), 1e-9)
    low, high = one.dense.min(1, keepdims=True), one.dense.max(1, keepdims=True)
    scaled = (one.dense - low) / np.maximum(high - low, 1e-9)
    for weight in WEIGHTS:
        yield f"cosine + {weight} bm25", one.dense + weight * words
        yield f"minmax + {weight} bm25", scaled + weight * words


def reciprocal_rank_fusion(one: Signals) -> Floats:
    """Return the RRF score of each document (Cormack et al. 2009), k = 60 over the first 1,000 of each list."""
    total = np.zeros_like(one.dense)
    for scores in (one.dense, one.words):
        order = np.argsort(-scores, axis=1, kind="stable")[:, :RRF_DEPTH]
        gains = 1.0 / (RRF_K + 1 + np.arange(order.shape[1], dtype=np.float32))
        found = np.take_along_axis(scores, order, axis=1) > (0 if scores is one.words else -1)
        fused = np.zeros_like(total)
        np.put_along_axis(fused, order, gains[None] * found, axis=1)
        total += fused
    return total


def top(scores: Floats, queries: list[str], ids: list[str], depth: int = 100) -> dict[str, list[str]]:
    """Return the best documents of each query; ties go to the document that came first."""
    part = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
    return {query: [ids[place] for place in row] for query, row in zip(queries, part, strict=True)}


def best_fixed_fusion(
    generation: Generation,
    texts: Mapping[str, str],
    vectors: Mapping[str, Floats],
    qrels: Mapping[str, Mapping[str, int]],
    ids: list[str],
) -> tuple[str, float]:
    """Return the fusion with the best mean nDCG@10 on these (train) queries, and that mean."""
    totals: dict[str, list[float]] = {}
    for one in signals(generation, texts, vectors):
        judged = {query: qrels[query] for query in one.queries}
        for name, scores in fixed_fusions(one):
            measured = measure_run(top(scores, one.queries, ids, 10), judged, ["nDCG@10"])["nDCG@10"]
            totals.setdefault(name, []).extend(measured.values())
    means = {name: float(np.mean(values)) for name, values in totals.items()}
    best = max(means, key=lambda name: means[name])
    return best, means[best]
