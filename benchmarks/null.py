"""Whether "nothing here answers this" can be believed: the null weight as a probability, on the test split.

    python -m benchmarks.null --data ../shared/data --sets cosqa,cranfield,reviews

Every test query is searched twice, in the whole collection and in one without its relevant documents; the null weight
should be 0 and 1. Reported are its calibration error (15 bins of equal mass), Brier score (.25 = always one half) and
AUROC, and, for the whole collection, the risk: the share of answered queries whose first hit is not relevant, averaged
over all coverages, when the least sure are left unanswered first. Beside it, what the best and a random order of giving
up would have. Fits are made on the train split. Vectors come from a cache after the first run (benchmarks/vectors.py).
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sqlalchemy import select

from benchmarks.collections import TestSet, ingest, post_train_judgments, read_set
from benchmarks.vectors import CachedEncoder, converted_encoder
from index.encoding.encoder import Encoder
from index.learning.null_calibration import (
    area_under_risk,
    auroc,
    brier_score,
    expected_calibration_error,
    fit_null,
    null_evidence,
)
from index.memory.query_key import as_query_key
from index.ranking.attention import AttentionHead
from index.ranking.retrieval import Query
from index.ranking.search import search
from service.runtime.collection import CollectionSettings, CollectionState, load_version
from service.runtime.runtime import Runtime
from service.settings import Settings
from service.storage.tables import Document
from service.training import actions as training
from service.training.schemas import TrainingIn

MEASURES = ("ECE", "Brier", "AUROC", "risk", "best", "random")
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Evidence:
    """What the searches of n queries gave.

    `null_evidence` (n, 2) and the null weight (n,), each with the relevant documents there and gone; whether the first
    hit was relevant (n,).
    """

    there: Array
    gone: Array
    null_there: Array
    null_gone: Array
    correct: Array


def main() -> None:
    """Run the benchmark on the sets asked for; print a table, and one last line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with one folder per test set")
    parser.add_argument("--sets", default="", help="comma-separated; default: all")
    parser.add_argument("--queries", type=int, default=400, help="of the test split, and of the train split, at most")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    wanted = set(filter(None, options.sets.split(",")))
    folders = sorted(folder for folder in options.data.iterdir() if (folder / "corpus.jsonl").is_file())
    encoder = CachedEncoder(converted_encoder(Settings().encoder))
    console = Console(width=140)
    results = {}
    for folder in folders:
        if not wanted or folder.name in wanted:
            results[folder.name] = measure_set(read_set(folder), encoder, options.queries, options.seed)
            console.print(folder.name, json.dumps(results[folder.name]), highlight=False)
    print_table(console, results)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    print(json.dumps({"commit": commit, "seed": options.seed, "cores": os.cpu_count(), "sets": results}))


def measure_set(one: TestSet, encoder: Encoder, queries: int, seed: int) -> dict[str, Any]:
    """Return the measures of the null weight as served, untrained and trained, and as `fit_null` has it."""
    with tempfile.TemporaryDirectory() as folder:
        runtime = Runtime.open(Settings(data=Path(folder)), encoder)
        try:
            state = runtime.create_collection("set", CollectionSettings(keys=["title", "passage", "sentence"]))
            ingest(runtime, state, one.documents)
            train, test = (_sample(part, queries, seed) for part in (one.train, one.test))
            found = {"untrained": _searched(runtime, state, state.serving.head, one, test)}
            post_train_judgments(runtime, state, one)
            head = _trained(runtime, state, seed)
            found["trained"] = _searched(runtime, state, head, one, test)
            learned = _searched(runtime, state, head, one, train)
        finally:
            runtime.close()
    fit = fit_null(learned.there, learned.gone)
    last = found["trained"]
    measured = {name: measures(each, each.null_there, each.null_gone) for name, each in found.items()}
    measured["fitted"] = measures(last, fit.null_weight(last.there), fit.null_weight(last.gone))
    return {"queries": len(test), "fit": asdict(fit), "measured": measured}


def measures(evidence: Evidence, there: Array, gone: Array) -> dict[str, float]:
    """Return every measure of null weights (n,) with the relevant documents there, and gone."""
    claimed, missing = np.concatenate([there, gone]), np.repeat([0, 1], len(there))
    values = (
        expected_calibration_error(claimed, missing),
        brier_score(claimed, missing),
        auroc(claimed, missing),
        area_under_risk(-there, evidence.correct),
        area_under_risk(evidence.correct, evidence.correct),
        1 - float(evidence.correct.mean()),
    )
    return {name: round(value, 4) for name, value in zip(MEASURES, values, strict=True)}


def _searched(
    runtime: Runtime,
    state: CollectionState,
    head: AttentionHead,
    one: TestSet,
    judged: Mapping[str, Mapping[str, int]],
) -> Evidence:
    """Return the evidence of each query's two searches; none sees its own memory."""
    generation = state.generation
    with runtime.database.read() as connection:
        wanted = select(Document.id, Document.row).where(Document.collection_id == state.id)
        place = {row.id: int(generation.doc_indices(np.asarray([row.row]))[0]) for row in connection.execute(wanted)}
    vectors = runtime.encoder.encode_queries([one.queries[query] for query in judged])
    found = []
    for (query, grades), vector in zip(judged.items(), vectors, strict=True):
        relevant = [place[document] for document, grade in grades.items() if grade > 0 and document in place]
        without = np.ones(len(generation.rows), np.bool_)
        without[relevant] = False
        text = one.queries[query]
        there, gone = (
            search(generation, head, Query(text, vector, allowed=allowed, excluded_query=as_query_key(text)))
            for allowed in (None, without)
        )
        correct = len(there.doc_indices) > 0 and int(there.doc_indices[0]) in relevant
        evidence = (null_evidence(each.logits) for each in (there, gone))
        found.append((*evidence, there.null_weight, gone.null_weight, float(correct)))
    return Evidence(*(np.asarray(column, np.float64) for column in zip(*found, strict=True)))


def _trained(runtime: Runtime, state: CollectionState, seed: int) -> AttentionHead:
    """Return the head of a training run, promoted or not."""
    record = training.start(runtime, state, TrainingIn(seed=seed, promote="never"))
    while record["status"] not in training.ENDED:
        time.sleep(0.2)
        record = training.show(runtime, state, record["id"])
    assert record["status"] == "succeeded", record["error"]
    return load_version(state.id, state.initial, record["model_version"], runtime.settings.data)


def print_table(console: Console, results: Mapping[str, Any]) -> None:
    """Print a row per set and null weight."""
    table = Table(title="The null weight as the probability that nothing here answers")
    for column in ("set", "null weight", *MEASURES):
        table.add_column(column)
    for name, one in results.items():
        for system, values in one["measured"].items():
            table.add_row(name, system, *(f"{values[measure]:.3f}" for measure in MEASURES))
    console.print(table)


def _sample(qrels: dict[str, dict[str, int]], most: int, seed: int) -> dict[str, dict[str, int]]:
    names = sorted(qrels)
    if len(names) > most:
        names = [names[at] for at in sorted(np.random.default_rng(seed).choice(len(names), most, replace=False))]
    return {name: qrels[name] for name in names}


if __name__ == "__main__":
    main()
