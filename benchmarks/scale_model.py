"""Bytes and times of a part of a collection, from the constants of growth on paper.

Sees numbers of documents, keys, words and past queries; no machine, no layout, no price.
"""

from dataclasses import dataclass, replace

from benchmarks.scale_constants import Processor, line, value

MIB = 2**20


@dataclass(frozen=True)
class Collection:
    """A collection, or the part of it that a partition holds. words: the mean number of words of a document.

    past_queries: the past queries in memory; every process holds all of them.
    """

    documents: float
    keys_each: float
    words: float
    past_queries: float

    @property
    def keys(self) -> float:
        """The number of keys."""
        return self.documents * self.keys_each

    def part(self, partitions: int) -> "Collection":
        """Return one of so many equal partitions."""
        return replace(self, documents=self.documents / partitions)

    def with_documents(self, count: int) -> "Collection":
        """Return a collection like this one with so many documents."""
        return replace(self, documents=count)


def past_queries_within(limit_mib: float) -> float:
    """Return the number of past queries with one confirmation that a limit of memory (`memory_max_mb`) keeps."""
    return limit_mib * MIB // value("past query")


def bytes_in_memory(one: Collection) -> dict[str, float]:
    """Return the bytes of a process that answers searches, by what they hold. Keys and values are mapped files."""
    return {
        "keys": one.keys * value("vector"),
        "codes": one.keys * (value("code of a key") + value("position of a code")),
        "values": one.documents * value("vector"),
        "columns": _columns(one) + one.keys * value("owner of a key"),
        "words": _words(one),
        "past queries": one.past_queries * value("past query"),
        "stored fields": value("stored fields in memory") * _stored_fields(one),
        "process": MIB * value("process"),
    }


def bytes_of_process(one: Collection) -> float:
    """Return the sum of the bytes in the memory of a process."""
    return sum(bytes_in_memory(one).values())


def bytes_of_worker(one: Collection) -> float:
    """Return the bytes of a further worker process, which shares the mapped files with the first process."""
    return MIB * line("further worker", one.keys) + one.past_queries * value("past query in a worker")


def database_bytes(one: Collection) -> float:
    """Return the bytes of the database on the disk, without events and impressions."""
    return _stored_fields(one) + (one.keys + one.documents) * value("vector in the database")


def index_bytes(one: Collection) -> float:
    """Return the bytes of the index files on the disk, which are made from the database."""
    vectors = (one.keys + one.documents) * value("vector")
    return vectors + one.keys * (value("code of a key") + value("position of a code")) + _columns(one) + _words(one)


def feed_bytes(one: Collection) -> float:
    """Return the bytes of the copies on the disk that worker processes map: columns and codes."""
    codes = one.keys * (value("code of a key") + value("position of a code"))
    return codes + _columns(one) + one.documents * one.words * value("number of a word")


def _columns(one: Collection) -> float:
    return one.keys * value("columns of a key") + one.documents * value("columns of a document")


def _words(one: Collection) -> float:
    return one.documents * one.words * (value("number of a word") + value("word in the BM25 index"))


def _stored_fields(one: Collection) -> float:
    return one.documents * (value("row of a document") + one.words * value("text of a word"))


def fixed_ms(name: str) -> float:
    """Return the milliseconds of a search that do not depend on the size: without its scan. name: of the constant."""
    keys = value("documents of the measured search") * value("keys of a document")
    return value(name) - line(f"scan, {Processor.SLOWER}", keys)


def growing_ms(one: Collection, processor: Processor) -> float:
    """Return the milliseconds of the processor that a search spends on keys, words and past queries."""
    return scan_ms(one, processor) + words_ms(one) + past_ms(one)


def scan_ms(one: Collection, processor: Processor) -> float:
    """Return the milliseconds of a scan of all keys, refining included."""
    return line(f"scan, {processor}", one.keys)


def words_ms(one: Collection) -> float:
    """Return the milliseconds by which the search by words is longer than in the measured collection."""
    more = max(0.0, one.documents - value("documents of the measured search"))
    return more / 1e6 * value("words of a million documents")


def past_ms(one: Collection) -> float:
    """Return the milliseconds that a search spends in memory."""
    return line("memory in a search", one.past_queries) if one.past_queries else 0.0


def bytes_scanned(one: Collection) -> float:
    """Return the bytes of the codes, which every search reads."""
    return one.keys * value("code of a key")


def build_seconds(one: Collection) -> float:
    """Return the seconds to build the index of all keys again, as after a kill."""
    return line("building an index", one.keys)


def encoding_core_hours(one: Collection) -> float:
    """Return the core-hours to encode and store all documents once."""
    return one.documents / value("documents encoded by a core") / 3600
