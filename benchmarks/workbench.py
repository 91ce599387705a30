"""A test set as learning sees it, laid open in this process: one generation, its feedback, and test queries to ask.

Documents and judgments go through the service; what is fitted and searched from there on is the library's own, on one
thread, so that one thing at a time can be changed. A test query never sees memory of its own text.
"""

import argparse
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sqlalchemy import select

from benchmarks.collections import TestSet, ingest, post_train_judgments, read_set
from benchmarks.ours import LIMIT, MAX_QUERY_CHARACTERS
from benchmarks.results import MEASURES
from index.encoding.encoder import Encoder
from index.evaluation.measures import measure_run
from index.evaluation.significance import CONFIDENCE, RESAMPLES
from index.generation.generation import Generation
from index.learning.config import FitConfig
from index.learning.examples import Feedback
from index.learning.fit import Fitted, Steps
from index.learning.held_out import ranked_rows, sample
from index.memory.query_key import as_query_key
from index.ranking.attention import AttentionHead
from index.records import Floats
from service.runtime.collection import CollectionState
from service.runtime.collection_settings import CollectionSettings
from service.runtime.feedback_log import gather_feedback
from service.runtime.runtime import Runtime
from service.settings import Settings
from service.storage.tables import Document
from service.training.schemas import TrainingIn

KEYS = ("title", "passage", "sentence")
Values = dict[str, dict[str, float]]
"""Measure -> test query -> value."""


@dataclass(frozen=True)
class Bench:
    """A set whose train judgments are remembered and not yet trained on."""

    one: TestSet
    generation: Generation
    champion: AttentionHead
    """Untrained."""
    feedback: list[Feedback]
    """Of the train queries."""
    asked: dict[str, Feedback]
    """Test query -> text, vector and source; nothing of what is judged."""
    ids: dict[str, str]
    """Row, as `ranked_rows` prints it -> document."""

    def measured(self, generation: Generation, head: AttentionHead) -> Values:
        """Return how a head ranks the whole collection for the test queries."""
        run = {
            query: [self.ids[row] for row in ranked_rows(generation, head, one, LIMIT)]
            for query, one in self.asked.items()
        }
        return measure_run(run, {query: self.one.test[query] for query in self.asked}, MEASURES)


def sets(data: Path, wanted: str) -> Iterator[TestSet]:
    """Yield the test sets in a folder, or those of these names, comma-separated."""
    for folder in sorted(folder for folder in data.iterdir() if (folder / "corpus.jsonl").is_file()):
        if not wanted or folder.name in wanted.split(","):
            yield read_set(folder)


def asked_queries(one: TestSet, most: int) -> list[str]:
    """Return the test queries to ask, at most so many, always the same ones."""
    return sample(sorted(one.test), most, 0)


@contextmanager
def laid_open(one: TestSet, encoder: Encoder, queries: Sequence[str]) -> Iterator[Bench]:
    """Give a set to the service, documents and judgments of the train split; yield what learning works with."""
    with tempfile.TemporaryDirectory() as folder:
        runtime = Runtime.open(Settings(data=Path(folder)), encoder)
        try:
            state = runtime.create_collection("set", CollectionSettings(keys=list(KEYS)))
            ingest(runtime, state, one.documents)
            post_train_judgments(runtime, state, one)
            yield _bench(runtime, state, one, queries)
        finally:
            runtime.close()


def _bench(runtime: Runtime, state: CollectionState, one: TestSet, queries: Sequence[str]) -> Bench:
    with runtime.database.read() as connection:
        feedback = gather_feedback(connection, state.id)
        found = connection.execute(select(Document.row, Document.id).where(Document.collection_id == state.id))
        ids = {str(row.row): row.id for row in found}
    texts = [one.queries[query][:MAX_QUERY_CHARACTERS] for query in queries]
    vectors = runtime.encoder.encode_queries(texts)
    asked = {
        query: Feedback(as_query_key(text), text, vector, {})
        for query, text, vector in zip(queries, texts, vectors, strict=True)
    }
    return Bench(one, state.generation, state.serving.head, feedback, asked, ids)


def run_config(seed: int) -> FitConfig:
    """Return how a training run of the service fits, where nothing else is asked for."""
    return FitConfig(seed=seed, cost_budget=TrainingIn().budget_seconds)


def finished(steps: Steps) -> tuple[Fitted, float]:
    """Return what a fit comes to, and its seconds; raises what it raises, NotEnoughFeedback first of all."""
    started = time.perf_counter()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            fitted: Fitted = end.value
            return fitted, time.perf_counter() - started


def mean_over_sets(gaps: Sequence[Floats]) -> list[float]:
    """Return mean, low and high of the mean over sets of the mean difference; gaps: per set (queries,).

    Each set counts alike; the bootstrap draws queries within every set.
    """
    draws = np.random.default_rng(0)
    total = np.zeros(RESAMPLES)
    for gap in gaps:
        total += draws.multinomial(len(gap), np.full(len(gap), 1 / len(gap)), RESAMPLES) @ gap / len(gap)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(total / len(gaps), [tail, 1 - tail])
    return rounded(np.mean([gap.mean() for gap in gaps]), low, high)


def rounded(*values: Any) -> list[float]:
    """Return plain numbers, to four digits."""
    return [round(float(value), 4) for value in values]


def on_one_thread() -> None:
    """Compute as the training process does: one thread, the same bits each time."""
    torch.set_num_threads(1)
    torch.set_deterministic_debug_mode("error")  # as use_deterministic_algorithms, without importing its compiler


def commit() -> str:
    """Return the commit that is measured, "" outside a checkout."""
    return subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()


def options_of(description: str, queries: int, seeds: str) -> argparse.ArgumentParser:
    """Return a parser with the options that benchmarks on the bench share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, required=True, help="folder with one folder per test set")
    parser.add_argument("--sets", default="", help="comma-separated; default: all")
    parser.add_argument("--queries", type=int, default=queries, help="of the test split, at most")
    parser.add_argument("--seeds", default=seeds, help="comma-separated")
    parser.add_argument("--out", type=Path, help="file of results; what is in it is not measured again")
    return parser
