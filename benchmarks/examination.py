"""The error of estimates of position bias, by estimator, on simulated logs with a known bias.

    python -m benchmarks.examination --out benchmarks/results/examination.json

Queries repeat by Zipf's law. In a share of the lists documents change ranks by chance, and in other logs a clicked
document also rises in the later lists of its query, as memory raises it. `contrasts` is what training uses
(`index.learning.click_model.estimate_examination`). `harvest` compares the clicks on a document at its ranks, with EM
as its prior, and takes ranks as independent of earlier clicks (Agarwal et al. 2019); `EM` fits the position-based model
(Wang et al. 2018); `assumed` is the assumed curve. The figure is the mean over ranks 2 to 10 and over the severities of
|log estimate - log truth|: .1 is an error of one tenth.
"""

import argparse

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.examination_peers import harvest
from benchmarks.result_file import add_out, publish
from benchmarks.simulator import SEVERITIES, Searchers, attraction, clicked, examination
from index.learning.click_model import count_clicks, estimate_examination, expectation_maximisation
from index.learning.contrasts import add_showing, contrasts_of
from index.learning.examples import Feedback
from index.memory.click_worth import ASSUMED_CURVE

ESTIMATORS = ("contrasts", "harvest", "EM", "assumed")
PLACES = 10
SHUFFLE = 2.0
RISE = 4.0
"""Ranks that the document with the most clicks of its query rises, at most, where clicked documents rise."""
RANKINGS = {"fair": np.linspace(0.4, 0.05, PLACES), "good": np.geomspace(0.9, 0.01, PLACES)}
"""Name of a ranking -> chance that the document of each rank is relevant."""
WORLDS = [
    (ranking, rises, shuffled) for ranking in RANKINGS for rises in (False, True) for shuffled in (0.3, 0.05, 0.0)
]


def main() -> None:
    """Run every size, world and severity; print a table, and one last line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--impressions", default="1000,10000")
    parser.add_argument("--seeds", type=int, default=4, help="number of logs; a figure is their mean")
    add_out(parser)
    options = parser.parse_args()
    table = Table(title="mean |log estimate - log truth|, ranks 2 to 10")
    for column in ("impressions", "ranking", "clicked documents rise", "shuffled", *ESTIMATORS):
        table.add_column(column)
    rows = []
    for size in map(int, options.impressions.split(",")):
        for ranking, rises, shuffled in WORLDS:
            errors = np.mean(
                [
                    errors_of(log(size, Searchers(eta=eta), shuffled, seed, RISE * rises, RANKINGS[ranking]), eta)
                    for eta in SEVERITIES
                    for seed in range(options.seeds)
                ],
                axis=0,
            ).tolist()
            row = {"impressions": size, "ranking": ranking, "rises": rises, "shuffled": shuffled}
            rows.append(row | {name: round(one, 3) for name, one in zip(ESTIMATORS, errors, strict=True)})
            table.add_row(
                str(size), ranking, "yes" if rises else "no", str(shuffled), *(f"{one:.2f}" for one in errors)
            )
    Console(width=120).print(table)
    publish({"rows": rows}, range(options.seeds), options.out)


def errors_of(feedback: list[Feedback], eta: float) -> list[float]:
    """Return the mean |log curve - log truth| over ranks 2 to PLACES of each of ESTIMATORS."""
    counts = count_clicks(feedback)
    maximised = expectation_maximisation(counts)
    curves = (estimate_examination(feedback).curve, harvest(counts, maximised), maximised, ASSUMED_CURVE)
    truth = np.log(examination(eta, PLACES)[1:])
    return [float(np.abs(np.log(curve[1:PLACES]) - truth).mean()) for curve in curves]


def log(
    size: int, searchers: Searchers, shuffled: float, seed: int, rise: float, relevant: NDArray[np.float64]
) -> list[Feedback]:
    """Return the feedback of `size` lists of PLACES documents; the number of queries is a twentieth of `size`.

    rise: ranks that a document rises, times n / (1 + n): n is its number of clicks, divided by 1 more than those that
    the best document of its query has in addition, as they weigh in the memory of a search. relevant (PLACES,): the
    chance that the document of each rank is relevant.
    """
    random = np.random.default_rng(seed)
    queries = max(20, size // 20)
    popularity = 1 / np.arange(1, queries + 1)
    grades = (random.random((queries, PLACES)) < relevant).astype(np.int64)
    counts: dict[int, dict[int, dict[int, tuple[int, int]]]] = {}
    sums: dict[int, dict[int, float]] = {}
    for query in random.choice(queries, size, p=popularity / popularity.sum()).tolist():
        of_query, of_sums = counts.setdefault(query, {}), sums.setdefault(query, {})
        ranks = np.arange(PLACES) + (SHUFFLE * random.normal(size=PLACES) if random.random() < shuffled else 0)
        times = np.asarray([sum(hits for _, hits in of_query.get(row, {}).values()) for row in range(PLACES)])
        relative = times / (1 + times.max() - times)
        order = np.argsort(ranks - rise * relative / (1 + relative), kind="stable")
        hit = clicked(searchers, attraction(searchers, grades[query][order], 1), random)
        for place, row in enumerate(order.tolist(), 1):
            at = of_query.setdefault(row, {})
            if at:
                add_showing(of_sums, at, place, bool(hit[place - 1]))
            shown, hits = at.get(place, (0, 0))
            at[place] = (shown + 1, hits + int(hit[place - 1]))
    return [_feedback(query, counts[query], sums[query]) for query in sorted(counts)]


def _feedback(query: int, counts: dict[int, dict[int, tuple[int, int]]], sums: dict[int, float]) -> Feedback:
    shown = {row: {place: one[0] for place, one in at.items()} for row, at in counts.items()}
    clicks = {row: {place: one[1] for place, one in at.items()} for row, at in counts.items()}
    return Feedback(str(query), "", np.zeros(1, np.float32), {}, shown, clicks, contrasts=contrasts_of(sums))


if __name__ == "__main__":
    main()
