"""Spelling mistakes: the share of 150 mistyped queries whose answer is among the first three documents.

    python -m benchmarks.as_typed.spelling --out benchmarks/results/spelling.json

The documents are those of the demonstration, the docstrings of Python's standard library. `mistakes.tsv` has the
queries as typed and as meant, and the documents that answer them; it was written by hand, before anything was measured.
Ours with and without corrections stands beside SQLite FTS5 and tantivy's fuzzy queries. "As meant" is the same engine
on the same queries without the mistakes. No training and no feedback.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.as_typed.word_engines import Fts5, Search, Tantivy
from benchmarks.result_file import add_out, publish
from benchmarks.vectors import CachedEncoder, converted_encoder
from index.collection import Collection
from index.encoding.encoder import Encoder
from index.records import Document
from service.demo.documents import gather_documents
from service.settings import Settings

MISTAKES = Path(__file__).parent / "mistakes.tsv"
FIRST = 3
"""A query succeeds if an answer is among this many documents."""


class Mistake(NamedTuple):
    """A query as typed and as meant, and the ids of the documents that answer it."""

    typed: str
    meant: str
    answers: frozenset[str]


def read_mistakes() -> list[Mistake]:
    """Return the mistakes of the file."""
    lines = MISTAKES.read_text(encoding="utf-8").splitlines()[1:]
    return [Mistake(typed, meant, frozenset(ids.split())) for typed, meant, ids in (line.split("\t") for line in lines)]


def share(search: Search, queries: Sequence[tuple[str, frozenset[str]]]) -> float:
    """Return the share of queries with an answer among the first documents."""
    found = sum(bool(answers & set(search(text, FIRST))) for text, answers in queries)
    return found / len(queries)


def figures(documents: Sequence[Document], mistakes: Sequence[Mistake], encoder: Encoder) -> dict[str, Any]:
    """Return engine -> {"typed", "meant"}: the shares."""
    texts = [(one.id, f"{one.title or ''}\n{one.text}") for one in documents]
    fts5, words = Fts5(texts), Tantivy(texts)
    engines: dict[str, Search] = {}
    ours = {}
    for name, typos in (("ours", True), ("ours, without corrections", False)):
        ours[name] = Collection(encoder, typos=typos)
        ours[name].add(documents)
        engines[name] = _searcher(ours[name])
    engines |= {
        "SQLite FTS5": fts5.search,
        "tantivy": lambda text, count: words.search(text, count, fuzzy=False),
        "tantivy, fuzzy": words.search,
    }
    typed = [(one.typed, one.answers) for one in mistakes]
    meant = [(one.meant, one.answers) for one in mistakes]
    found = {name: {"typed": share(search, typed), "meant": share(search, meant)} for name, search in engines.items()}
    for collection in ours.values():
        collection.close()
    return {"mistakes": len(mistakes), "documents": len(documents), "engines": found}


def _searcher(collection: Collection) -> Search:
    return lambda text, count: [hit.document.id for hit in collection.search(text, count)]


def table(found: dict[str, Any]) -> Table:
    """Return the shares as a table."""
    shown = Table(title=f"an answer among the first {FIRST}, {found['mistakes']} queries")
    for header in ("engine", "as typed", "as meant"):
        shown.add_column(header)
    for name, one in found["engines"].items():
        shown.add_row(name, f"{one['typed']:.1%}", f"{one['meant']:.1%}")
    return shown


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_out(parser)
    options = parser.parse_args()
    encoder = CachedEncoder(converted_encoder(Settings().encoder))
    documents = [Document(one["id"], one["text"], one["title"]) for one in gather_documents()]
    found = figures(documents, read_mistakes(), encoder)
    Console(width=120).print(table(found))
    publish(found, [0], options.out)


if __name__ == "__main__":
    main()
