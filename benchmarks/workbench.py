"""A test set loaded into this process: its generation, its feedback, and its test queries.

The service ingests documents and judgments. Fitting and searching then use the library directly, on one thread, so
that a benchmark can change one part at a time. A test query never sees memory of its own text.
"""

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from benchmarks.collections import TestSet, document_ids, opened, post_train_judgments, read_set
from benchmarks.measurements import MEASURES
from benchmarks.ours import LIMIT, MAX_QUERY_CHARACTERS
from benchmarks.result_file import add_out
from index.encoding.encoder import Encoder
from index.evaluation.measures import measure_run
from index.evaluation.significance import CONFIDENCE
from index.generation.generation import Generation
from index.learning.config import FitConfig
from index.learning.examples import Feedback
from index.learning.fit import Fitted, Steps
from index.learning.held_out import ranked_rows, sample
from index.memory.query_key import as_query_key
from index.ranking.attention import AttentionHead
from index.records import Floats
from service.runtime.collection import CollectionState
from service.runtime.feedback_log import gather_feedback
from service.runtime.runtime import Runtime
from service.training.schemas import TrainingIn

RESAMPLES = 4000
"""Bootstrap samples of an interval over several sets."""
KEYS = ("title", "passage", "sentence")
Values = dict[str, dict[str, float]]
"""Measure -> test query -> value."""


@dataclass(frozen=True)
class Bench:
    """A set whose train judgments are in memory. No model is trained yet."""

    one: TestSet
    generation: Generation
    champion: AttentionHead
    """The untrained head."""
    feedback: list[Feedback]
    """Feedback of the train queries."""
    asked: dict[str, Feedback]
    """Test query -> text, vector and query key, without its judgments."""
    ids: dict[str, str]
    """Row, as `ranked_rows` returns it -> document id."""

    def measured(self, generation: Generation, head: AttentionHead) -> Values:
        """Return the measures of a head's rankings of the whole collection for the test queries."""
        run = {
            query: [self.ids[row] for row in ranked_rows(generation, head, one)[:LIMIT]]
            for query, one in self.asked.items()
        }
        return measure_run(run, {query: self.one.test[query] for query in self.asked}, MEASURES)


def sets(data: Path, wanted: str) -> Iterator[TestSet]:
    """Yield the test sets in a folder; `wanted` restricts them to these names, comma-separated."""
    for folder in sorted(folder for folder in data.iterdir() if (folder / "corpus.jsonl").is_file()):
        if not wanted or folder.name in wanted.split(","):
            yield read_set(folder)


def asked_queries(one: TestSet, most: int) -> list[str]:
    """Return at most `most` test queries, always the same ones."""
    return sample(sorted(one.test), most, 0)


@contextmanager
def loaded(one: TestSet, encoder: Encoder, queries: Sequence[str]) -> Iterator[Bench]:
    """Post the documents and train judgments of a set to a service; yield the bench."""
    with opened(one, encoder, KEYS) as (runtime, state):
        post_train_judgments(runtime, state, one)
        yield bench_of(runtime, state, one, queries)


def bench_of(runtime: Runtime, state: CollectionState, one: TestSet, queries: Sequence[str]) -> Bench:
    """Return the bench of an open collection with these test queries."""
    with runtime.database.read() as connection:
        feedback = gather_feedback(connection, state.id)
    ids = {str(row): name for row, name in document_ids(runtime, state).items()}
    texts = [one.queries[query][:MAX_QUERY_CHARACTERS] for query in queries]
    vectors = runtime.encoder.encode_queries(texts)
    asked = {
        query: Feedback(as_query_key(text), text, vector, {})
        for query, text, vector in zip(queries, texts, vectors, strict=True)
    }
    return Bench(one, state.generation, state.serving.head, feedback, asked, ids)


def run_config(seed: int) -> FitConfig:
    """Return the default fit configuration of a training run of the service."""
    return FitConfig(seed=seed, cost_budget=TrainingIn().budget_seconds)


def finished(steps: Steps) -> tuple[Fitted, float]:
    """Run a fit to its end; return its result and seconds. Raises the errors of the fit, such as NotEnoughFeedback."""
    started = time.perf_counter()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            fitted: Fitted = end.value
            return fitted, time.perf_counter() - started


def mean_over_sets(gaps: Sequence[Floats]) -> list[float]:
    """Return mean, low and high of the mean over sets of the mean difference. gaps: (queries,) per set.

    Every set has the same weight. The bootstrap draws queries within each set.
    """
    draws = np.random.default_rng(0)
    total = np.zeros(RESAMPLES)
    for gap in gaps:
        total += draws.multinomial(len(gap), np.full(len(gap), 1 / len(gap)), RESAMPLES) @ gap / len(gap)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(total / len(gaps), [tail, 1 - tail])
    return rounded(np.mean([gap.mean() for gap in gaps]), low, high)


def rounded(*values: Any) -> list[float]:
    """Return floats rounded to four digits."""
    return [round(float(value), 4) for value in values]


def on_one_thread() -> None:
    """Compute as the training process does: one thread, deterministic operations."""
    torch.set_num_threads(1)
    torch.set_deterministic_debug_mode("error")  # as use_deterministic_algorithms, without importing its compiler


def print_measured(console: Console, label: str, values: Values, facts: Mapping[str, Any]) -> None:
    """Print the mean of the first measure of one measurement, with its facts."""
    mean = np.mean(list(values[MEASURES[0]].values()))
    console.print(f"{label}: {mean:.4f}", json.dumps(facts), markup=False, soft_wrap=True)


def options_of(description: str, queries: int, seeds: str) -> argparse.ArgumentParser:
    """Return a parser with the options that the benchmarks on a Bench share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, required=True, help="folder with one folder per test set")
    parser.add_argument("--sets", default="", help="comma-separated; default: all")
    parser.add_argument("--queries", type=int, default=queries, help="number of test queries, at most")
    parser.add_argument("--seeds", default=seeds, help="comma-separated")
    add_resume(parser)
    add_out(parser)
    return parser


def add_resume(parser: argparse.ArgumentParser) -> None:
    """Add the option `--resume`."""
    parser.add_argument("--resume", type=Path, help="file of per-query measures; entries in it are not measured again")
