"""Ways to find the nearest keys, beside each other: what an index is chosen by.

    python -m benchmarks.scans --keys 10k,100k,1M,10M
    python -m benchmarks.scans --data ../shared/data

With --keys, on the vectors of benchmarks/growth.py, in a file that is mapped (1.5 kB a key: 10M want 16 GB of disk, and
as much memory to be quick). With --data, on all titles, passages and sentences of real collections, asked with their
queries: synthetic clusters are kind to lists, real text is not. Lists are not what the service uses; they are trained
on keys spread over all, or on the first quarter alone, as those of a collection that grew would be. Each way is built
and asked on one thread: seconds and milliseconds of the processor, and recall of the 100 nearest by every inner product
in float32.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.collections import read_set
from benchmarks.growth import BATCH, DIM, WANTED, blocks, parse_sizes, queries
from benchmarks.vectors import CachedEncoder, converted_encoder
from index.candidates.int8 import Int8Index
from index.candidates.pq4 import ROUNDS, PQ4Index
from index.candidates.refined import RefinedIndex, add
from index.encoding.documents import encode_documents
from index.encoding.model_files import DEFAULT_MODEL
from index.records import Document, Floats, Ints, KeyKind

ASKED = 300
"""Queries at most."""
BYTEWISE_UP_TO = 1_000_000
"""Keys: beyond, 8 bits take ten milliseconds and more."""
LISTS, PROBED = 1024, (64, 128, 256, 512)
LIST_KEYS = 64
"""That train, for each list."""

Way = tuple[str, Callable[[Floats], RefinedIndex], int]
"""Its name, what builds it, and how many lists a search scans, where there are any."""


class ListedIndex(PQ4Index):
    """Keys in lists by their nearest centroid, of which `probed` are scanned."""

    probed = 1

    def __init__(self, keys: Floats, share: float) -> None:
        """share: the first of the keys that train."""
        dim = keys.shape[1]
        index: Any = faiss.index_factory(dim, f"IVF{LISTS},PQ{dim // 2}x4fs", faiss.METRIC_INNER_PRODUCT)
        index.pq.cp.niter = index.cp.niter = ROUNDS
        index.cp.min_points_per_centroid = 1
        first = int(share * len(keys))
        index.train(np.ascontiguousarray(keys[: first : max(1, first // (LIST_KEYS * LISTS))]))
        add(index, keys)
        super().__init__(index, lambda positions: keys.take(positions, axis=0))

    def _scan(self, queries: Floats, k: int, selector: Any) -> Ints:
        found: Ints = self._index.search(queries, k, params=faiss.SearchParametersIVF(nprobe=self.probed))[1]
        return found


def main() -> None:
    """Measure each way; print a table for each set of keys, and one last line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with one folder per test set")
    parser.add_argument("--keys", type=parse_sizes, default=[], help="sizes, such as 10k,1M,10M")
    options = parser.parse_args()
    if not options.data and not options.keys:
        parser.error("--data or --keys is wanted")
    figures: dict[str, list[dict[str, Any]]] = {}
    for count in options.keys:
        with tempfile.TemporaryDirectory() as folder:
            figures[f"{count:,}"] = measure(_synthetic(count, Path(folder) / "keys.f32"), queries())
    if options.data:
        keys, asked = real(options.data)
        figures[f"{len(keys):,} of real text"] = measure(keys, asked)
    for name, ways in figures.items():
        _show(name, ways)
    print(json.dumps(figures))


def measure(keys: Floats, asked: Floats) -> list[dict[str, Any]]:
    """Return the figures of each way over keys (K, D) for queries (Q, D)."""
    faiss.omp_set_num_threads(1)
    asked = asked[:ASKED]
    truth = nearest(keys, asked)
    found: list[dict[str, Any]] = []
    built: dict[Callable[[Floats], RefinedIndex], tuple[RefinedIndex, float]] = {}
    for name, build, probed in _ways(len(keys)):
        if build not in built:
            built.clear()  # one at a time: each takes a gigabyte and more where keys are many
            started = time.process_time()
            built[build] = build(keys), time.process_time() - started
        index, seconds = built[build]
        if isinstance(index, ListedIndex):
            index.probed = probed
        milliseconds, recall = _searched(index, asked, truth)
        found.append({"way": name, "build_seconds": round(seconds, 2), "p50_ms": milliseconds, "recall": recall})
    return found


def nearest(keys: Floats, asked: Floats) -> Ints:
    """Return the positions (Q, WANTED) of the nearest keys by every inner product."""
    best = np.full((len(asked), WANTED), -np.inf, np.float32)
    place = np.zeros((len(asked), WANTED), np.int64)
    for first in range(0, len(keys), BATCH):
        scores = asked @ np.asarray(keys[first : first + BATCH]).T
        both = np.hstack([best, scores])
        where = np.hstack([place, np.broadcast_to(np.arange(first, first + scores.shape[1]), scores.shape)])
        top = np.argpartition(-both, WANTED - 1, axis=1)[:, :WANTED]
        best, place = np.take_along_axis(both, top, axis=1), np.take_along_axis(where, top, axis=1)
    return place


def real(data: Path) -> tuple[Floats, Floats]:
    """Return the keys (K, D) of all sets, each text once, and the vectors of queries, spread over the sets."""
    encoder = CachedEncoder(converted_encoder(DEFAULT_MODEL))
    vectors: dict[bytes, Floats] = {}
    asked: list[str] = []
    for folder in sorted(folder for folder in data.iterdir() if (folder / "corpus.jsonl").is_file()):
        one = read_set(folder)
        documents = [Document(part["id"], part["text"], part["title"]) for part in one.documents]
        for encoded in encode_documents(encoder, documents, set(KeyKind) - {KeyKind.QUERY}):
            vectors |= {key.vector.tobytes(): key.vector for key in encoded.keys}
        asked += sorted(set(one.queries.values()))
    chosen = asked[:: max(1, len(asked) // ASKED)]
    return np.stack(list(vectors.values())), encoder.encode_queries(chosen)


def _synthetic(count: int, path: Path) -> Floats:
    with path.open("wb") as file:
        for _, vectors in blocks(count):
            file.write(np.ascontiguousarray(vectors, np.float32).data)
    mapped: Floats = np.memmap(path, np.float32, "r", shape=(count, DIM))
    return mapped


def _ways(count: int) -> Iterator[Way]:
    if count <= BYTEWISE_UP_TO:
        yield "8 bits", _bytewise, 1
    yield "4 bits", _compressed, 1
    for told, build in (("all", _listed), ("the first quarter", _listed_by_a_quarter)):
        for probed in PROBED:
            yield f"4 bits, {probed} of {LISTS} lists, trained on {told}", build, probed


def _bytewise(keys: Floats) -> RefinedIndex:
    return Int8Index.build(keys, lambda positions: keys.take(positions, axis=0))


def _compressed(keys: Floats) -> RefinedIndex:
    return PQ4Index.build(keys, lambda positions: keys.take(positions, axis=0))


def _listed(keys: Floats) -> RefinedIndex:
    return ListedIndex(keys, 1.0)


def _listed_by_a_quarter(keys: Floats) -> RefinedIndex:
    return ListedIndex(keys, 0.25)


def _searched(index: RefinedIndex, asked: Floats, truth: Ints) -> tuple[float, float]:
    """Return the median milliseconds of the processor of a search for WANTED keys, and the mean recall."""
    spent, shares = [], []
    for query, right in zip(asked, truth, strict=True):
        started = time.thread_time()
        _, found = index.search(query[None], WANTED)
        spent.append(1000 * (time.thread_time() - started))
        shares.append(len(np.intersect1d(found[0], right)) / WANTED)
    return round(float(np.median(spent)), 2), round(float(np.mean(shares)), 4)


def _show(name: str, ways: list[dict[str, Any]]) -> None:
    table = Table("way", "build, s", "p50, ms", "recall@100", title=f"{name} keys")
    for one in ways:
        table.add_row(one["way"], *(str(one[part]) for part in ("build_seconds", "p50_ms", "recall")))
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
