"""Learning curves: nDCG@10 after feedback on 10, 20, 50 ... train queries, and whether feedback ever harms.

    python -m benchmarks.curves --data ../shared/data --out benchmarks/results/curves.json

Each seed shuffles the train queries. A point of the curve uses the first n of them: memory and fit see no other
feedback. The measured head is the served one: the fitted head if the gate promotes it, else the untrained head with
memory. The difference is to the untrained head without memory, with a paired t interval over test queries. A point
whose interval lies below 0 is a dip. Everything runs in this process, on one thread. Vectors come from a cache after
the first run (benchmarks/vectors.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.collections import TestSet
from benchmarks.measurements import MEASURES, Measurements
from benchmarks.result_file import commit, publish
from benchmarks.vectors import CachedEncoder, converted_encoder
from benchmarks.workbench import (
    KEYS,
    Bench,
    Values,
    asked_queries,
    finished,
    loaded,
    on_one_thread,
    options_of,
    print_measured,
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
    """Ascending points of the curve, `all` last; seeds; the settings that figures depend on."""

    sizes: list[str]
    seeds: list[int]
    settings: Mapping[str, Any]

    def sizes_of(self, train: int) -> list[str]:
        """Return the points of a set with this number of train queries."""
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
    results, console, found = Measurements(options.resume), Console(width=200, highlight=False), {}
    for one in sets(options.data, options.sets):
        measure_set(one, encoder, asked_queries(one, options.queries), plan, results, console)
        found[one.name] = summary(results, one, plan)
    console.print(table(found, plan.sizes))
    for name, curve in found.items():
        for dip in curve["dips"]:
            console.print(f"{name}: worse than {UNTRAINED} beyond noise: {dip}", markup=False)
    publish({"settings": plan.settings, "sets": found}, seeds, options.out, results.commits())


def measure_set(
    one: TestSet, encoder: Encoder, queries: Sequence[str], plan: Plan, results: Measurements, console: Console
) -> None:
    """Measure the untrained search and every missing point of every seed."""
    results.open_set(one.name, len(one.documents), len(one.train), queries)
    wanted = [(size, seed) for seed in plan.seeds for size in plan.sizes_of(len(one.train))]
    missing = [point for point in wanted if not results.has(one.name, *point, plan.settings)]
    if not missing and results.has(one.name, UNTRAINED, None, plan.settings):
        return
    with loaded(one, encoder, queries) as bench:
        about = {"settings": plan.settings, "commit": commit()}
        if not results.has(one.name, UNTRAINED, None, plan.settings):
            values = bench.measured(remembering(bench.generation, []), bench.champion)
            results.put(one.name, UNTRAINED, None, values, cost={}, facts={}, **about)
        for size, seed in missing:
            learned = first_of(bench.feedback, size, seed)
            values, cost, facts = served(bench, learned, seed)
            results.put(one.name, size, seed, values, cost=cost, facts=facts, **about)
            print_measured(console, f"{one.name}, seed {seed}, {len(learned)} queries", values, cost | facts)


def first_of(feedback: Sequence[Feedback], size: str, seed: int) -> list[Feedback]:
    """Return the feedback on the first `size` queries in a seed's order. A larger size contains every smaller one."""
    order = np.random.default_rng(seed).permutation(len(feedback))
    return [feedback[at] for at in order[: None if size == ALL else int(size)]]


def remembering(generation: Generation, feedback: Sequence[Feedback]) -> Generation:
    """Return a generation whose memory holds the keys of these queries only."""
    query_keys = {one.query_key for one in feedback}
    keys = [key for key in generation.memory.keys if key.query_key in query_keys]
    return replace(generation, memory=Memory.of(keys, generation.dim))


def served(bench: Bench, learned: Sequence[Feedback], seed: int) -> tuple[Values, dict[str, float], dict[str, Any]]:
    """Return the measures of the served head after this feedback, the cost of its fit, and the decision."""
    generation = remembering(bench.generation, learned)
    try:
        fitted, seconds = finished(fit(generation, learned, bench.champion, run_config(seed)))
    except NotEnoughFeedback:
        return bench.measured(generation, bench.champion), {}, {"promoted": False, "recipe": None, "hop": 0.0}
    promoted = fitted.decision.promote
    facts = {"promoted": promoted, "recipe": fitted.report["recipe"]["recipe"], "hop": fitted.report["hop"]["chosen"]}
    head = fitted.head if promoted else bench.champion
    return bench.measured(generation, head), {"fit_seconds": round(seconds, 1)}, facts


def summary(results: Measurements, one: TestSet, plan: Plan) -> dict[str, Any]:
    """Return the untrained mean, the difference of each point to it, and the dips of points and seeds."""
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
    facts = {"queries": len(queries), "train": len(one.train), UNTRAINED: rounded(first.mean())[0]}
    return facts | {"points": points, "dips": dips}


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
