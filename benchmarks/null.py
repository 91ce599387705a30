"""The null weight as the probability that no document answers the query, on the test split.

    python -m benchmarks.null --data ../shared/data --sets cosqa,cranfield,reviews --out benchmarks/results/null.json

Every test query is searched twice: in the whole collection, where the null weight should be 0, and without its relevant
documents, where it should be 1. Reported are the expected calibration error (15 bins of equal mass), the Brier score
(.25 = always one half) and the AUROC. For the whole collection the risk is reported too: the share of answered queries
whose first hit is not relevant, averaged over all coverages, when queries with the highest null weight are left
unanswered first. `best` and `random` are the risks of the best and of a random order. Fits use the train split. Vectors
come from a cache after the first run (benchmarks/vectors.py).
"""

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.collections import TestSet, document_ids, opened, post_train_judgments, read_set
from benchmarks.ours import train
from benchmarks.result_file import add_out, publish
from benchmarks.vectors import CachedEncoder, converted_encoder
from benchmarks.workbench import KEYS
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
from service.runtime.collection import CollectionState
from service.runtime.model_files import load_version
from service.runtime.runtime import Runtime
from service.settings import Settings

MEASURES = ("ECE", "Brier", "AUROC", "risk", "best", "random")
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Evidence:
    """The searches of n queries, with the relevant documents present and removed.

    `null_evidence` (n, 2) and the null weight (n,) of both searches; whether the first hit was relevant (n,).
    """

    present: Array
    removed: Array
    null_present: Array
    null_removed: Array
    correct: Array


def main() -> None:
    """Run the benchmark on the chosen sets; print a table, and one last line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with one folder per test set")
    parser.add_argument("--sets", default="", help="comma-separated; default: all")
    parser.add_argument("--queries", type=int, default=400, help="number of queries of each split, at most")
    parser.add_argument("--seed", type=int, default=0)
    add_out(parser)
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
    publish({"sets": results}, [options.seed], options.out)


def measure_set(one: TestSet, encoder: Encoder, queries: int, seed: int) -> dict[str, Any]:
    """Return the measures of the null weight of the untrained and the trained head, and of a fit by `fit_null`."""
    with opened(one, encoder, KEYS) as (runtime, state):
        learn, test = (_sample(part, queries, seed) for part in (one.train, one.test))
        found = {"untrained": _searched(runtime, state, state.serving.head, one, test)}
        post_train_judgments(runtime, state, one)
        head = _trained(runtime, state, seed)
        found["trained"] = _searched(runtime, state, head, one, test)
        learned = _searched(runtime, state, head, one, learn)
    fit = fit_null(learned.present, learned.removed)
    last = found["trained"]
    measured = {name: measures(each, each.null_present, each.null_removed) for name, each in found.items()}
    measured["fitted"] = measures(last, fit.null_weight(last.present), fit.null_weight(last.removed))
    return {"queries": len(test), "fit": asdict(fit), "measured": measured}


def measures(evidence: Evidence, present: Array, removed: Array) -> dict[str, float]:
    """Return every measure of null weights (n,) with the relevant documents present and removed."""
    claimed, missing = np.concatenate([present, removed]), np.repeat([0, 1], len(present))
    values = (
        expected_calibration_error(claimed, missing),
        brier_score(claimed, missing),
        auroc(claimed, missing),
        area_under_risk(-present, evidence.correct),
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
    """Return the evidence of each query's two searches. A query does not see memory of its own text."""
    generation = state.generation
    rows = document_ids(runtime, state)
    doc_index = {name: int(generation.doc_indices(np.asarray([row]))[0]) for row, name in rows.items()}
    vectors = runtime.encoder.encode_queries([one.queries[query] for query in judged])
    found = []
    for (query, grades), vector in zip(judged.items(), vectors, strict=True):
        relevant = [doc_index[name] for name, grade in grades.items() if grade > 0 and name in doc_index]
        without = np.ones(len(generation.rows), np.bool_)
        without[relevant] = False
        text = one.queries[query]
        present, removed = (
            search(generation, head, Query(text, vector, allowed=allowed, excluded_query=as_query_key(text)))
            for allowed in (None, without)
        )
        correct = len(present.doc_indices) > 0 and int(present.doc_indices[0]) in relevant
        evidence = (null_evidence(each.logits) for each in (present, removed))
        found.append((*evidence, present.null_weight, removed.null_weight, float(correct)))
    return Evidence(*(np.asarray(column, np.float64) for column in zip(*found, strict=True)))


def _trained(runtime: Runtime, state: CollectionState, seed: int) -> AttentionHead:
    """Return the head of a training run, promoted or not."""
    record, _ = train(runtime, state, seed, promote="never")
    assert record["status"] == "succeeded", record["error"]
    return load_version(state.id, state.initial, record["model_version"], runtime.settings.data)


def print_table(console: Console, results: Mapping[str, Any]) -> None:
    """Print a row per set and null weight."""
    table = Table(title="The null weight as the probability that no document answers")
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
