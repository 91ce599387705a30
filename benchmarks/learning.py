"""What learning gains: post the train split as judgments, train, and search the test split through the service.

    python -m benchmarks.learning --data ../shared/data
    python -m benchmarks.learning --data ../shared/data --peers --seeds 0,1,2 --out results.json

Measured beside BM25, dense, reciprocal rank fusion and the best fixed fusion (chosen on the train split), over the same
keys and the same words in the same run; with --peers, beside other ways to learn too (benchmarks/peers, `make peers`).
Nothing is chosen on the test split. Vectors come from a cache after the first run (benchmarks/vectors.py); seconds are
of learning, and until searches use it, and do not include the first encoding.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from threadpoolctl import threadpool_limits

from benchmarks import report
from benchmarks.baselines import BASELINES, baselines, gather
from benchmarks.collections import TestSet, ingest, read_set
from benchmarks.ours import ours
from benchmarks.peers import PEERS, Task
from benchmarks.peers.material import Material
from benchmarks.results import MEASURES, Results
from benchmarks.vectors import CachedEncoder
from index.encoder import Encoder, load_encoder
from index.evaluate import measure_run
from index.records import Ints
from service.runtime import Runtime
from service.settings import Settings
from service.state import CollectionSettings, CollectionState

OURS = ("untrained", "memory", "trained")
SYSTEMS = (*BASELINES, *OURS, *(system for peer in PEERS.values() for system in peer.systems))


@dataclass(frozen=True)
class Plan:
    """What to measure: sets of keys, seeds, peers by name, what peers are given, and whether ours is measured too."""

    keys: list[str]
    seeds: list[int]
    peers: list[str]
    task: Task
    ours: bool = True

    def settings(self, peer: str = "") -> dict[str, Any]:
        """Return what a measurement depends on besides the code."""
        limit = {"pairs": self.task.fine_tuning_pairs} if peer == "fine-tuning" else {}
        return {"keys": ",".join(self.keys), "encoder": self.task.encoder, **limit}

    def seeds_of(self, peer: str) -> Sequence[int | None]:
        """Return the seeds that a peer runs with; one without chance runs once."""
        return self.seeds if PEERS[peer].seeded else [None]


def main() -> None:
    """Run the benchmark on the sets asked for; print tables, and one last line of JSON."""
    options = _parser().parse_args()
    settings = Settings()
    task = Task(encoder=settings.encoder, fine_tuning_pairs=options.fine_tuning_pairs)
    seeds = [int(seed) for seed in options.seeds.split(",")]
    plan = Plan(options.keys.split(","), seeds, _peers(options), task, not options.without_ours)
    results = Results(options.out)
    results.forget(_names(options.again))
    console = Console(width=200, highlight=False)
    encoder = CachedEncoder(load_encoder(settings.encoder))
    names = _names(options.sets) or sorted(path.parent.name for path in options.data.glob("*/corpus.jsonl"))
    for name in names:
        measure_set(Measuring(read_set(options.data / name), plan, results, console), encoder)
    sets, means = report.summary(results, names, SYSTEMS), report.over_sets(results, names, SYSTEMS)
    report.print_quality(console, sets, means, SYSTEMS)
    report.print_cost(console, sets, SYSTEMS)
    if "fine-tuning" in plan.peers:
        console.print(f"fine-tuning: at most {task.fine_tuning_pairs or 'all'} pairs per epoch")
    facts = {"commit": _commit(), "seeds": seeds, "cores": os.cpu_count(), **plan.settings("fine-tuning")}
    print(json.dumps(facts | {"sets": sets, "mean": means}))


class Measuring:
    """One set on its way through all systems: what is known, and where new measurements go."""

    def __init__(self, one: TestSet, plan: Plan, results: Results, console: Console) -> None:
        self.one, self.plan, self.results, self._console = one, plan, results, console
        results.open_set(one.name, len(one.documents), len(one.train), sorted(one.test))

    def missing(self, system: str, seed: int | None, peer: str = "") -> bool:
        """Whether a system is still to be measured with this seed."""
        return not self.results.has(self.one.name, system, seed, self.plan.settings(peer))

    def missing_baselines(self) -> bool:
        """Whether a baseline is still to be measured."""
        return any(self.missing(system, None) for system in BASELINES)

    def missing_ours(self) -> list[int]:
        """Return the seeds that ours is still to be trained with; the first where only the untrained search is."""
        if not self.plan.ours:
            return []
        seeds = [seed for seed in self.plan.seeds if self.missing("trained", seed)]
        return seeds or (self.plan.seeds[:1] if any(self.missing(system, None) for system in OURS[:2]) else [])

    def missing_peers(self) -> list[tuple[str, int | None]]:
        """Return the peers and seeds that are still to be run."""
        return [
            (peer, seed)
            for peer in self.plan.peers
            for seed in self.plan.seeds_of(peer)
            if any(self.missing(system, seed, peer) for system in PEERS[peer].systems)
        ]

    def keep(
        self, system: str, seed: int | None, run: dict[str, list[str]], cost: dict[str, Any], facts: dict[str, Any]
    ) -> None:
        """Measure a system's rankings of the test queries, and store and tell what came out."""
        values = measure_run(run, self.one.test, MEASURES)
        peer = next((name for name, listed in PEERS.items() if system in listed.systems), "")
        about = {"settings": self.plan.settings(peer), "commit": _commit(), "cost": cost, "facts": facts}
        self.results.put(self.one.name, system, seed, values, **about)
        mean = np.mean(list(values[MEASURES[0]].values()))
        told = f"{self.one.name} {system}{'' if seed is None else f' seed {seed}'} {mean:.4f}"
        rounded = {name: round(value, 2) for name, value in cost.items()}
        self._console.print(told, json.dumps(rounded), json.dumps(facts), markup=False, soft_wrap=True)


def measure_set(measuring: Measuring, encoder: Encoder) -> None:
    """Measure every system on one set that was not measured before."""
    peers, seeds = measuring.missing_peers(), measuring.missing_ours()
    if not (peers or seeds or measuring.missing_baselines()):
        return
    one = measuring.one
    with _collection(one, encoder, measuring.plan.keys) as (runtime, state):
        with threadpool_limits(1):  # other thread counts give other last bits, which trees turn into other rankings
            material = gather(runtime, state, one, whole=bool(peers))
        if measuring.missing_baselines():
            _measure_baselines(measuring, material)
        _measure_peers(measuring, material, peers)
        for found in ours(runtime, state, one, seeds) if seeds else ():
            ungated = measure_run(found.ungated, one.test, MEASURES) if found.ungated else {}
            facts = {"ungated": {name: _mean(values) for name, values in ungated.items()}} if ungated else {}
            measuring.keep(found.system, found.seed, found.run, found.cost, found.facts | facts)


def _measure_baselines(measuring: Measuring, material: Material) -> None:
    for system, places in baselines(material):
        chosen = system == "best fixed fusion"
        seconds = material.shared_seconds if chosen else 0.0
        facts = {"fusion": material.fusion} if chosen else {}
        cost = {"learn_seconds": seconds, "live_seconds": seconds}
        measuring.keep(system, None, _run(material, places), cost, facts)


def _measure_peers(measuring: Measuring, material: Material, peers: Sequence[tuple[str, int | None]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        material.save(Path(folder))
        for peer, seed in peers:
            task = replace(measuring.plan.task, seed=seed or 0)
            found, cost = run_peer(peer, Path(folder), task)
            facts = cost.pop("facts")
            if PEERS[peer].learns:
                cost = {**cost, **{name: cost[name] + material.shared_seconds for name in report.COSTS[:2]}}
            for system in PEERS[peer].systems:
                measuring.keep(system, seed, _run(material, found[system]), cost, facts)


def run_peer(peer: str, material: Path, task: Task) -> tuple[dict[str, Ints], dict[str, Any]]:
    """Run a peer in a process of its own; return system -> places (S, depth), and its cost with facts."""
    threads = str(PEERS[peer].threads)
    environment = os.environ | {
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "TOKENIZERS_PARALLELISM": "false",
    }
    with tempfile.TemporaryDirectory() as out:
        specification = {"peer": peer, "material": str(material), "out": out, "task": asdict(task)}
        command = [sys.executable, "-m", "benchmarks.peers.child", json.dumps(specification)]
        subprocess.run(command, env=environment, check=True)
        cost = json.loads((Path(out) / "cost.json").read_bytes())
        found = {name: np.load(Path(out) / f"{name}.npy", allow_pickle=False) for name in PEERS[peer].systems}
    return found, cost


@contextmanager
def _collection(one: TestSet, encoder: Encoder, keys: list[str]) -> Iterator[tuple[Runtime, CollectionState]]:
    with tempfile.TemporaryDirectory() as folder:
        runtime = Runtime.open(Settings(data=Path(folder)), encoder)
        try:
            state = runtime.create_collection("set", CollectionSettings(keys=keys))
            ingest(runtime, state, one.documents)
            yield runtime, state
        finally:
            runtime.close()


def _run(material: Material, places: Ints) -> dict[str, list[str]]:
    rows = zip(material.test.queries, places.tolist(), strict=True)
    return {query: [material.ids[place] for place in row] for query, row in rows}


def _peers(options: argparse.Namespace) -> list[str]:
    only, skipped = _names(options.only_peers), _names(options.skip_peers)
    unknown = {*only, *skipped} - PEERS.keys()
    if unknown:
        raise SystemExit(f"no such peer: {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}")
    return [peer for peer in (only or (PEERS if options.peers else [])) if peer not in skipped]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with one folder per test set")
    parser.add_argument("--sets", default="", help="comma-separated, in this order; default: all")
    parser.add_argument("--keys", default="title,passage,sentence", help="kinds of keys that documents get")
    parser.add_argument("--seeds", default="0", help="comma-separated; what involves no chance runs once")
    parser.add_argument("--peers", action="store_true", help="measure other ways to learn too")
    parser.add_argument("--only-peers", default="", help=f"these peers alone, comma-separated: {', '.join(PEERS)}")
    parser.add_argument("--skip-peers", default="", help="without these peers, comma-separated")
    parser.add_argument("--without-ours", action="store_true", help="leave ours to a later run with the same --out")
    parser.add_argument("--fine-tuning-pairs", type=int, default=1000, help="most pairs per epoch; 0: all of them")
    parser.add_argument("--out", type=Path, help="file of results; what is in it is not measured again")
    parser.add_argument("--again", default="", help="systems in the file to measure again, comma-separated")
    return parser


def _names(listed: str) -> list[str]:
    return [name for name in listed.split(",") if name]


def _mean(values: dict[str, float]) -> float:
    return round(float(np.mean(list(values.values()))), 4)


def _commit() -> str:
    return subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    main()
