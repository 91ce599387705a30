"""The gain of learning from judgments: nDCG@10 on the test split before and after one training run of the service.

    python -m benchmarks.learning --data ../shared/data
    python -m benchmarks.learning --data ../shared/data --peers --seeds 0,1,2 --out benchmarks/results/learning.json

The benchmark posts the train split as judgments, starts a training run, and searches the test split through the
service. Baselines run beside it over the same keys and the same BM25 index: BM25, dense, reciprocal rank fusion, and
the best fixed fusion, which is chosen on the train split. `--peers` adds other ways to learn from the same judgments
(benchmarks/peers, `make peers`). Nothing is chosen on the test split. Vectors come from a cache after the first run
(benchmarks/vectors.py), so the reported seconds exclude the first encoding.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from threadpoolctl import threadpool_limits

from benchmarks import report
from benchmarks.baselines import BASELINES, baselines, gather
from benchmarks.collections import TestSet, opened, read_set
from benchmarks.measurements import MEASURES, Found, Measurements
from benchmarks.ours import ours
from benchmarks.peers import PEERS, Task
from benchmarks.peers.launch import add_options, chosen_peers, names_in, run_peers
from benchmarks.peers.material import Material
from benchmarks.result_file import add_out, commit, publish
from benchmarks.vectors import CachedEncoder, converted_encoder
from benchmarks.workbench import add_resume
from index.encoding.encoder import Encoder
from index.evaluation.measures import measure_run
from service.settings import Settings

OURS = ("untrained", "memory", "trained")
SYSTEMS = (*BASELINES, *OURS, *(system for peer in PEERS.values() for system in peer.systems))


@dataclass(frozen=True)
class Plan:
    """What to measure: kinds of keys, seeds, peers by name, the task of the peers, and whether ours is measured."""

    keys: list[str]
    seeds: list[int]
    peers: list[str]
    task: Task
    ours: bool = True

    def settings(self, peer: str = "") -> dict[str, Any]:
        """Return the settings that a measurement depends on, apart from the code."""
        limit = {"pairs": self.task.fine_tuning_pairs} if peer == "fine-tuning" else {}
        return {"keys": ",".join(self.keys), "encoder": self.task.encoder, **limit}

    def seeds_of(self, peer: str) -> Sequence[int | None]:
        """Return the seeds that a peer runs with; a deterministic peer runs once."""
        return self.seeds if PEERS[peer].seeded else [None]


def main() -> None:
    """Run the benchmark on the sets asked for; print tables, and one last line of JSON."""
    options = _parser().parse_args()
    settings = Settings()
    task = Task(encoder=settings.encoder, fine_tuning_pairs=options.fine_tuning_pairs)
    seeds = [int(seed) for seed in options.seeds.split(",")]
    plan = Plan(options.keys.split(","), seeds, chosen_peers(options), task, not options.without_ours)
    results = Measurements(options.resume)
    results.forget(names_in(options.again))
    console = Console(width=200, highlight=False)
    encoder = CachedEncoder(converted_encoder(settings.encoder))
    names = names_in(options.sets) or sorted(path.parent.name for path in options.data.glob("*/corpus.jsonl"))
    for name in names:
        measure_set(Measuring(read_set(options.data / name), plan, results, console), encoder)
    sets, means = report.summary(results, names, SYSTEMS), report.over_sets(results, names, SYSTEMS)
    report.print_quality(console, sets, means, SYSTEMS)
    report.print_cost(console, sets, SYSTEMS)
    if "fine-tuning" in plan.peers:
        console.print(f"fine-tuning: at most {task.fine_tuning_pairs or 'all'} pairs per epoch")
    figures = {"settings": plan.settings("fine-tuning"), "sets": sets, "mean": means}
    publish(figures, seeds, options.out, results.commits())


class Measuring:
    """The measurement of one set: the systems that are missing, and the store of new measurements."""

    def __init__(self, one: TestSet, plan: Plan, results: Measurements, console: Console) -> None:
        self.one, self.plan, self.results, self._console = one, plan, results, console
        results.open_set(one.name, len(one.documents), len(one.train), sorted(one.test))

    def missing(self, system: str, seed: int | None, peer: str = "") -> bool:
        """Whether a system is not measured with this seed yet."""
        return not self.results.has(self.one.name, system, seed, self.plan.settings(peer))

    def missing_baselines(self) -> bool:
        """Whether any baseline is not measured yet."""
        return any(self.missing(system, None) for system in BASELINES)

    def missing_ours(self) -> list[int]:
        """Return the seeds that our training still needs; the first seed if only the untrained search is missing."""
        if not self.plan.ours:
            return []
        seeds = [seed for seed in self.plan.seeds if self.missing("trained", seed)]
        return seeds or (self.plan.seeds[:1] if any(self.missing(system, None) for system in OURS[:2]) else [])

    def missing_peers(self) -> list[tuple[str, int | None]]:
        """Return the peers and seeds that are not measured yet."""
        return [
            (peer, seed)
            for peer in self.plan.peers
            for seed in self.plan.seeds_of(peer)
            if any(self.missing(system, seed, peer) for system in PEERS[peer].systems)
        ]

    def keep(self, found: Found) -> None:
        """Measure the rankings of a system; store and print the measures."""
        values = measure_run(found.run, self.one.test, MEASURES)
        peer = next((name for name, listed in PEERS.items() if found.system in listed.systems), "")
        about = {"settings": self.plan.settings(peer), "commit": commit(), "cost": found.cost, "facts": found.facts}
        self.results.put(self.one.name, found.system, found.seed, values, **about)
        report.print_found(self._console, self.one.name, found, values)


def measure_set(measuring: Measuring, encoder: Encoder) -> None:
    """Measure every missing system on one set."""
    peers, seeds = measuring.missing_peers(), measuring.missing_ours()
    if not (peers or seeds or measuring.missing_baselines()):
        return
    one = measuring.one
    with opened(one, encoder, measuring.plan.keys) as (runtime, state):
        with threadpool_limits(1):  # other thread counts give other last bits, which trees turn into other rankings
            material = gather(runtime, state, one, whole=bool(peers))
        if measuring.missing_baselines():
            _measure_baselines(measuring, material)
        _measure_peers(measuring, material, peers)
        for found in ours(runtime, state, one, seeds) if seeds else ():
            ungated = measure_run(found.ungated, one.test, MEASURES) if found.ungated else {}
            facts = {"ungated": {name: _mean(values) for name, values in ungated.items()}} if ungated else {}
            measuring.keep(replace(found, facts=found.facts | facts))


def _measure_baselines(measuring: Measuring, material: Material) -> None:
    for system, doc_indices in baselines(material):
        chosen = system == "best fixed fusion"
        seconds = material.shared_seconds if chosen else 0.0
        facts = {"fusion": material.fusion} if chosen else {}
        cost = {"learn_seconds": seconds, "live_seconds": seconds}
        measuring.keep(Found(system, None, material.run(doc_indices), cost, facts))


def _measure_peers(measuring: Measuring, material: Material, peers: Sequence[tuple[str, int | None]]) -> None:
    for _, systems in run_peers(material, peers, measuring.plan.task):
        for found in systems:
            measuring.keep(found)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with one folder per test set")
    parser.add_argument("--sets", default="", help="comma-separated, in this order; default: all")
    parser.add_argument("--keys", default="title,passage,sentence", help="kinds of keys that documents get")
    parser.add_argument("--seeds", default="0", help="comma-separated; deterministic systems run once")
    add_options(parser)
    parser.add_argument("--without-ours", action="store_true", help="leave ours to a later run with the same --resume")
    add_resume(parser)
    parser.add_argument("--again", default="", help="systems in the --resume file to measure again, comma-separated")
    add_out(parser)
    return parser


def _mean(values: dict[str, float]) -> float:
    return round(float(np.mean(list(values.values()))), 4)


if __name__ == "__main__":
    main()
