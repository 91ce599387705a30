"""The error of estimates of position bias, by estimator, on simulated logs with a known bias.

    python -m benchmarks.examination --out benchmarks/results/examination.json

Queries repeat by Zipf's law, relevant documents mostly have high ranks, and in a share of the lists documents change
ranks. The estimators are in index/learning/click_model.py: `harvest on EM`, which training uses, is `harvest` with EM
as its prior; `harvest` has the assumed curve as its prior; `EM` fits the position-based model; `assumed` is the
assumed curve itself. The figure is the mean over ranks 2 to 10 of |log estimate - log truth|: .1 is an error of one
tenth.
"""

import argparse
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.result_file import add_out, publish
from benchmarks.simulator import SEVERITIES, Searchers, attraction, clicked, examination
from index.learning.click_model import count_clicks, estimate_examination, expectation_maximisation, harvest
from index.learning.examples import Feedback
from index.memory.click_worth import ASSUMED_CURVE

ESTIMATORS = ("harvest on EM", "harvest", "EM", "assumed")
PLACES = 10
SHUFFLE = 2.0


def main() -> None:
    """Run every size and severity; print a table, and one last line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--impressions", default="1000,10000,100000")
    parser.add_argument("--shuffled", type=float, default=0.3, help="share of lists in which documents change ranks")
    parser.add_argument("--seeds", type=int, default=4, help="number of logs; a figure is their mean")
    add_out(parser)
    options = parser.parse_args()
    table = Table(title="mean |log estimate - log truth|, ranks 2 to 10")
    for column in ("impressions", "eta", *ESTIMATORS, "seconds"):
        table.add_column(column)
    rows = []
    for size in map(int, options.impressions.split(",")):
        for eta in SEVERITIES:
            logs = [log(size, Searchers(eta=eta), options.shuffled, seed) for seed in range(options.seeds)]
            started = time.perf_counter()
            for one in logs:
                estimate_examination(one)
            seconds = round((time.perf_counter() - started) / len(logs), 2)
            errors = np.mean([errors_of(one, eta) for one in logs], axis=0).round(3).tolist()
            row = {"impressions": size, "shuffled": options.shuffled, "eta": eta}
            rows.append(row | dict(zip(ESTIMATORS, errors, strict=True)) | {"seconds": seconds})
            table.add_row(str(size), str(eta), *(f"{one:.3f}" for one in errors), str(seconds))
    Console(width=120).print(table)
    publish({"rows": rows}, range(options.seeds), options.out)


def errors_of(feedback: list[Feedback], eta: float) -> list[float]:
    """Return the mean |log curve - log truth| over ranks 2 to PLACES of each of ESTIMATORS."""
    counts = count_clicks(feedback)
    maximised = expectation_maximisation(counts)
    curves = (harvest(counts, maximised), harvest(counts), maximised, ASSUMED_CURVE)
    truth = np.log(examination(eta, PLACES)[1:])
    return [float(np.abs(np.log(curve[1:PLACES]) - truth).mean()) for curve in curves]


def log(size: int, searchers: Searchers, shuffled: float, seed: int) -> list[Feedback]:
    """Return the feedback of `size` lists of PLACES documents; the number of queries is a twentieth of `size`."""
    random = np.random.default_rng(seed)
    queries = max(20, size // 20)
    popularity = 1 / np.arange(1, queries + 1)
    grades = (random.random((queries, PLACES)) < np.linspace(0.4, 0.05, PLACES)).astype(np.int64)
    shown: dict[int, dict[int, dict[int, int]]] = {}
    clicks: dict[int, dict[int, dict[int, int]]] = {}
    for query in random.choice(queries, size, p=popularity / popularity.sum()).tolist():
        ranks = np.arange(PLACES) + (SHUFFLE * random.normal(size=PLACES) if random.random() < shuffled else 0)
        order = np.argsort(ranks, kind="stable")
        hit = clicked(searchers, attraction(searchers, grades[query][order], 1), random)
        for place, row in enumerate(order.tolist(), 1):
            for counts, add in ((shown, 1), (clicks, int(hit[place - 1]))):
                at = counts.setdefault(query, {}).setdefault(row, {})
                at[place] = at.get(place, 0) + add
    none = np.zeros(1, np.float32)
    acted = [query for query in sorted(shown) if any(sum(at.values()) for at in clicks[query].values())]
    return [Feedback(str(query), "", none, {}, shown[query], clicks[query]) for query in acted]


if __name__ == "__main__":
    main()
