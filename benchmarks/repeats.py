"""Learning from a click log in which queries repeat: memory beside a training run and LambdaMART with counts of clicks.

    python -m benchmarks.repeats --seeds 0,1,2 --out benchmarks/results/repeats.json

A shop (benchmarks/shop.py) shows lists to customers who prefer products that no text reveals. The log and its biased
clicks are simulated as in `benchmarks.clicks`. Half of the test queries have texts of the log; they are measured with
the memory of their own text, as a live service ranks them, and apart from the unseen half. A seed controls the shop,
the log and the learning. LambdaMART learns from all signals of our search and the grades of our click model. With
`counts` it also reads the clicks on each query and document in the earlier half of the log and learns the grades of the
later half; with `own clicks` it reads the clicks that its grades were made from (benchmarks/peers/click_counts.py).
"""

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks import report
from benchmarks.click_log import Traffic, as_judged, graded
from benchmarks.click_systems import LEAST_QUERIES, Log, logs, material_from, ours_from
from benchmarks.collections import TestSet, document_ids, opened
from benchmarks.measurements import MEASURES, Found, Measurements
from benchmarks.ours import searched
from benchmarks.peers import Task
from benchmarks.peers.launch import names_in
from benchmarks.result_file import add_out, commit, publish
from benchmarks.shop import SEEN_PREFIX, UNSEEN_PREFIX, shop
from benchmarks.vectors import CachedEncoder, converted_encoder
from benchmarks.workbench import add_resume, on_one_thread
from index.encoding.encoder import Encoder
from index.evaluation.measures import measure_run
from index.learning.click_model import estimate_clicks
from index.learning.examples import Feedback
from service.settings import Settings

KEYS = ("title", "passage")
OURS = ("untrained", "memory", "chosen", "served")
THEIRS = ("lambdamart", "lambdamart, counts", "lambdamart, own clicks")
SYSTEMS = (*OURS, *THEIRS)
PARTS = (SEEN_PREFIX, UNSEEN_PREFIX)
EARLIER = 2
"""The earlier part of a log is one in so many impressions; the peers take labels from the rest."""


def main() -> None:
    """Run the benchmark; print tables, and one last line of JSON."""
    options = parser().parse_args()
    sizes, seeds = ([int(one) for one in names_in(listed)] for listed in (options.impressions, options.seeds))
    wanted = [one for one in options.systems.split(";") if one]
    if set(wanted) - set(SYSTEMS):
        raise SystemExit(f"systems are: {'; '.join(SYSTEMS)}")
    results, console = Measurements(options.resume), Console(width=160, highlight=False)
    encoder = CachedEncoder(converted_encoder(Settings().encoder))
    on_one_thread()
    for seed in seeds:
        measure_shop(Measuring(shop(seed), seed, results, console), encoder, sizes, wanted)
    figures: dict[str, Any] = {"settings": settings(), "impressions": {}}
    for size in sizes:
        names = [part_name(part, size) for part in PARTS]
        found = report.summary(results, names, SYSTEMS, "memory")
        report.print_quality(console, found, {}, SYSTEMS, "memory")
        figures["impressions"][size] = dict(zip(PARTS, found.values(), strict=True))
    publish(figures, seeds, options.out, results.commits())


def settings() -> dict[str, Any]:
    """Return the settings that a measurement depends on, apart from size, seed and the code."""
    return {"keys": ",".join(KEYS), "encoder": Settings().encoder, "traffic": asdict(Traffic())}


def part_name(part: str, size: int) -> str:
    """Return the stored name of the seen or unseen queries after a log of this size."""
    return f"{part} after {size}"


class Measuring:
    """The measurement of one shop: the systems that are missing, and the store of new measurements."""

    def __init__(self, one: TestSet, seed: int, results: Measurements, console: Console) -> None:
        self.one, self.seed = one, seed
        self._results, self._console = results, console

    def missing(self, size: int, systems: list[str]) -> list[str]:
        """Return the systems that are not measured yet after a log of this size."""
        for part in PARTS:
            queries = [f"{part} {number}" for number in range(len(self._of(part)))]
            self._results.open_set(part_name(part, size), len(self.one.documents), len(self.one.train), queries)
        name = part_name(PARTS[0], size)
        return [one for one in systems if not self._results.has(name, one, self.seed, settings())]

    def keep(self, size: int, found: Found) -> None:
        """Measure the rankings of a system; store and print the measures of both parts."""
        values = measure_run(found.run, self.one.test, MEASURES)
        about = {"settings": settings(), "commit": commit(), "cost": found.cost, "facts": found.facts}
        for part in PARTS:  # queries of different shops are paired by their numbers
            own = {
                measure: {f"{part} {number}": of[query] for number, query in enumerate(self._of(part))}
                for measure, of in values.items()
            }
            name = part_name(part, size)
            self._results.put(name, found.system, self.seed, own, **about)
            report.print_found(self._console, name, found, own)

    def _of(self, part: str) -> list[str]:
        return sorted(query for query in self.one.test if query.startswith(part))


def measure_shop(measuring: Measuring, encoder: Encoder, sizes: list[int], wanted: list[str]) -> None:
    """Measure every missing system on one shop."""
    missing = {size: systems for size in sizes if (systems := measuring.missing(size, wanted))}
    if not missing:
        return
    with opened(measuring.one, encoder, KEYS) as (runtime, state):
        untrained = searched(runtime, state, measuring.one)
        stops = sorted({*missing, *(size // EARLIER for size in missing)})
        feedback: dict[int, list[Feedback]] = {}
        for log in logs(runtime, state, measuring.one, Traffic(), measuring.seed, stops):
            feedback[log.size] = log.feedback
            systems = missing.get(log.size, [])
            if "untrained" in systems:
                measuring.keep(log.size, Found("untrained", log.seed, untrained, {}, {}))
            if systems:
                for found in ours_from(log, [one for one in systems if one in OURS]):
                    measuring.keep(log.size, found)
                for found in theirs_from(log, feedback[log.size // EARLIER], [one for one in systems if one in THEIRS]):
                    measuring.keep(log.size, found)


def theirs_from(log: Log, earlier: list[Feedback], wanted: list[str]) -> Iterator[Found]:
    """Yield LambdaMART on all signals, and with counts of clicks; nothing if the log teaches too few queries."""
    if not wanted:
        return
    from benchmarks.peers.click_counts import Counted, click_counts, later  # needs LightGBM
    from benchmarks.peers.lambdamart import InSequence

    disjoint = Counted.system

    ids = document_ids(log.runtime, log.state)
    rows = log.state.generation.rows
    for system in wanted:
        labelled = later(log.feedback, earlier) if system == disjoint else log.feedback
        judged = as_judged(log.one, graded(labelled), ids)
        if len(judged.train) < LEAST_QUERIES:
            continue
        material, task = material_from(log, judged, 0.0), Task(seed=log.seed)
        curve = estimate_clicks(log.feedback).examination.curve
        train, test = (
            click_counts(known, curve, split.texts, rows)
            for known, split in (
                (earlier if system == disjoint else log.feedback, material.train),
                (log.feedback, material.test),
            )
        )
        is_plain = system == THEIRS[0]
        peer = InSequence(material, task) if is_plain else Counted(material, task, train, test)
        facts = peer.learn()
        run = material.run(np.concatenate(list(peer.rank().values())))
        yield Found(system, log.seed, run, {}, facts)


def parser() -> argparse.ArgumentParser:
    """Return the options of the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--impressions", default="1000,10000", help="comma-separated sizes of the log")
    parser.add_argument("--seeds", default="0", help="comma-separated; a seed controls shop, log and learning")
    parser.add_argument("--systems", default=";".join(SYSTEMS), help=f"separated by semicolons: {'; '.join(SYSTEMS)}")
    add_resume(parser)
    add_out(parser)
    return parser


if __name__ == "__main__":
    main()
