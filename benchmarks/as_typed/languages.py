"""German, Japanese and Chinese: how often is a right document found, beside other word engines?

    python -m benchmarks.as_typed.languages --out benchmarks/results/languages.json

The folder `texts` has 60 short documents and 40 queries of each language, with the documents that answer each query.
They were written by hand, before anything was measured. Measures: the share of queries with an answer among the first
three documents, and the mean reciprocal rank of the first answer in ten. A query of the kind `half word` is searched as
unfinished by each engine that completes words. No training and no feedback. The encoder knows English.
"""

import argparse
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tantivy
from rich.console import Console
from rich.table import Table

from benchmarks.as_typed.word_engines import Fts5, Tantivy, Trigrams, ngrams, stems
from benchmarks.result_file import add_out, publish
from benchmarks.vectors import CachedEncoder, converted_encoder
from index.collection import Collection
from index.encoding.encoder import Encoder
from index.ranking.attention import HeadConfig
from index.records import Document
from service.settings import Settings

TEXTS = Path(__file__).parent / "texts"
LANGUAGES = ("german", "japanese", "chinese")
FIRST = 3
DEPTH = 10
UNFINISHED = "half word"
"""The kind of queries whose last word is searched as unfinished."""
DENSE_PARTS = 3
"""Title, passage and sentence are the first parts of the evidence."""

PrefixSearch = Callable[[str, int, bool], list[str]]
"""Query, count, and whether the last word is unfinished -> ids, best first."""


class Asked(NamedTuple):
    """A query, the form in which it differs from its documents, and the ids of the documents that answer it."""

    text: str
    kind: str
    answers: frozenset[str]


def read_documents(language: str) -> list[Document]:
    """Return the documents of a language."""
    return [Document(id, text, title) for id, title, text in _rows(f"{language}_documents.tsv")]


def read_queries(language: str) -> list[Asked]:
    """Return the queries of a language."""
    return [Asked(text, kind, frozenset(ids.split())) for text, kind, ids in _rows(f"{language}_queries.tsv")]


def _rows(name: str) -> list[list[str]]:
    return [line.split("\t") for line in (TEXTS / name).read_text(encoding="utf-8").splitlines()[1:]]


def measured(search: PrefixSearch, queries: Sequence[Asked]) -> dict[str, Any]:
    """Return the measures of an engine: `first`, `mrr`, and `first` for each kind of query."""
    ranks = []
    for asked in queries:
        found = search(asked.text, DEPTH, asked.kind == UNFINISHED)
        ranks.append(next((at for at, id in enumerate(found, 1) if id in asked.answers), 0))
    kinds = {
        kind: _share_of_first([rank for rank, one in zip(ranks, queries, strict=True) if one.kind == kind])
        for kind in dict.fromkeys(one.kind for one in queries)
    }
    mrr = statistics.mean(1 / rank if rank else 0.0 for rank in ranks)
    return {"first": _share_of_first(ranks), "mrr": mrr, "kinds": kinds}


def _share_of_first(ranks: Sequence[int]) -> float:
    return sum(0 < rank <= FIRST for rank in ranks) / len(ranks)


def peers(documents: Sequence[Document], language: str) -> dict[str, PrefixSearch]:
    """Return the word engines over the documents."""
    texts = [(one.id, f"{one.title or ''}\n{one.text}") for one in documents]
    lower = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).filter(tantivy.Filter.lowercase()).build()
    analyzers = {"tantivy, default tokenizer": lower}
    if language == "german":
        analyzers["tantivy, German stems"] = stems("german")
    else:
        analyzers |= {
            "tantivy, pairs of characters": ngrams(2, 2),
            "tantivy, single characters and pairs": ngrams(1, 2),
        }
    engines: dict[str, PrefixSearch] = {
        "SQLite FTS5, unicode61": Fts5(texts, "unicode61").search,
        "SQLite FTS5, trigram": Trigrams(texts).search,
    }
    return engines | {name: _exactly(Tantivy(texts, analyzer)) for name, analyzer in analyzers.items()}


def _exactly(engine: Tantivy) -> PrefixSearch:
    return lambda text, count, prefix: engine.search(text, count, fuzzy=False, prefix=prefix)


def figures(documents: Sequence[Document], queries: Sequence[Asked], language: str, encoder: Encoder) -> dict[str, Any]:
    """Return the measures of every engine on the documents and queries of a language."""
    beta = HeadConfig(encoder.dim).beta
    words = HeadConfig(encoder.dim, beta=(*[0.0] * DENSE_PARTS, *beta[DENSE_PARTS:]))
    collections = {
        f"ours, language {language}": Collection(encoder, language=language),
        f"ours, language {language}, words alone": Collection(encoder, words, language),
        "ours, language english, words alone": Collection(encoder, words),
        "ours, language none, words alone": Collection(encoder, words, "none"),
    }
    engines: dict[str, PrefixSearch] = {}
    for name, one in collections.items():
        one.add(documents)
        engines[name] = _searcher(one)
    engines |= peers(documents, language)
    found = {name: measured(search, queries) for name, search in engines.items()}
    for one in collections.values():
        one.close()
    return {"documents": len(documents), "queries": len(queries), "systems": found}


def _searcher(collection: Collection) -> PrefixSearch:
    """Return the search of a collection. A document without any evidence is not found."""
    return lambda text, count, prefix: [
        hit.document.id for hit in collection.search(text, count, prefix) if hit.logit > 0
    ]


def table(language: str, found: dict[str, Any]) -> Table:
    """Return the measures of a language as a table."""
    kinds = list(next(iter(found["systems"].values()))["kinds"])
    shown = Table(title=f"{language}: {found['queries']} queries, {found['documents']} documents")
    for header in ("system", f"first {FIRST}", f"MRR@{DEPTH}", *kinds):
        shown.add_column(header)
    for name, one in found["systems"].items():
        shares = [f"{share:.0%}" for share in one["kinds"].values()]
        shown.add_row(name, f"{one['first']:.1%}", f"{one['mrr']:.3f}", *shares)
    return shown


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_out(parser)
    options = parser.parse_args()
    encoder, console, found = CachedEncoder(converted_encoder(Settings().encoder)), Console(width=160), {}
    for language in LANGUAGES:
        found[language] = figures(read_documents(language), read_queries(language), language, encoder)
        console.print(table(language, found[language]))
    publish({"languages": found}, [0], options.out)


if __name__ == "__main__":
    main()
