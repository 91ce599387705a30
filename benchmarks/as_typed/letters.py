"""Titles and queries typed letter by letter: how soon is the wanted document found?

    python -m benchmarks.as_typed.letters --data ../shared/data --sets cranfield,crowdflower,squad_dev \
        --out benchmarks/results/letters.json

Titles want their own document; test queries want any relevant document. After each letter every engine is searched
anew. Measures: the mean reciprocal rank in the first ten after 3, 5 and 8 letters; the mean number of letters until a
wanted document is among the first three (the length plus one where it never is); and the median milliseconds of a
search. The document vectors come from the cache, query vectors are computed. No training and no feedback.
"""

import argparse
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.as_typed.word_engines import Fts5, Search, Tantivy
from benchmarks.collections import TestSet
from benchmarks.result_file import add_out, publish
from benchmarks.vectors import CachedEncoder, converted_encoder
from benchmarks.workbench import sets
from index.collection import Collection
from index.encoding.encoder import Encoder
from index.records import Document, EncodedQuery, Floats
from service.settings import Settings

AFTER = (3, 5, 8)
"""Letters after which the reciprocal rank is measured."""
MOST_LETTERS = 40
DEPTH = 10
FIRST = 3


class Typing(NamedTuple):
    """A text to type, and the ids of the documents that it wants."""

    text: str
    wanted: frozenset[str]


class QueriesUncached:
    """An encoder that reads document vectors from the cache and computes query vectors, so that they can be timed."""

    def __init__(self, encoder: Encoder) -> None:
        cached = CachedEncoder(encoder)
        self.dim, self.fingerprint, self.precision = encoder.dim, encoder.fingerprint, encoder.precision
        self.cutter, self.words = encoder.cutter, encoder.words
        self.encode, self._encoder = cached.encode, encoder

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Return unit vectors (len(texts), D) of queries."""
        return self._encoder.encode_queries(texts)

    def encode_query(self, text: str) -> EncodedQuery:
        """Return the unit vector (D,) of a query, and the share of its tokens that are known."""
        return self._encoder.encode_query(text)

    def known_share(self, text: str) -> float:
        """Return the share of the tokens of a text that are known."""
        return self._encoder.known_share(text)


def typings(one: TestSet, most: int) -> dict[str, list[Typing]]:
    """Return "titles" and "queries": at most `most` of each, always the same ones."""
    by_title: dict[str, set[str]] = {}
    for document in one.documents:
        if title := (document.get("title") or "").strip():
            by_title.setdefault(title, set()).add(document["id"])
    titles = [Typing(title, frozenset(ids)) for title, ids in sorted(by_title.items())]
    relevant = {query: frozenset(id for id, grade in grades.items() if grade > 0) for query, grades in one.test.items()}
    queries = [Typing(one.queries[query], ids) for query, ids in sorted(relevant.items()) if ids]
    chosen = random.Random(0)
    return {
        name: found if len(found) <= most else chosen.sample(found, most)
        for name, found in (("titles", titles), ("queries", queries))
    }


def measure(search: Search, texts: Sequence[Typing]) -> dict[str, Any]:
    """Type every text with an engine; return its measures."""
    ranks: dict[int, list[float]] = {letters: [] for letters in AFTER}
    keystrokes, milliseconds = [], []
    for typing in texts:
        needed = len(typing.text) + 1
        for letters in range(1, min(len(typing.text), MOST_LETTERS) + 1):
            started = time.perf_counter()
            found = search(typing.text[:letters], DEPTH)
            milliseconds.append(1000 * (time.perf_counter() - started))
            rank = next((at for at, id in enumerate(found, 1) if id in typing.wanted), 0)
            if letters in ranks:
                ranks[letters].append(1 / rank if rank else 0.0)
            if 0 < rank <= FIRST:
                needed = min(needed, letters)
            if needed <= letters >= max(AFTER):
                break
        keystrokes.append(needed)
    return {
        "mrr": {letters: statistics.mean(values) if values else 0.0 for letters, values in ranks.items()},
        "keystrokes": statistics.mean(keystrokes),
        "p50_ms": statistics.median(milliseconds),
        "texts": len(texts),
    }


def engines_of(one: TestSet, encoder: Encoder) -> tuple[dict[str, Search], Collection]:
    """Return the engines over the documents of a set, and the collection to close."""
    documents = [Document(d["id"], d["text"], d.get("title") or None) for d in one.documents]
    texts = [(d.id, f"{d.title or ''}\n{d.text}") for d in documents]
    ours = Collection(encoder)
    ours.add(documents)
    fts5, words = Fts5(texts), Tantivy(texts)

    def ids(text: str, count: int, prefix: bool) -> list[str]:
        return [hit.document.id for hit in ours.search(text, count, prefix)]

    engines: dict[str, Search] = {
        "ours": lambda text, count: ids(text, count, True),
        "ours, whole words": lambda text, count: ids(text, count, False),
        "SQLite FTS5, prefix": lambda text, count: fts5.search(text, count, prefix=True),
        "tantivy, prefix": lambda text, count: words.search(text, count, fuzzy=False, prefix=True),
        "tantivy, fuzzy prefix": lambda text, count: words.search(text, count, prefix=True),
    }
    return engines, ours


def table(name: str, kind: str, found: dict[str, Any]) -> Table:
    """Return the measures of one set and one kind of text as a table."""
    shown = Table(title=f"{name}, {kind}")
    for header in ("engine", *(f"MRR after {letters}" for letters in AFTER), "letters", "p50 ms"):
        shown.add_column(header)
    for engine, one in found.items():
        ranks = [f"{one['mrr'][letters]:.3f}" for letters in AFTER]
        shown.add_row(engine, *ranks, f"{one['keystrokes']:.1f}", f"{one['p50_ms']:.1f}")
    return shown


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with one folder per test set")
    parser.add_argument("--sets", default="cranfield,crowdflower,squad_dev", help="comma-separated")
    parser.add_argument("--texts", type=int, default=100, help="titles, and test queries, of a set, at most")
    add_out(parser)
    options = parser.parse_args()
    encoder, console, found = QueriesUncached(converted_encoder(Settings().encoder)), Console(width=120), {}
    for one in sets(options.data, options.sets):
        engines, ours = engines_of(one, encoder)
        found[one.name] = {
            kind: {name: measure(search, texts) for name, search in engines.items()}
            for kind, texts in typings(one, options.texts).items()
            if texts
        }
        ours.close()
        for kind, measured in found[one.name].items():
            console.print(table(one.name, kind, measured))
    publish({"texts": options.texts, "sets": found}, [0], options.out)


if __name__ == "__main__":
    main()
