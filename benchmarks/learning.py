"""What learning gains: post the train split as judgments, train, and search the test split through the service.

    python -m benchmarks.learning --data ../shared/data

Measured beside BM25, dense, reciprocal rank fusion and the best fixed fusion (chosen on the train split), over the same
keys and the same words in the same run. Nothing is chosen on the test split. Vectors come from a cache after the first
run (benchmarks/vectors.py); the seconds given are of training alone, on one core, and do not include encoding.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sqlalchemy import select

from benchmarks.baselines import best_fixed_fusion, fixed_fusions, reciprocal_rank_fusion, signals, top
from benchmarks.collections import TestSet, ingest, post_train_judgments, read_set
from benchmarks.vectors import CachedEncoder
from index.encoder import Encoder, load_encoder
from index.evaluate import measure_run
from index.promotion import compare
from service.runtime import Runtime
from service.search.actions import answer
from service.search.schemas import SearchIn
from service.settings import Settings
from service.state import CollectionSettings, CollectionState
from service.tables import Document
from service.training import actions as training
from service.training.schemas import TrainingIn

MEASURES = ("nDCG@10", "R@100")
SYSTEMS = ("bm25", "dense", "rrf", "best fixed fusion", "untrained", "memory", "trained")
TRAIN_SAMPLE = 1500
"""Train queries that the best fixed fusion is chosen on, at most."""

Values = dict[str, dict[str, float]]


def main() -> None:
    """Run the benchmark on the sets asked for; print a table, and one last line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with one folder per test set")
    parser.add_argument("--sets", default="", help="comma-separated; default: all")
    parser.add_argument("--keys", default="title,passage,sentence", help="kinds of keys that documents get")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    folders = sorted(folder for folder in options.data.iterdir() if (folder / "corpus.jsonl").is_file())
    wanted = set(filter(None, options.sets.split(",")))
    encoder = CachedEncoder(load_encoder(Settings().encoder))
    console = Console(width=160)
    results = {}
    for folder in folders:
        if not wanted or folder.name in wanted:
            results[folder.name] = measure_set(read_set(folder), encoder, options.keys.split(","), options.seed)
            console.print(folder.name, json.dumps(results[folder.name]["summary"]), highlight=False)
    print_table(console, results)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    facts = {"commit": commit, "seed": options.seed, "cores": os.cpu_count(), "keys": options.keys}
    print(json.dumps(facts | {"sets": {name: one["summary"] for name, one in results.items()}}))


def measure_set(one: TestSet, encoder: Encoder, keys: list[str], seed: int) -> dict[str, Any]:
    """Return the measures of every system on one set's test queries."""
    with tempfile.TemporaryDirectory() as folder:
        runtime = Runtime.open(Settings(data=Path(folder)), encoder)
        try:
            state = runtime.create_collection("set", CollectionSettings(keys=keys))
            ingest(runtime, state, one.documents)
            values, fusion = _baselines(runtime, state, one)
            values["untrained"] = _searched(runtime, state, one)
            post_train_judgments(runtime, state, one)
            values["memory"] = _searched(runtime, state, one)
            started = time.perf_counter()
            record = _train(runtime, state, seed)
            wall = time.perf_counter() - started
            values["trained"] = _searched(runtime, state, one)
            promoted = record["decision"]["promoted"]
            forced = values["trained"] if promoted else _searched(runtime, state, one, record["model_version"])
        finally:
            runtime.close()
    return {"values": values, "summary": _summary(one, values, forced, fusion, record, wall)}


def _summary(
    one: TestSet, values: dict[str, Values], forced: Values, fusion: str, record: dict[str, Any], wall: float
) -> dict[str, Any]:
    means = {name: {measure: _mean(of[measure]) for measure in MEASURES} for name, of in values.items()}
    against = compare("nDCG@10", values["best fixed fusion"]["nDCG@10"], values["trained"]["nDCG@10"])
    return {
        "documents": len(one.documents),
        "queries": {"train": len(one.train), "test": len(values["bm25"]["nDCG@10"])},
        "means": means,
        "trained_ungated": {measure: _mean(forced[measure]) for measure in MEASURES},
        "fusion": fusion,
        "trained_minus_fusion": [round(x, 4) for x in (against.difference, against.low, against.high)],
        "promoted": record["decision"]["promoted"],
        "recipe": record["report"]["recipe"],
        "head": record["report"]["head"],
        "run_seconds": round(wall, 1),
        "train_seconds": record["report"]["train_seconds"],
        "peak_memory_mib": record["report"]["peak_memory_bytes"] // 2**20,
    }


def _baselines(runtime: Runtime, state: CollectionState, one: TestSet) -> tuple[dict[str, Values], str]:
    generation = state.generation
    with runtime.database.read() as connection:
        found = connection.execute(select(Document.row, Document.id).where(Document.collection_id == state.id))
        by_row = {row.row: row.id for row in found}
    ids = [by_row[row] for row in generation.rows.tolist()]
    sample = _sample(sorted(one.train), TRAIN_SAMPLE)
    fusion, _ = best_fixed_fusion(generation, _texts(one, sample), _vectors(runtime, one, sample), one.train, ids)
    runs: dict[str, dict[str, list[str]]] = {name: {} for name in SYSTEMS[:4]}
    test = sorted(one.test)
    for block in signals(generation, _texts(one, test), _vectors(runtime, one, test)):
        scores = {"bm25": block.words, "dense": block.dense, "rrf": reciprocal_rank_fusion(block)}
        scores["best fixed fusion"] = dict(fixed_fusions(block))[fusion]
        for name, each in scores.items():
            runs[name] |= top(each, block.queries, ids)
    return {name: measure_run(run, one.test, MEASURES) for name, run in runs.items()}, fusion


def _searched(runtime: Runtime, state: CollectionState, one: TestSet, model: int | None = None) -> Values:
    """Return measures of the service's own search path on the test queries, by the champion or a version."""
    run = {}
    chosen: dict[str, Any] = {} if model is None else {"model": model}
    for query in sorted(one.test):
        request = SearchIn(q=one.queries[query][:2048], limit=100, log=False, **chosen)
        run[query] = [hit["id"] for hit in answer(runtime, state, request)["hits"]]
    return measure_run(run, one.test, MEASURES)


def _train(runtime: Runtime, state: CollectionState, seed: int) -> dict[str, Any]:
    record = training.start(runtime, state, TrainingIn(seed=seed))
    while record["status"] not in training.ENDED:
        time.sleep(0.2)
        record = training.show(runtime, state, record["id"])
    assert record["status"] == "succeeded", record["error"]
    return record


def print_table(console: Console, results: dict[str, dict[str, Any]]) -> None:
    """Print nDCG@10 of each system on each set, their mean, and the difference to the best fixed fusion."""
    table = Table(title="nDCG@10 on the test split")
    for column in ("set", *SYSTEMS, "trained - fusion", "promoted", "seconds", "MiB"):
        table.add_column(column)
    for name, one in results.items():
        summary = one["summary"]
        difference, low, high = summary["trained_minus_fusion"]
        table.add_row(
            name,
            *(f"{summary['means'][system]['nDCG@10']:.3f}" for system in SYSTEMS),
            f"{difference:+.3f} [{low:+.3f}, {high:+.3f}]",
            "yes" if summary["promoted"] else "no",
            f"{summary['run_seconds']:.0f}",
            str(summary["peak_memory_mib"]),
        )
    if results:
        every = [one["summary"] for one in results.values()]
        means = [float(np.mean([one["means"][system]["nDCG@10"] for one in every])) for system in SYSTEMS]
        difference = float(np.mean([one["trained_minus_fusion"][0] for one in every]))
        table.add_row("mean", *(f"{mean:.3f}" for mean in means), f"{difference:+.3f}", "", "", "")
    console.print(table)


def _mean(values: Mapping[str, float]) -> float:
    return round(float(np.mean(list(values.values()))), 4)


def _texts(one: TestSet, queries: list[str]) -> dict[str, str]:
    return {query: one.queries[query] for query in queries}


def _vectors(runtime: Runtime, one: TestSet, queries: list[str]) -> dict[str, Any]:
    vectors = runtime.encoder.encode([one.queries[query] for query in queries])
    return dict(zip(queries, vectors, strict=True))


def _sample(queries: list[str], most: int) -> list[str]:
    if len(queries) <= most:
        return queries
    chosen = np.random.default_rng(0).choice(len(queries), most, replace=False)
    return [queries[at] for at in sorted(chosen)]


if __name__ == "__main__":
    main()
