"""Candidates by keys against the number of keys: `python -m benchmarks.serving --keys 10k,100k,1M`.

The vectors have 384 numbers and lie around 1,000 random centres, with a cosine of .7 to their centre. A document has
one key and no words, so that only keys are measured. A store is built as an import builds it, saved, and opened by a
separate process, which measures memory, searches (`Generation.nearest`, one head, 100 documents) and inserts. Recall
is against every inner product in float32. On a busy machine, compare the processor times (cpu). The files are in the
page cache when they are opened, because they were just written.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from index.generation.compaction import is_sparse
from index.generation.generation import Generation, IndexedDocument
from index.generation.store import TAIL_MOST, GenerationStore
from index.records import Floats, Ints, Key, KeyKind, Mask

DIM = 384
CENTRES = 1000
WANTED = 100
QUERIES = 200
BATCH = 50_000
INSERTS = 30
REMOVED_SHARE = 0.31
"""Share of the keys that is removed, enough to trigger compaction."""
SHARES = {"all": 1.0, "half": 0.5, "hundredth": 0.01}
"""Share of the documents that a filter keeps."""


def parse_sizes(text: str) -> list[int]:
    """Return the numbers of keys in a text such as `10k,100k,1M`."""
    units = {"k": 1_000, "M": 1_000_000}
    return [int(float(one.rstrip("kM")) * units.get(one[-1], 1)) for one in text.split(",")]


def measure_growth(sizes: list[int]) -> list[dict[str, Any]]:
    """Return the figures of each size."""
    figures = []
    for count in sizes:
        with tempfile.TemporaryDirectory() as folder:
            figures.append(measure(count, Path(folder)))
        print(json.dumps(figures[-1]), file=sys.stderr, flush=True)
    return figures


def measure(count: int, folder: Path) -> dict[str, Any]:
    """Return the figures of one size."""
    building, working, found = 0.0, 0.0, Truth(queries())
    store = GenerationStore(folder / "index", DIM, "none")
    for first, vectors in blocks(count):
        found.see(first, vectors)
        documents = [_document(first + row, vector) for row, vector in enumerate(vectors)]
        started, used = time.perf_counter(), time.process_time()
        store.apply(1, documents)
        building += time.perf_counter() - started
        working += time.process_time() - used
    started = time.perf_counter()
    store.settle()
    built = time.perf_counter()
    store.save("none", 1)
    saved = time.perf_counter()
    store.close()
    kind = type(store.current.sealed).__name__
    del store
    np.savez(folder / "truth.npz", **found.nearest())
    disk = sum(path.stat().st_size for path in (folder / "index").rglob("*") if path.is_file())
    child = [sys.executable, "-m", "benchmarks.growth", str(folder), str(count)]
    opened_figures = json.loads(subprocess.run(child, capture_output=True, text=True, check=True).stdout)
    return {
        "keys": count,
        "index": kind,
        "build_seconds": round(building + built - started, 2),
        "build_cpu_seconds": round(working, 2),
        "save_seconds": round(saved - built, 2),
        "disk_bytes_per_key": round(disk / count),
        **opened_figures,
    }


def blocks(count: int, size: int = BATCH) -> Iterator[tuple[int, Floats]]:
    """Yield the first row and the vectors (n, DIM) of each part of the collection."""
    for first in range(0, count, size):
        yield first, _around(min(size, count - first), seed=first + 1)


def queries() -> Floats:
    """Return unit queries (QUERIES, DIM) around the same centres."""
    return _around(QUERIES, seed=0)


def _around(count: int, seed: int) -> Floats:
    centres = np.random.default_rng(7).standard_normal((CENTRES, DIM), np.float32)
    chance = np.random.default_rng(seed)
    vectors = centres[chance.integers(CENTRES, size=count)] + chance.standard_normal((count, DIM), np.float32)
    unit: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def kept(rows: Ints, share: float) -> Mask:
    """Return the rows that a filter of this share keeps: spread over all, always the same."""
    mask: Mask = (rows * 2654435761 % 2**32) < share * 2**32
    return mask


def _document(row: int, vector: Floats) -> IndexedDocument:
    return IndexedDocument(row, "", [Key(KeyKind.PASSAGE, vector, 0, 1)])


class Truth:
    """The nearest rows of each query in float32, computed part by part."""

    def __init__(self, asked: Floats) -> None:
        self._asked = asked
        none = np.full((len(asked), WANTED), -np.inf, np.float32), np.zeros((len(asked), WANTED), np.int64)
        self._best = dict.fromkeys(SHARES, none)

    def see(self, first: int, vectors: Floats) -> None:
        scores, rows = self._asked @ vectors.T, np.arange(first, first + len(vectors))
        for name, share in SHARES.items():
            left = kept(rows, share)
            before = self._best[name]
            both = np.hstack([before[0], scores[:, left]])
            row = np.hstack([before[1], np.broadcast_to(rows[left], (len(scores), int(left.sum())))])
            top = np.argpartition(-both, WANTED - 1, axis=1)[:, :WANTED]
            self._best[name] = np.take_along_axis(both, top, axis=1), np.take_along_axis(row, top, axis=1)

    def nearest(self) -> dict[str, Ints]:
        return {name: rows for name, (_, rows) in self._best.items()}


def opened(folder: Path, count: int) -> dict[str, Any]:
    """Return the figures of a saved store, measured by the process that opens it."""
    before = _resident(folder)
    started = time.perf_counter()
    store = GenerationStore.open(folder / "index", DIM, "none", 1)
    figures: dict[str, Any] = {"start_seconds": round(time.perf_counter() - started, 3)}
    figures["start_bytes_per_key"] = round((_resident(folder) - before) / count)
    generation, truth = store.current, np.load(folder / "truth.npz")
    for name, share in SHARES.items():
        allowed = generation.alive if share == 1 else kept(generation.rows, share)
        figures |= _searches(generation, allowed, truth[name], "" if share == 1 else f"{name}_")
    figures["queries_per_second"] = round(_rate(generation, threads=2), 1)
    figures["memory_bytes_per_key"] = round((_resident(folder) - before) / count)
    waits = [_insert(store, count + number) for number in range(INSERTS)]
    figures |= {"first_insert_ms": round(waits[0], 1), "insert_ms": round(float(np.median(waits[1:])), 1)}
    figures |= _folding(store, count + INSERTS)
    figures |= _compacting(store, count)
    store.close()
    return figures


def _folding(store: GenerationStore, first: int) -> dict[str, float]:
    """Return the milliseconds of a write that triggers folding, and the seconds until folding is done."""
    documents = [_document(first + row, vector) for row, vector in enumerate(_around(TAIL_MOST, seed=10**8))]
    started = time.perf_counter()
    store.apply(first, documents)
    written = time.perf_counter()
    store.settle()
    folded = time.perf_counter() - written
    return {"fold_write_ms": round(1000 * (written - started), 1), "fold_seconds": round(folded, 2)}


def _compacting(store: GenerationStore, count: int) -> dict[str, float]:
    """Return the times of removing many keys: the write, the compaction, and the inserts during the compaction."""
    row = count + 2 * TAIL_MOST
    started = time.perf_counter()
    store.apply(row, [], range(int(REMOVED_SHARE * count)))
    written, waits = time.perf_counter(), []
    while is_sparse(store.current):
        waits.append(_insert(store, row + len(waits)))
    store.settle()
    return {
        "remove_write_ms": round(1000 * (written - started), 1),
        "compact_seconds": round(time.perf_counter() - written, 2),
        "compact_insert_ms": round(float(np.median(waits or [0])), 1),
        "compact_wait_ms": round(max(waits, default=0), 1),
    }


def _searches(generation: Generation, allowed: Mask, truth: Ints, prefix: str) -> dict[str, float]:
    milliseconds, processor, shared = [], [], []
    for query, right in zip(queries(), truth, strict=True):
        started, used = time.perf_counter(), time.thread_time()
        (doc_indices,) = generation.nearest(query[None], WANTED, allowed)
        processor.append(1000 * (time.thread_time() - used))
        milliseconds.append(1000 * (time.perf_counter() - started))
        shared.append(len(np.intersect1d(generation.rows[doc_indices], right)) / min(WANTED, int(allowed.sum())))
    warm = milliseconds[20:]
    return {
        f"{prefix}recall": round(float(np.mean(shared)), 5),
        f"{prefix}first_ms": round(milliseconds[0], 2),
        f"{prefix}p50_ms": round(float(np.percentile(warm, 50)), 2),
        f"{prefix}p99_ms": round(float(np.percentile(warm, 99)), 2),
        f"{prefix}p50_cpu_ms": round(float(np.percentile(processor[20:], 50)), 2),
    }


def _rate(generation: Generation, threads: int) -> float:
    def ask() -> None:
        for query in queries():
            generation.nearest(query[None], WANTED, generation.alive)

    askers = [threading.Thread(target=ask) for _ in range(threads)]
    started = time.perf_counter()
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    return threads * QUERIES / (time.perf_counter() - started)


def _insert(store: GenerationStore, row: int) -> float:
    """Return the milliseconds from the start of an insert until a search finds the document."""
    vector = _around(1, seed=10**9 + row)[0]
    started = time.perf_counter()
    generation = store.apply(row, [_document(row, vector)])
    (doc_indices,) = generation.nearest(vector[None], WANTED, generation.alive)
    elapsed = 1000 * (time.perf_counter() - started)
    assert generation.rows[doc_indices[0]] == row
    return elapsed


def _resident(folder: Path) -> int:
    """Return the resident bytes of this process's own memory and of the store's files, without its libraries."""
    total, counted = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        head = line.split()
        if not head[0].endswith(":"):
            counted = len(head) < 6 or head[5].startswith(("[heap]", str(folder)))
        elif counted and head[0] == "Rss:":
            total += 1024 * int(head[1])
    return total


def main() -> None:
    """Measure a saved store in this process; print one line of JSON. `benchmarks.serving` starts it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("count", type=int)
    options = parser.parse_args()
    print(json.dumps(opened(options.folder, options.count)))


if __name__ == "__main__":
    main()
