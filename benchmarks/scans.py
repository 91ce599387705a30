"""Ways to find the nearest keys, side by side: the measurements behind the choice of an index.

    python -m benchmarks.scans --keys 10k,100k,1M,10M --data ../shared/data --out benchmarks/results/scans.json
    python -m benchmarks.scans --keys 10k,50k,100k,400k --wanted 400 --without-lists \
        --out benchmarks/results/index_choice.json

`--keys` uses the vectors of benchmarks/growth.py in a mapped file (1.5 kB a key; 10M keys need 16 GB of disk, and as
much memory to be fast). `--data` adds all titles, passages and sentences of real collections, searched with their
queries: lists by centroids find more of the nearest keys in synthetic clusters than in real text. The service does not
use lists. They are trained on keys spread over the collection, or on its first quarter alone, as in a collection that
grew. Every index is built and searched on one thread. Reported are processor seconds of the build, processor
milliseconds of a search, and recall of the nearest keys against every inner product in float32.
"""

import argparse
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
from benchmarks.result_file import add_out, publish
from benchmarks.vectors import CachedEncoder, converted_encoder
from index.candidates.int8 import Int8Index
from index.candidates.pq4 import ONE_BY_ONE, ROUNDS, PQ4Index
from index.candidates.refined import RefinedIndex, add
from index.encoding.documents import encode_documents
from index.encoding.model_files import DEFAULT_MODEL
from index.records import Document, Floats, Ints, KeyKind

ASKED = 300
"""Number of queries, at most."""
INT8_UP_TO = 1_000_000
"""Number of keys; above it, an 8-bit scan takes more than ten milliseconds."""
LISTS, PROBED = 1024, (64, 128, 256, 512)
LIST_KEYS = 64
"""Training keys per list."""

Way = tuple[str, Callable[[Floats], RefinedIndex], int]
"""Its name, its builder, and the number of lists that a search scans, if it has lists."""


class ListedIndex(PQ4Index):
    """Keys in lists by their nearest centroid. A search scans `probed` lists."""

    probed = 1

    def __init__(self, keys: Floats, share: float) -> None:
        """share: the share of the keys, from the first on, that the centroids are trained on."""
        dim = keys.shape[1]
        index: Any = faiss.index_factory(dim, f"IVF{LISTS},PQ{dim // 2}x4fs", faiss.METRIC_INNER_PRODUCT)
        index.pq.cp.niter = index.cp.niter = ROUNDS
        index.cp.min_points_per_centroid = 1
        first = int(share * len(keys))
        index.train(np.ascontiguousarray(keys[: first : max(1, first // (LIST_KEYS * LISTS))]))
        index.implem = ONE_BY_ONE
        add(index, keys)
        RefinedIndex.__init__(self, index, lambda positions: keys.take(positions, axis=0))

    def _scan(self, queries: Floats, k: int, selector: Any) -> Ints:
        found: Ints = self._index.search(queries, k, params=faiss.SearchParametersIVF(nprobe=self.probed))[1]
        return found


def main() -> None:
    """Measure each way; print a table for each set of keys, and one last line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with one folder per test set")
    parser.add_argument("--keys", type=parse_sizes, default=[], help="sizes, such as 10k,1M,10M")
    parser.add_argument("--wanted", type=int, default=WANTED, help="number of nearest keys that a search returns")
    parser.add_argument("--without-lists", action="store_true", help="measure 8 bits and 4 bits only")
    add_out(parser)
    options = parser.parse_args()
    if not options.data and not options.keys:
        parser.error("--data or --keys is required")
    figures: dict[str, list[dict[str, Any]]] = {}
    wanted, lists = options.wanted, not options.without_lists
    for count in options.keys:
        with tempfile.TemporaryDirectory() as folder:
            figures[f"{count:,}"] = measure(_synthetic(count, Path(folder) / "keys.f32"), queries(), wanted, lists)
    if options.data:
        keys, asked = real(options.data)
        figures[f"{len(keys):,} of real text"] = measure(keys, asked, wanted, lists)
    for name, ways in figures.items():
        _show(name, ways, wanted)
    publish({"wanted": wanted, "keys": figures}, [], options.out)


def measure(keys: Floats, asked: Floats, wanted: int = WANTED, lists: bool = True) -> list[dict[str, Any]]:
    """Return the figures of each way over keys (K, D) for queries (Q, D)."""
    faiss.omp_set_num_threads(1)
    asked = asked[:ASKED]
    truth = nearest(keys, asked, wanted)
    found: list[dict[str, Any]] = []
    built: dict[Callable[[Floats], RefinedIndex], tuple[RefinedIndex, float]] = {}
    for name, build, probed in _ways(len(keys), lists):
        if build not in built:
            built.clear()  # each takes gigabytes with many keys, so one at a time
            started = time.process_time()
            built[build] = build(keys), time.process_time() - started
        index, seconds = built[build]
        if isinstance(index, ListedIndex):
            index.probed = probed
        milliseconds, recall = _searched(index, asked, truth)
        found.append({"way": name, "build_seconds": round(seconds, 2), "p50_ms": milliseconds, "recall": recall})
    return found


def nearest(keys: Floats, asked: Floats, wanted: int = WANTED) -> Ints:
    """Return the positions (Q, wanted) of the nearest keys by every inner product."""
    best = np.full((len(asked), wanted), -np.inf, np.float32)
    position = np.zeros((len(asked), wanted), np.int64)
    for first in range(0, len(keys), BATCH):
        scores = asked @ np.asarray(keys[first : first + BATCH]).T
        both = np.hstack([best, scores])
        where = np.hstack([position, np.broadcast_to(np.arange(first, first + scores.shape[1]), scores.shape)])
        top = np.argpartition(-both, wanted - 1, axis=1)[:, :wanted]
        best, position = np.take_along_axis(both, top, axis=1), np.take_along_axis(where, top, axis=1)
    return position


def real(data: Path) -> tuple[Floats, Floats]:
    """Return the distinct keys (K, D) of all sets, and the vectors of queries, spread over the sets."""
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


def _ways(count: int, lists: bool) -> Iterator[Way]:
    if count <= INT8_UP_TO:
        yield "8 bits", _int8, 1
    yield "4 bits", _pq4, 1
    if not lists:
        return
    for trained, build in (("all", _listed), ("the first quarter", _listed_by_a_quarter)):
        for probed in PROBED:
            yield f"4 bits, {probed} of {LISTS} lists, trained on {trained}", build, probed


def _int8(keys: Floats) -> RefinedIndex:
    return Int8Index.build(keys, lambda positions: keys.take(positions, axis=0))


def _pq4(keys: Floats) -> RefinedIndex:
    return PQ4Index.build(keys, lambda positions: keys.take(positions, axis=0))


def _listed(keys: Floats) -> RefinedIndex:
    return ListedIndex(keys, 1.0)


def _listed_by_a_quarter(keys: Floats) -> RefinedIndex:
    return ListedIndex(keys, 0.25)


def _searched(index: RefinedIndex, asked: Floats, truth: Ints) -> tuple[float, float]:
    """Return the median processor milliseconds of a search for the keys of `truth` (Q, wanted), and the mean recall."""
    spent, shares = [], []
    for query, right in zip(asked, truth, strict=True):
        started = time.thread_time()
        _, found = index.search(query[None], len(right))
        spent.append(1000 * (time.thread_time() - started))
        shares.append(len(np.intersect1d(found[0], right)) / len(right))
    return round(float(np.median(spent)), 2), round(float(np.mean(shares)), 4)


def _show(name: str, ways: list[dict[str, Any]], wanted: int) -> None:
    table = Table("way", "build, s", "p50, ms", f"recall@{wanted}", title=f"{name} keys")
    for one in ways:
        table.add_row(one["way"], *(str(one[part]) for part in ("build_seconds", "p50_ms", "recall")))
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
