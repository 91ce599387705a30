"""What a log of biased clicks teaches: simulated searchers, logged impressions, training, nDCG@10 on the test split.

    python -m benchmarks.clicks --data ../shared/data --sets cosqa,squad_dev,reviews --impressions 1000,10000,100000

The untrained service ranks the train queries; lists of ten are shown to simulated searchers (benchmarks/simulator.py),
popular queries more often, and in a share of the lists documents change places, as they do when an index grows or a
model is replaced. Their clicks are posted as events. Then a head is trained four times on the same log: with clicks
read as graded judgments, by log propensities (debiased), as they are (naive; `index.trials.Recipe.reading`), and as a
training run of the service does, which lets validation choose. The ceiling is a run on the judgments themselves: a gain
is given as a share of its. Memory of train queries counts in all but the untrained row; no test query is in the log.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sqlalchemy import insert

from benchmarks.collections import BATCH, TestSet, ingest, post_train_judgments, read_set
from benchmarks.simulator import MODELS, Impression, Searchers, examination, simulate
from benchmarks.vectors import CachedEncoder
from benchmarks.workbench import finished
from index.attention import AttentionHead
from index.encoder import Encoder, load_encoder
from index.evaluate import measure_run
from index.examples import Feedback
from index.train import fit
from index.trials import FitConfig
from service.database import new_id, rfc3339
from service.feedback.actions import take_events
from service.learning import gather_feedback
from service.runtime import Runtime
from service.search.actions import answer
from service.search.schemas import SearchIn
from service.settings import Settings
from service.sources import normalise
from service.state import CollectionSettings, CollectionState
from service.tables import Query
from service.training import actions as training
from service.training.schemas import TrainingIn

SHOWN = 10
DEPTH = 15
"""Best documents of a query that changes of place happen among."""
SHUFFLE = 2.0
"""Standard deviation, in places, of what a shuffled list adds to each rank."""
READINGS = FitConfig.readings


@dataclass(frozen=True)
class Plan:
    """What is simulated and measured."""

    searchers: Searchers
    impressions: tuple[int, ...]
    """Sizes of the log, ascending; each goes on from the one before."""
    shuffled: float
    """Share of the lists in which documents change places."""
    popularity: float
    """Exponent of the Zipf law by which queries are drawn."""
    seed: int


def main() -> None:
    """Run the benchmark on the sets asked for; print a table, and one last line of JSON."""
    options = _parser().parse_args()
    sizes = tuple(sorted(int(size) for size in options.impressions.split(",")))
    searchers = Searchers(options.model, options.eta, options.noise)
    plan = Plan(searchers, sizes, options.shuffled, options.popularity, options.seed)
    encoder = CachedEncoder(load_encoder(Settings().encoder))
    console = Console(width=160)
    results = {}
    for name in options.sets.split(","):
        results[name] = measure_set(read_set(options.data / name), encoder, plan)
        print_table(console, name, results[name])
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    print(json.dumps({"commit": commit, "cores": os.cpu_count(), "plan": asdict(plan), "sets": results}))


def measure_set(one: TestSet, encoder: Encoder, plan: Plan) -> dict[str, Any]:
    """Return nDCG@10 of every reading at every size of the log, and of the judgments in the log's place."""
    with _collection(one, encoder) as (runtime, state):
        untrained = _quality(runtime, state, one, "champion")
        post_train_judgments(runtime, state, one)
        record = _train(runtime, state, plan.seed)
        ceiling = _quality(runtime, state, one, record["model_version"])
    rows = []
    with _collection(one, encoder) as (runtime, state):
        logs = _impressions(runtime, state, one, plan)
        logged = 0
        for size in plan.impressions:
            clicks = post(runtime, state, one, plan, [next(logs) for _ in range(size - logged)], logged)
            logged = size
            row = _measure(runtime, state, one, plan) | {"impressions": size, "new_clicks": clicks}
            gains = {name: row[name] - untrained for name in ("memory", *READINGS, "chosen")}
            row["share"] = {name: round(gain / (ceiling - untrained), 3) for name, gain in gains.items()}
            rows.append(row)
    return {"untrained": untrained, "judgments": ceiling, "logs": rows}


def _measure(runtime: Runtime, state: CollectionState, one: TestSet, plan: Plan) -> dict[str, Any]:
    """Return what the log so far teaches, by each reading."""
    started = time.perf_counter()
    with runtime.database.read() as connection:
        feedback = gather_feedback(connection, state.id)
    gathered = time.perf_counter() - started
    row: dict[str, Any] = {"memory": _quality(runtime, state, one, "champion"), "gather_seconds": round(gathered, 2)}
    for reading in READINGS:
        with _served(state, fitted(state, feedback, reading, plan.seed)):
            row[reading] = _quality(runtime, state, one, "champion")
    record = _train(runtime, state, plan.seed)
    row["chosen"] = _quality(runtime, state, one, record["model_version"])
    recipe = record["report"]["recipe"]
    row["recipe"], row["reading"] = recipe["recipe"], recipe["reading"]
    row["train_seconds"] = round(record["wall_seconds"], 1)
    row["peak_mib"] = record["report"]["peak_memory_bytes"] // 2**20
    row["examination"] = record["report"]["examination"]
    row["true_curve"] = [round(float(chance), 4) for chance in examination(plan.searchers.eta, SHOWN)]
    return row


def fitted(state: CollectionState, feedback: Sequence[Feedback], reading: str, seed: int) -> AttentionHead:
    """Return the head that a training run fits when clicks are read in one way only."""
    config = FitConfig(seed=seed, readings=(reading,))
    return finished(fit(state.generation, feedback, state.serving.head, config))[0].head


def post(
    runtime: Runtime, state: CollectionState, one: TestSet, plan: Plan, impressions: list[Impression], before: int
) -> int:
    """Log these impressions and post what their searchers did; return how many clicks there were."""
    with runtime.database.write() as connection:
        for start in range(0, len(impressions), BATCH):
            part = impressions[start : start + BATCH]
            connection.execute(insert(Query), [_row(state, each) for each in part])
    qrels = {one.queries[query]: grades for query, grades in one.train.items()}
    best = max(grade for grades in one.train.values() for grade in grades.values())
    events = list(simulate(plan.searchers, impressions, qrels, plan.seed + before, best))
    for start in range(0, len(events), BATCH):
        taken = take_events(runtime, state, events[start : start + BATCH])
        assert not taken["rejected"], taken["rejected"][:3]
    return len(events)


def _impressions(runtime: Runtime, state: CollectionState, one: TestSet, plan: Plan) -> Iterator[Impression]:
    """Yield lists as the untrained service ranks them now: queries by popularity, some lists shuffled."""
    random = np.random.default_rng(plan.seed)
    texts = [one.queries[query] for query in sorted(one.train) if len(one.queries[query]) <= 2048]
    order = random.permutation(len(texts))
    popularity = np.arange(1, len(texts) + 1) ** -plan.popularity
    ranked: dict[int, list[str]] = {}
    while True:
        for at in order[random.choice(len(texts), 1000, p=popularity / popularity.sum())].tolist():
            if at not in ranked:
                asked = SearchIn(q=texts[at], limit=DEPTH, log=False, mode="hybrid")
                ranked[at] = [hit["id"] for hit in answer(runtime, state, asked)["hits"]]
            places = np.arange(len(ranked[at]), dtype=np.float64)
            if random.random() < plan.shuffled:
                places += SHUFFLE * random.normal(size=len(places))
            shown = [ranked[at][place] for place in np.argsort(places, kind="stable")[:SHOWN]]
            yield Impression(new_id(), texts[at], shown)


def _row(state: CollectionState, one: Impression) -> dict[str, Any]:
    shown = [{"id": name, "position": p, "logit": 0.0, "score": 0.0} for p, name in enumerate(one.documents, 1)]
    return {
        "query_id": one.query_id,
        "collection_id": state.id,
        "text": one.text,
        "source": normalise(one.text),
        "client_id": None,
        "session_id": None,
        "request": {},
        "shown": shown,
        "null_weight": 0.0,
        "model_version": 0,
        "generation": state.generation.watermark,
        "created_at": rfc3339(datetime.now(UTC) - timedelta(days=1)),
    }


@contextmanager
def _collection(one: TestSet, encoder: Encoder) -> Iterator[tuple[Runtime, CollectionState]]:
    with tempfile.TemporaryDirectory() as folder:
        runtime = Runtime.open(Settings(data=Path(folder)), encoder)
        try:
            state = runtime.create_collection("set", CollectionSettings())
            ingest(runtime, state, one.documents)
            yield runtime, state
        finally:
            runtime.close()


def _quality(runtime: Runtime, state: CollectionState, one: TestSet, model: Any) -> float:
    """Return the mean nDCG@10 of the service's answers to the test queries by a version."""
    run = {}
    for query in sorted(one.test):
        request = SearchIn(q=one.queries[query][:2048], limit=SHOWN, log=False, model=model)
        run[query] = [hit["id"] for hit in answer(runtime, state, request)["hits"]]
    return round(float(np.mean(list(measure_run(run, one.test, ["nDCG@10"])["nDCG@10"].values()))), 4)


@contextmanager
def _served(state: CollectionState, head: AttentionHead) -> Iterator[None]:
    """Let a head that is no version answer searches."""
    champion = state.serving
    state.serving = replace(champion, head=head)
    try:
        yield
    finally:
        state.serving = champion


def _train(runtime: Runtime, state: CollectionState, seed: int) -> dict[str, Any]:
    """Return the record of a training run of the service, which makes a version and does not promote it."""
    started = time.perf_counter()
    record = training.start(runtime, state, TrainingIn(seed=seed, promote="never"))
    while record["status"] not in training.ENDED:
        time.sleep(0.2)
        record = training.show(runtime, state, record["id"])
    assert record["status"] == "succeeded", record["error"]
    return record | {"wall_seconds": time.perf_counter() - started}


def print_table(console: Console, name: str, result: dict[str, Any]) -> None:
    """Print one set's nDCG@10 at every size of the log."""
    columns = ("impressions", "memory", *READINGS, "chosen", "share of the judgments' gain", "bias", "seconds", "MiB")
    title = f"{name}: nDCG@10, untrained {result['untrained']:.3f}, on the judgments {result['judgments']:.3f}"
    table = Table(title=title)
    for column in columns:
        table.add_column(column)
    for row in result["logs"]:
        figures = [f"{row[reading]:.3f}" for reading in ("memory", *READINGS, "chosen")]
        share = " ".join(f"{value:.2f}" for value in row["share"].values())
        cost = (row["examination"]["method"], str(row["train_seconds"]), str(row["peak_mib"]))
        table.add_row(str(row["impressions"]), *figures, share, *cost)
    console.print(table)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with one folder per test set")
    parser.add_argument("--sets", default="cosqa,squad_dev,reviews", help="comma-separated")
    parser.add_argument("--impressions", default="1000,10000,100000", help="comma-separated sizes of the log")
    parser.add_argument("--model", default="position", choices=MODELS, help="how searchers read a list")
    parser.add_argument("--eta", type=float, default=1.0, help="severity of position bias")
    parser.add_argument("--noise", type=float, default=0.1, help="chance of a click on what is worth nothing")
    parser.add_argument("--shuffled", type=float, default=0.3, help="share of lists in which documents change places")
    parser.add_argument("--popularity", type=float, default=1.0, help="exponent of the law by which queries repeat")
    parser.add_argument("--seed", type=int, default=0)
    return parser


if __name__ == "__main__":
    main()
