"""The gain of learning from biased clicks: ours beside its peers on the same simulated log; nDCG@10 on the test split.

    python -m benchmarks.clicks --data ../shared/data --sets cosqa,squad_dev,reviews --seeds 0,1,2
    python -m benchmarks.clicks --data ../shared/data --sets cosqa --seeds 0,1,2 --ours chosen,memory --peers \
        --out benchmarks/results/clicks.json

benchmarks/click_log.py simulates the log; a seed controls both the log and the learning. Ours: `memory` alone; a head
fitted with one click interpretation (`graded`, `debiased` or `naive`, `index.learning.trainer.Recipe`); `chosen`, the
head of a training run of the service, the mean of a `graded` and a `debiased` head; `served`, the head after the
promotion gate. Peers need grades. They get the grades of our click model (`graded`), or grade 1 for every clicked
document (`naive`). `judgments` is a training run on the true judgments. It is the ceiling, and gains are also given as
shares of its gain. No test query is in the log.
"""

import argparse
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks import report
from benchmarks.baselines import BASELINES, baselines, gather
from benchmarks.click_log import PEER_INTERPRETATIONS, Traffic
from benchmarks.click_systems import Log, logs, ours_from, theirs_from
from benchmarks.collections import TestSet, opened, read_set
from benchmarks.measurements import MEASURES, Found, Measurements
from benchmarks.ours import ours
from benchmarks.peers import PEERS, Task
from benchmarks.peers.launch import add_options, chosen_peers, names_in, run_peers
from benchmarks.result_file import add_out, commit, publish
from benchmarks.simulator import MODELS, Searchers
from benchmarks.vectors import CachedEncoder, converted_encoder
from benchmarks.workbench import add_resume, on_one_thread
from index.encoding.encoder import Encoder
from index.evaluation.measures import measure_run
from service.settings import Settings

FUSION = BASELINES[-1]
CEILING = "judgments"
CHOSEN = "chosen"
OURS = ("memory", "graded", "debiased", "naive", "served", CHOSEN)
"""Our systems that learn from a log."""
FIXED = (*BASELINES[:-1], "bm25s", "untrained", CEILING)
"""Systems that no log changes."""


def _interpreted(system: str) -> list[str]:
    """Return the names of a peer's system, a name per click interpretation."""
    return [f"{system}, {interpretation}" for interpretation in PEER_INTERPRETATIONS]


LEARNERS = [peer for peer, listed in PEERS.items() if listed.learns]
THEIRS = [name for peer in LEARNERS for system in PEERS[peer].systems for name in _interpreted(system)]
SYSTEMS = (*FIXED, *_interpreted(FUSION), *OURS, *THEIRS)


@dataclass(frozen=True)
class Plan:
    """The simulation and the systems: ascending sizes of the log, seeds, our systems and peers by name."""

    traffic: Traffic
    sizes: tuple[int, ...]
    seeds: tuple[int, ...]
    ours: tuple[str, ...]
    peers: tuple[str, ...]
    keys: tuple[str, ...]
    task: Task

    def settings(self, peer: str = "") -> dict[str, Any]:
        """Return the settings that a measurement depends on, apart from set, size, seed and the code."""
        limit = {"pairs": self.task.fine_tuning_pairs} if peer == "fine-tuning" else {}
        return {"keys": ",".join(self.keys), "encoder": self.task.encoder, "traffic": asdict(self.traffic), **limit}


def main() -> None:
    """Run the benchmark on the sets asked for; print tables, and one last line of JSON."""
    options = parser().parse_args()
    plan = plan_of(options)
    results, console = Measurements(options.resume), Console(width=200, highlight=False)
    encoder = CachedEncoder(converted_encoder(plan.task.encoder))
    on_one_thread()
    names = names_in(options.sets)
    for name in names:
        measure_set(Measuring(read_set(options.data / name), plan, results, console), encoder)
    found = {}
    for size in plan.sizes:
        found[size] = summary(results, names, size)
        _print(console, size, found[size])
    figures = {"settings": plan.settings("fine-tuning"), "impressions": found}
    publish(figures, plan.seeds, options.out, results.commits())


class Measuring:
    """The measurement of one set: the systems that are missing, and the store of new measurements.

    Systems that no log changes are stored under the name of the set; the others under `log_name`.
    """

    def __init__(self, one: TestSet, plan: Plan, results: Measurements, console: Console) -> None:
        self.one, self.plan, self.results, self._console = one, plan, results, console
        for name in (one.name, *(log_name(one.name, size) for size in plan.sizes)):
            results.open_set(name, len(one.documents), len(one.train), sorted(one.test))

    def missing(self, name: str, system: str, seed: int | None, peer: str = "") -> bool:
        """Whether a system is not measured yet."""
        return not self.results.has(name, system, seed, self.plan.settings(peer))

    def missing_ours(self, size: int, seed: int) -> list[str]:
        """Return our systems that are not measured yet after a log of this size."""
        return [one for one in self.plan.ours if self.missing(log_name(self.one.name, size), one, seed)]

    def missing_theirs(self, size: int, seed: int, interpretation: str) -> list[str]:
        """Return the peers, the best fixed fusion first, that are not measured yet after a log of this size."""
        systems = {FUSION: (FUSION,)} | {peer: PEERS[peer].systems for peer in self.plan.peers if peer in LEARNERS}
        name = log_name(self.one.name, size)
        return [
            peer
            for peer, own in systems.items()
            if any(self.missing(name, f"{system}, {interpretation}", seed, peer) for system in own)
        ]

    def missing_from(self, size: int, seed: int) -> bool:
        """Whether any system is not measured yet after a log of this size."""
        return bool(
            self.missing_ours(size, seed) or any(self.missing_theirs(size, seed, one) for one in PEER_INTERPRETATIONS)
        )

    def keep(self, name: str, found: Found, peer: str = "") -> None:
        """Measure the rankings of a system; store and print the measures."""
        values = measure_run(found.run, self.one.test, MEASURES)
        about = {"settings": self.plan.settings(peer), "commit": commit(), "cost": found.cost, "facts": found.facts}
        self.results.put(name, found.system, found.seed, values, **about)
        report.print_found(self._console, name, found, values)


def log_name(name: str, size: int) -> str:
    """Return the stored name of a set after a log of this size."""
    return f"{name} after {size}"


def measure_set(measuring: Measuring, encoder: Encoder) -> None:
    """Measure every missing system on one set."""
    _measure_fixed(measuring, encoder)
    plan = measuring.plan
    for seed in plan.seeds:
        sizes = [size for size in plan.sizes if measuring.missing_from(size, seed)]
        if not sizes:
            continue
        with opened(measuring.one, encoder, plan.keys) as (runtime, state):
            for log in logs(runtime, state, measuring.one, plan.traffic, seed, sizes):
                _measure_log(measuring, log)


def _measure_log(measuring: Measuring, log: Log) -> None:
    size, seed = log.size, log.seed
    name = log_name(measuring.one.name, size)
    for interpretation in PEER_INTERPRETATIONS:
        peers = measuring.missing_theirs(size, seed, interpretation)
        for peer, found in theirs_from(log, interpretation, peers, measuring.plan.task) if peers else ():
            measuring.keep(name, found, peer)
    for found in ours_from(log, measuring.missing_ours(size, seed)):
        measuring.keep(name, found)


def _measure_fixed(measuring: Measuring, encoder: Encoder) -> None:
    """Measure the systems that no log changes, and the ceiling."""
    one, plan = measuring.one, measuring.plan
    fixed = [*BASELINES[:-1], *(["bm25s"] if "bm25s" in plan.peers else []), "untrained"]
    seeds = [seed for seed in plan.seeds if plan.ours and measuring.missing(one.name, CEILING, seed)]
    if not seeds and not any(measuring.missing(one.name, system, None) for system in fixed):
        return
    with opened(one, encoder, plan.keys) as (runtime, state):
        with threadpool_limits(1):
            material = gather(runtime, state, one, whole=False)
        nothing = {"learn_seconds": 0.0, "live_seconds": 0.0}
        for system, doc_indices in baselines(material):
            if system != FUSION:
                measuring.keep(one.name, Found(system, None, material.run(doc_indices), nothing, {}))
        if "bm25s" in fixed:
            for _, systems in run_peers(material, [("bm25s", None)], plan.task):
                measuring.keep(one.name, systems[0])
        for found in ours(runtime, state, one, seeds):
            if found.system == "untrained":
                measuring.keep(one.name, found)
            elif found.system == "trained":
                run = found.ungated or found.run
                measuring.keep(one.name, Found(CEILING, found.seed, run, found.cost, found.facts))


def summary(results: Measurements, names: list[str], size: int) -> dict[str, Any]:
    """Return the figures after logs of this size: per set, over sets, and as shares of the gain from judgments."""
    joined = results.joined({name: (name, log_name(name, size)) for name in names})
    sets = report.summary(joined, names, SYSTEMS, CHOSEN)
    means = report.over_sets(joined, names, SYSTEMS, CHOSEN)
    return {"sets": sets, "mean": means, "share": {name: shares(one) for name, one in sets.items()}}


def shares(systems: dict[str, Any]) -> dict[str, float]:
    """Return system -> share of the gain from judgments over untrained; {} if judgments gain nothing."""
    if CEILING not in systems or "untrained" not in systems:
        return {}
    untrained = systems["untrained"]["nDCG@10"]
    gain = systems[CEILING]["nDCG@10"] - untrained
    learned = [system for system in systems if system not in FIXED]
    return {one: round((systems[one]["nDCG@10"] - untrained) / gain, 3) for one in learned} if gain > 0 else {}


def _print(console: Console, size: int, found: dict[str, Any]) -> None:
    title = f"nDCG@10 on the test split after {size:,} impressions"
    report.print_quality(console, found["sets"], found["mean"], SYSTEMS, CHOSEN, title)
    table = Table("system", *found["share"], title=f"share of the gain from judgments after {size:,} impressions")
    for system in SYSTEMS:
        cells = [f"{one[system]:+.0%}" if system in one else "" for one in found["share"].values()]
        if any(cells):
            table.add_row(system, *cells, end_section=system == CHOSEN)
    console.print(table)
    report.print_cost(console, found["sets"], SYSTEMS)


def plan_of(options: argparse.Namespace) -> Plan:
    """Return the plan of the options; ends the program at an unknown name."""
    ours = tuple(names_in(options.ours))
    if set(ours) - set(OURS):
        raise SystemExit(f"ours are {', '.join(OURS)}")
    if CHOSEN in ours and "served" not in ours:
        ours = (*ours, "served")  # it needs no further fit
    slow = () if options.only_peers else ("fine-tuning",)
    return Plan(
        traffic=Traffic(
            Searchers(options.model, options.eta, options.noise),
            options.shuffled,
            options.popularity,
            options.remembers,
        ),
        sizes=tuple(sorted(int(size) for size in names_in(options.impressions))),
        seeds=tuple(int(seed) for seed in names_in(options.seeds)),
        ours=ours,
        peers=tuple(peer for peer in chosen_peers(options) if peer not in slow),
        keys=tuple(names_in(options.keys)),
        task=Task(encoder=Settings().encoder, fine_tuning_pairs=options.fine_tuning_pairs),
    )


def parser() -> argparse.ArgumentParser:
    """Return the options of the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with one folder per test set")
    parser.add_argument("--sets", default="cosqa,squad_dev,reviews", help="comma-separated")
    parser.add_argument("--impressions", default="1000,10000,100000", help="comma-separated sizes of the log")
    parser.add_argument("--seeds", default="0", help="comma-separated; a seed controls the log and the learning")
    parser.add_argument("--keys", default="title,passage", help="kinds of keys that documents get")
    parser.add_argument("--ours", default=",".join(OURS), help='our systems, comma-separated; "" for none')
    add_options(parser)
    parser.add_argument("--model", default="position", choices=MODELS, help="how searchers read a list")
    parser.add_argument("--eta", type=float, default=1.0, help="severity of position bias")
    parser.add_argument("--noise", type=float, default=0.1, help="probability of a click on a document of grade 0")
    parser.add_argument("--shuffled", type=float, default=0.3, help="share of lists in which documents change ranks")
    parser.add_argument("--remembers", action="store_true", help="lists follow the clicks before, by memory")
    parser.add_argument("--popularity", type=float, default=1.0, help="exponent of the law by which queries repeat")
    add_resume(parser)
    add_out(parser)
    return parser


if __name__ == "__main__":
    main()
