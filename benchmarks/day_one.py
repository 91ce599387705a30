"""The first day of a collection: nDCG@10 on the test split without feedback, by version 0 and a model of the documents.

    python -m benchmarks.day_one --data ../shared/data --out benchmarks/results/day_one.json

Beside dense search, BM25 and the best fixed fusion, which is chosen on the train split of the same set, stand version 0
and the model that is made from the documents alone (`index.learning.from_documents`). `documents` has parameters that
were learned from the train judgments of the other sets: no judgment of a set has a part in its figure. `shipped` has
the parameters of the product, which were learned from all six sets. Nothing is chosen on the test split. Differences
are paired, over queries. Vectors come from a cache after the first run (benchmarks/vectors.py).
"""

import argparse
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks.baselines import baselines, gather
from benchmarks.collections import TestSet, opened
from benchmarks.measurements import MEASURES
from benchmarks.ours import MAX_QUERY_CHARACTERS
from benchmarks.result_file import add_out, publish
from benchmarks.vectors import CachedEncoder, converted_encoder
from benchmarks.word_weight import QUERIES, Point, learned_map, point_of
from benchmarks.workbench import KEYS, Bench, Values, asked_queries, bench_of, finished, rounded, sets
from index.encoding.encoder import Encoder
from index.evaluation.measures import measure_run
from index.evaluation.significance import compare
from index.learning.examples import Feedback
from index.learning.fit import Fitted
from index.learning.from_documents import Balance, fit_from_documents
from index.learning.held_out import sample
from index.learning.made_queries import SourceText
from index.memory.query_key import as_query_key
from index.ranking.attention import AttentionHead, HeadConfig
from service.settings import Settings
from service.training.inputs import MAX_TEXTS

NDCG = MEASURES[0]
BASELINES = ("bm25", "dense", "best fixed fusion")
OURS = ("version 0", "documents", "shipped")
GOAL = -0.005
"""The least difference to the best baseline that meets the goal."""


class OpenSet:
    """A set in a service of this process, with the measures of each system by query."""

    def __init__(self, one: TestSet, encoder: Encoder, queries: int, stack: ExitStack) -> None:
        asked = asked_queries(one, queries)
        self.one = replace(one, test={query: one.test[query] for query in asked})
        runtime, state = stack.enter_context(opened(self.one, encoder, KEYS))
        self.encoder = encoder
        self.bench: Bench = bench_of(runtime, state, self.one, asked)
        self.measured: dict[str, Values] = {}
        with threadpool_limits(1):
            material = gather(runtime, state, self.one, whole=False)
        self.fusion = material.fusion
        for system, doc_indices in baselines(material):
            if system in BASELINES:
                self.measured[system] = measure_run(material.run(doc_indices), self.one.test, MEASURES)
        self.point: Point = point_of(self.bench.generation, self._judged())

    def _judged(self) -> list[Feedback]:
        """Return train queries with their judgments. Nothing is posted: memory stays empty."""
        rows = {document: int(row) for row, document in self.bench.ids.items()}
        queries = sample(sorted(self.one.train), QUERIES, 0)
        texts = [self.one.queries[query][:MAX_QUERY_CHARACTERS] for query in queries]
        vectors = self.encoder.encode_queries(texts)
        return [
            Feedback(
                as_query_key(text), text, vector, {rows[id_]: grade for id_, grade in self.one.train[query].items()}
            )
            for query, text, vector in zip(queries, texts, vectors, strict=True)
        ]

    def measure(self, system: str, head: AttentionHead) -> None:
        """Measure a head on the test queries."""
        self.measured[system] = self.bench.measured(self.bench.generation, head)

    def fitted(self, balance: Balance | None) -> Fitted:
        """Return the model of the documents with these parameters; None: the parameters of the product."""
        generation = self.bench.generation
        rows = {document: int(row) for row, document in self.bench.ids.items()}
        every = max(1, -(-len(rows) // MAX_TEXTS))
        texts = [
            SourceText(rows[document["id"]], document["title"] or "", document["text"])
            for document in self.one.documents[::every]
        ]
        steps = fit_from_documents(generation, HeadConfig(generation.dim), texts, self.encoder.encode_queries, balance)
        return finished(steps)[0]


def main() -> None:
    """Run the benchmark; print a table, and one last line of JSON."""
    options = _parser().parse_args()
    console = Console(width=160, highlight=False)
    encoder = CachedEncoder(converted_encoder(Settings().encoder))
    with ExitStack() as stack:
        found = {}
        for one in sets(options.data, options.sets):
            found[one.name] = OpenSet(one, encoder, options.queries, stack)
            console.print(one.name, found[one.name].point, found[one.name].fusion)
        if len(found) < 4:
            raise SystemExit("the map to a set is learned from the others: at least four sets are needed")
        results = {name: measure_set(name, found) for name in found}
    print_table(console, results)
    product = learned_map([one.point for one in found.values()])
    publish({"sets": results, "goal": GOAL, "map": rounded(product.constant, product.slope)}, [0], options.out)


def measure_set(name: str, found: Mapping[str, OpenSet]) -> dict[str, Any]:
    """Return the figures of one set."""
    one = found[name]
    learned = learned_map([other.point for other_name, other in found.items() if other_name != name])
    fits = {"documents": one.fitted(learned), "shipped": one.fitted(None)}
    one.measure("version 0", AttentionHead(HeadConfig(one.bench.generation.dim)))
    for system, fitted in fits.items():
        one.measure(system, fitted.head)
    means = {system: float(np.mean(list(values[NDCG].values()))) for system, values in one.measured.items()}
    best = max(BASELINES, key=lambda system: means[system])
    return {
        "queries": len(one.bench.asked),
        "fusion": one.fusion,
        "best": best,
        "measured": {system: round(mean, 4) for system, mean in means.items()},
        "minus_best": {system: _difference(one, best, system) for system in OURS},
        "minus_version_0": {system: _difference(one, "version 0", system) for system in OURS[1:]},
        "point": rounded(one.point.log_weight, one.point.contrast),
        "map": rounded(learned.constant, learned.slope),
        "promoted": {system: fitted.decision.promote for system, fitted in fits.items()},
        "guard": {system: fitted.report["guard"] for system, fitted in fits.items()},
    }


def _difference(one: OpenSet, before: str, after: str) -> list[float]:
    """Return the mean difference of two systems, and its interval from low to high."""
    pair = compare(NDCG, one.measured[before][NDCG], one.measured[after][NDCG])
    return rounded(pair.difference, pair.low, pair.high)


def print_table(console: Console, results: Mapping[str, Any]) -> None:
    """Print a row per set."""
    columns: Sequence[str] = (*BASELINES, *OURS)
    shown = Table(title="nDCG@10 before any feedback")
    for column in ("set", *columns, "documents minus best", "documents minus version 0"):
        shown.add_column(column)
    for name, one in results.items():
        cells = [f"{one['measured'][system]:.3f}" for system in columns]
        differences = [
            f"{100 * mean:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"
            for mean, low, high in (one["minus_best"]["documents"], one["minus_version_0"]["documents"])
        ]
        shown.add_row(name, *cells, *differences)
    console.print(shown)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with one folder per test set")
    parser.add_argument("--sets", default="", help="comma-separated; default: all")
    parser.add_argument("--queries", type=int, default=1000, help="number of test queries, at most")
    add_out(parser)
    return parser


if __name__ == "__main__":
    main()
