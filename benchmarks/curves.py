"""Learning curves: how good the search is after feedback on 10, 20, 50 ... queries, and whether it ever gets worse.

    python -m benchmarks.curves --data ../shared/data --out curves.json

For every seed the train queries are put in a random order, and the first so many of them are all the feedback there is:
memory holds these alone, and a head is fitted to these alone. Measured is what would be served: the fitted head where
the gate promotes it, otherwise, and where there is too little feedback for a fit, the untrained head with the memory.
The difference is to the untrained head that remembers nothing, with a paired bootstrap over test queries. A point whose
interval lies below 0 is a dip: feedback has made the search worse. All of it runs in this process, on one thread;
vectors come from a cache after the first run (benchmarks/vectors.py).
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.collections import TestSet
from benchmarks.results import MEASURES, Results
from benchmarks.vectors import CachedEncoder, converted_encoder
from benchmarks.workbench import (
    KEYS,
    Bench,
    Values,
    asked_queries,
    commit,
    finished,
    laid_open,
    on_one_thread,
    options_of,
    rounded,
    run_config,
    sets,
)
from index.encoding.encoder import Encoder
from index.errors import NotEnoughFeedback
from index.evaluation.significance import compare
from index.generation.generation import Generation
from index.learning.examples import Feedback
from index.learning.fit import fit
from index.memory.memory import Memory
from service.settings import Settings

SIZES = "10,20,50,100,200,500,1000,all"
ALL = "all"
UNTRAINED = "untrained"


@dataclass(frozen=True)
class Plan:
    """Points of the curve, ascending, `all` last; seeds; what figures depend on besides."""

    sizes: list[str]
    seeds: list[int]
    settings: Mapping[str, Any]

    def sizes_of(self, train: int) -> list[str]:
        """Return the points that a set with so many train queries has."""
        return [size for size in self.sizes if size == ALL or int(size) < train]


def main() -> None:
    """Run the benchmark on the sets asked for; print a table, and one last line of JSON."""
    parser = options_of(__doc__.split("\n")[0], queries=600, seeds="0,1,2")
    parser.add_argument("--sizes", default=SIZES, help="numbers of train queries, comma-separated, or `all`")
    options = parser.parse_args()
    on_one_thread()
    settings, seeds = Settings(), [int(seed) for seed in options.seeds.split(",")]
    plan = Plan(options.sizes.split(","), seeds, {"keys": ",".join(KEYS), "encoder": settings.encoder})
    encoder = CachedEncoder(converted_encoder(settings.encoder))
    results, console, found = Results(options.out), Console(width=200, highlight=False), {}
    for one in sets(options.data, options.sets):
        measure_set(one, encoder, asked_queries(one, options.queries), plan, results, console)
        found[one.name] = summary(results, one, plan)
    console.print(table(found, plan.sizes))
    for name, curve in found.items():
        for dip in curve["dips"]:
            console.print(f"{name}: worse than {UNTRAINED} beyond noise: {dip}", markup=False)
    print(json.dumps({"commit": commit(), "seeds": seeds, "cores": os.cpu_count(), **plan.settings, "sets": found}))


def measure_set(
    one: TestSet, encoder: Encoder, queries: Sequence[str], plan: Plan, results: Results, console: Console
) -> None:
    """Measure the untrained search and every point of every seed that is not in the results."""
    results.open_set(one.name, len(one.documents), len(one.train), queries)
    wanted = [(size, seed) for seed in plan.seeds for size in plan.sizes_of(len(one.train))]
    missing = [point for point in wanted if not results.has(one.name, *point, plan.settings)]
    if not missing and results.has(one.name, UNTRAINED, None, plan.settings):
        return
    with laid_open(one, encoder, queries) as bench:
        about = {"settings": plan.settings, "commit": commit()}
        if not results.has(one.name, UNTRAINED, None, plan.settings):
            values = bench.measured(remembering(bench.generation, []), bench.champion)
            results.put(one.name, UNTRAINED, None, values, cost={}, facts={}, **about)
        for size, seed in missing:
            learned = first_of(bench.feedback, size, seed)
            values, cost, facts = served(bench, learned, seed)
            results.put(one.name, size, seed, values, cost=cost, facts=facts, **about)
            mean = np.mean(list(values[MEASURES[0]].values()))
            told = f"{one.name}, seed {seed}, {len(learned)} queries: {mean:.4f}"
            console.print(told, json.dumps(cost | facts), markup=False, soft_wrap=True)


def first_of(feedback: Sequence[Feedback], size: str, seed: int) -> list[Feedback]:
    """Return the feedback on the first so many queries in a seed's order: a larger size has all that a smaller has."""
    order = np.random.default_rng(seed).permutation(len(feedback))
    return [feedback[at] for at in order[: None if size == ALL else int(size)]]


def remembering(generation: Generation, feedback: Sequence[Feedback]) -> Generation:
    """Return a generation whose memory has the keys of these queries and no others."""
    query_keys = {one.query_key for one in feedback}
    keys = [key for key in generation.memory.keys if key.query_key in query_keys]
    return replace(generation, memory=Memory.of(keys, generation.dim))


def served(bench: Bench, learned: Sequence[Feedback], seed: int) -> tuple[Values, dict[str, float], dict[str, Any]]:
    """Return what is served after this feedback, its cost, and what was decided."""
    generation = remembering(bench.generation, learned)
    try:
        fitted, seconds = finished(fit(generation, learned, bench.champion, run_config(seed)))
    except NotEnoughFeedback:
        return bench.measured(generation, bench.champion), {}, {"promoted": False, "recipe": None, "hop": 0.0}
    promoted = fitted.decision.promote
    facts = {"promoted": promoted, "recipe": fitted.report["recipe"]["recipe"], "hop": fitted.report["hop"]["chosen"]}
    head = fitted.head if promoted else bench.champion
    return bench.measured(generation, head), {"fit_seconds": round(seconds, 1)}, facts


def summary(results: Results, one: TestSet, plan: Plan) -> dict[str, Any]:
    """Return the untrained mean, per point the difference to it, and the dips among points and their seeds."""
    queries = results.sets[one.name]["queries"]
    first = results.values(one.name, UNTRAINED)[0]
    points: dict[str, Any] = {}
    dips = []
    for size in plan.sizes_of(len(one.train)):
        entries = {int(seed): entry for seed, entry in results.entries(one.name, size).items()}
        values = {seed: np.asarray(entry["values"][MEASURES[0]]) for seed, entry in entries.items()}
        values = {seed: values[seed] for seed in plan.seeds}
        by_seed = {seed: _gap(queries, first, each) for seed, each in values.items()}
        mean = np.mean(list(values.values()), axis=0)
        point = {"nDCG@10": rounded(mean.mean())[0], "minus_untrained": _gap(queries, first, mean), "by_seed": by_seed}
        promoted = [entries[seed]["facts"]["promoted"] for seed in plan.seeds]
        points[size] = point | {"promoted": sum(promoted), "recipes": [entries[s]["facts"]["recipe"] for s in values]}
        below = {"all seeds": point["minus_untrained"]} | {f"seed {seed}": gap for seed, gap in by_seed.items()}
        dips += [f"{size} queries, {which} {gap}" for which, gap in below.items() if gap[2] < 0]
    return {"queries": len(queries), UNTRAINED: rounded(first.mean())[0], "points": points, "dips": dips}


def _gap(queries: Sequence[str], before: Any, after: Any) -> list[float]:
    """Return the mean difference with its interval."""
    against = compare(MEASURES[0], *(dict(zip(queries, side, strict=True)) for side in (before, after)))
    return rounded(against.difference, against.low, against.high)


def table(found: Mapping[str, Any], sizes: Sequence[str]) -> Table:
    """Return a table: train queries in rows, sets in columns; `n+`: promoted with n of the seeds, `!`: a dip."""
    title = "nDCG@10 served minus untrained, in points, with its 95 % interval; n+: promoted with n seeds; !: a dip"
    made = Table("train queries", *found, title=title)
    made.add_row("0, nDCG@10", *(f"{curve[UNTRAINED]:.3f}" for curve in found.values()))
    for size in sizes:
        made.add_row(size, *(_cell(curve["points"].get(size)) for curve in found.values()))
    return made


def _cell(point: Mapping[str, Any] | None) -> str:
    if point is None:
        return ""
    text = "{:+.1f} \\[{:+.1f}, {:+.1f}]".format(*(100 * value for value in point["minus_untrained"]))
    dips = any(gap[2] < 0 for gap in (point["minus_untrained"], *point["by_seed"].values()))
    return text + (f" {point['promoted']}+" if point["promoted"] else "") + (" !" if dips else "")


if __name__ == "__main__":
    main()
