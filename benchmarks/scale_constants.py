"""The constants of growth on paper: each with its unit, its source, and whether it was measured.

Measured constants are read from the stored results. A constant that was measured at several sizes has an entry for each
size, and `line` joins them. This file knows no layout and no price.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from benchmarks.result_file import RESULTS, load_result
from index.generation.columns import Columns
from index.memory.rank import CONFIRMATION_BYTES, PAST_QUERY_BYTES, bytes_of

DIM = 384
SNAPSHOT_DIM, SNAPSHOT_VECTORS, SNAPSHOT_TEXT_BYTES = 64, 3, 566
"""The vectors of a document of benchmarks/snapshots.py: title, passage and value; 60 words of 9.44 bytes on average."""
KEYS_OF_A_DOCUMENT = 2
"""The keys of a document of benchmarks/workers.py: a title and a passage."""
ROUNDS = 2
"""Calls of a coordinator to all partitions, one after the other."""


class Kind(StrEnum):
    """How a constant is known."""

    MEASURED = "measured"
    CALCULATED = "calculated"
    ASSUMED = "assumed"


class Processor(StrEnum):
    """The two processors on which the scan of keys was measured."""

    SLOWER = "slower"
    FASTER = "faster"


@dataclass(frozen=True)
class Constant:
    """A number of the model. source: a stored result with its fields, a file of the code, or the reason of a guess.

    at: the size at which it was measured, if there are several; `of` names what the size counts.
    """

    name: str
    value: float
    unit: str
    kind: Kind
    source: str
    at: float | None = None
    of: str = ""


@cache
def constants() -> tuple[Constant, ...]:
    """Return all constants. Reads the stored results."""
    return (*_collection(), *_bytes(), *_processes(), *_searches(), *_curves(), *_writes(), *_calls(), *_assumed())


def value(name: str) -> float:
    """Return the constant of this name. Raises KeyError if there is none, or one for each of several sizes."""
    found = [one.value for one in constants() if one.name == name]
    if len(found) != 1:
        raise KeyError(name)
    return found[0]


def points(name: str) -> list[tuple[float, float]]:
    """Return the sizes at which a constant was measured, ascending, with its values."""
    return sorted((one.at, one.value) for one in constants() if one.name == name and one.at is not None)


def line(name: str, size: float) -> float:
    """Return the value at a size: on the line between two measured sizes, and beyond them on the nearest line."""
    known = points(name)
    end = next((n for n, (at, _) in enumerate(known) if at >= size), len(known) - 1)
    (x, y), (far, top) = known[max(1, end) - 1], known[max(1, end)]
    return y + (size - x) * (top - y) / (far - x)


def greatest(name: str) -> float:
    """Return the greatest size at which a constant was measured."""
    return points(name)[-1][0]


@cache
def _result(name: str) -> Mapping[str, Any]:
    return load_result(RESULTS / f"{name}.json")


def field(result: str, path: str) -> Any:
    """Return a field of a stored result. The path has keys, and positions of lists, separated by slashes."""
    found: Any = _result(result)
    for part in path.split("/"):
        found = found[int(part)] if isinstance(found, list) else found[part]
    return found


def _measured(name: str, unit: str, result: str, path: str, at: float | None = None, of: str = "") -> Constant:
    return Constant(name, field(result, path), unit, Kind.MEASURED, f"{result}.json: {path}", at, of)


def _collection() -> Iterator[Constant]:
    keys, documents = field("restart", "figures/keys"), field("restart", "figures/documents")
    source = "restart.json: figures/keys over figures/documents"
    yield Constant("keys of a document", keys / documents, "keys", Kind.CALCULATED, source)
    yield _measured("words of a document", "words", "long_texts", "figures/words_of_a_document")


def _bytes() -> Iterator[Constant]:
    sizes = {name: column.itemsize for name, column in Columns.empty().by_name().items()}
    of_key, of_field = (sum(sizes[name] for name in sizes if name.startswith(part)) for part in ("key_", "field_"))
    of_word = sizes["tokens"]
    of_document = sum(sizes.values()) - of_key - of_field - of_word
    database, documents = (field("snapshots", f"figures/{part}") for part in ("database_bytes", "documents"))
    row = database / documents - SNAPSHOT_VECTORS * 4 * SNAPSHOT_DIM - SNAPSHOT_TEXT_BYTES
    for name, count, source in (
        ("vector", 4 * DIM, "index/storage/vector_file.py: 384 numbers of 4 bytes"),
        ("code of a key", DIM / 4, "index/candidates/pq4.py: 4 bits for every two numbers"),
        ("position of a code", 8, "index/candidates/pq4.py: the list of faiss numbers its keys"),
        ("columns of a key", of_key, "index/generation/columns.py"),
        ("owner of a key", 8, "index/generation/generation.py: key_doc_index, made by the first filter"),
        ("columns of a document", of_document, "index/generation/columns.py: all but metadata"),
        ("number of a word", of_word, "index/generation/columns.py: tokens"),
        ("vector in the database", 4096 / 2, "service/storage/vector_codec.py: two on a page of SQLite"),
        ("row of a document", row, "snapshots.json: figures/database_bytes over figures/documents, less text, vectors"),
        ("past query", bytes_of(DIM, 1), "index/memory/rank.py: bytes_of with one confirmation"),
        ("past query in a worker", PAST_QUERY_BYTES + CONFIRMATION_BYTES, "index/memory/rank.py: without its vectors"),
    ):
        yield Constant(name, count, "bytes", Kind.CALCULATED, source)


def _processes() -> Iterator[Constant]:
    yield _measured("process", "MiB", "workers", "figures/processes/0/first_mib")
    for result in ("workers", "workers_of_many"):
        added = (_memory_of(result, 4) - _memory_of(result, 2)) / 2
        source = f"{result}.json: figures/processes, half of what four processes have more than two"
        keys = KEYS_OF_A_DOCUMENT * field(result, "figures/documents")
        yield Constant("further worker", added, "MiB", Kind.CALCULATED, source, keys, "keys")
    rate, spent = (
        field("workers", f"figures/processes/0/loads/8/{one}") for one in ("searches_per_second", "processor_ms")
    )
    source = "workers.json: figures/processes/0/loads/8, searches_per_second times processor_ms"
    yield Constant("cores that one process uses", rate * spent / 1000, "cores", Kind.CALCULATED, source)
    yield _measured("cores of the measured machine", "cores", "workers", "measured/cores")


def _memory_of(result: str, count: int) -> float:
    """Return the MiB of all processes of a service; pages that they share are divided among them."""
    (one,) = (each for each in field(result, "figures/processes") if each["processes"] == count)
    return float(one["first_mib"] + (count - 1) * one["worker_mib"])


def _searches() -> Iterator[Constant]:
    alone = "figures/processes/0/loads/1"
    yield _measured("documents of the measured search", "documents", "workers", "figures/documents")
    yield _measured("search, p50", "ms", "workers", f"{alone}/p50_ms")
    yield _measured("search, processor", "ms", "workers", f"{alone}/processor_ms")
    yield _measured("most documents of a measured search", "documents", "workers_of_many", "figures/documents")


def _curves() -> Iterator[Constant]:
    for n, one in enumerate(field("growth", "figures/sizes")):
        path, keys = f"figures/sizes/{n}", one["keys"]
        yield _measured(f"scan, {Processor.SLOWER}", "ms", "growth", f"{path}/p50_cpu_ms", keys, "keys")
        yield _measured("building an index", "s", "growth", f"{path}/build_seconds", keys, "keys")
    for name, ways in field("scans", "figures/keys").items():
        count = re.fullmatch(r"([\d,]*\d)(, machine busy)?", name)
        place = [one["way"] for one in ways].index("4 bits")
        if count:
            keys, path = int(count[1].replace(",", "")), f"figures/keys/{name}/{place}/p50_ms"
            yield _measured(f"scan, {Processor.FASTER}", "ms", "scans", path, keys, "keys")
    for n, one in enumerate(field("memory_growth", "figures/sizes")):
        path, queries = f"figures/sizes/{n}/search_cpu_p50_ms", one["queries"]
        yield _measured("memory in a search", "ms", "memory_growth", path, queries, "past queries")


def _writes() -> Iterator[Constant]:
    rate = field("long_texts", "figures/systems/ours/documents_per_second")
    source = "long_texts.json: figures/systems/ours/documents_per_second over measured/cores"
    each = rate / field("long_texts", "measured/cores")
    yield Constant("documents encoded by a core", each, "documents/s", Kind.CALCULATED, source)
    yield Constant("hours of a month", 365 * 24 / 12, "hours", Kind.CALCULATED, "a twelfth of a year")


def _calls() -> Iterator[Constant]:
    source = "index/partitions/parted.py: candidates with their evidence, then the hits of the page"
    yield Constant("rounds of a coordinator", ROUNDS, "rounds", Kind.CALCULATED, source)
    whole, parted = (field("partitions", f"figures/rates/{name}/p50_ms") for name in ("writer", "1"))
    source = "partitions.json: (figures/rates/1/p50_ms - figures/rates/writer/p50_ms) / rounds"
    yield Constant("round to all partitions", (parted - whole) / ROUNDS, "ms", Kind.CALCULATED, source)


def _assumed() -> Iterator[Constant]:
    largest = field("growth", "figures/sizes")[-1]
    slowest = largest["p99_ms"] / largest["p50_ms"]
    in_search = next(spent for _, part, spent in field("microseconds", "figures/parts") if part == "search")
    for name, number, unit, source in (
        ("text of a word", 6, "bytes", "English, with a space"),
        ("word in the BM25 index", 3, "bytes", "2.5 in one trial with 2,050 texts, which is not stored"),
        ("stored fields in memory", 0.1, "share", "hits come from few documents; the rest stays on the disk"),
        ("words of a million documents", 1, "ms", "a guess; with 100,000 documents it is .09 ms"),
        ("busy share of the cores", 0.6, "share", "above it, searches wait for each other"),
        ("usable share of the memory", 0.8, "share", "the rest is for the system, and for indexes that grow"),
        ("memory bandwidth of a machine", 100, "GB/s", "a server of 16 cores; scans read all codes of all keys"),
        ("search in a partition", in_search / 1000, "ms", "microseconds.json: figures/parts, search, in one process"),
        (
            "slowest of the partitions",
            slowest,
            "times",
            "growth.json: figures/sizes, p99_ms over p50_ms of the largest",
        ),
    ):
        yield Constant(name, number, unit, Kind.ASSUMED, source)
