"""The error of estimates of position bias, by estimator, on simulated logs with a known bias.

    python -m benchmarks.examination --memory 2 --out benchmarks/results/examination.json

Queries repeat by Zipf's law, relevant documents mostly have high ranks, in a share of the lists documents change ranks,
and with `--memory` a clicked document rises by so many ranks at most in the later lists of its query. `contrasts`,
which training uses, is in index/learning/examination.py. The others take positions as independent of earlier clicks:
`harvest` compares the clicks on a document at its positions, with EM as its prior (Agarwal et al. 2019); `EM` fits the
position-based model (Wang et al. 2018); `assumed` is the assumed curve itself. The figure is the mean over ranks 2 to
10 of |log estimate - log truth|: .1 is an error of one tenth.
"""

import argparse
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.examination_peers import expectation_maximisation, harvest
from benchmarks.result_file import add_out, publish
from benchmarks.simulator import SEVERITIES, Searchers, attraction, clicked, examination
from index.learning.click_model import count_clicks, estimate_examination
from index.learning.examination import add_showing, contrasts_of
from index.learning.examples import Feedback
from index.memory.click_worth import ASSUMED_CURVE

ESTIMATORS = ("contrasts", "harvest", "EM", "assumed")
PLACES = 10
SHUFFLE = 2.0


def main() -> None:
    """Run every size and severity; print a table, and one last line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--impressions", default="1000,10000,100000")
    parser.add_argument("--shuffled", type=float, default=0.3, help="share of lists in which documents change ranks")
    parser.add_argument("--memory", type=float, default=0.0, help="ranks that a clicked document rises, at most")
    parser.add_argument("--seeds", type=int, default=4, help="number of logs; a figure is their mean")
    add_out(parser)
    options = parser.parse_args()
    table = Table(title="mean |log estimate - log truth|, ranks 2 to 10")
    for column in ("impressions", "eta", *ESTIMATORS, "seconds"):
        table.add_column(column)
    rows = []
    for size in map(int, options.impressions.split(",")):
        for eta in SEVERITIES:
            logs = [
                log(size, Searchers(eta=eta), options.shuffled, seed, options.memory) for seed in range(options.seeds)
            ]
            started = time.perf_counter()
            for one in logs:
                estimate_examination(one)
            seconds = round((time.perf_counter() - started) / len(logs), 2)
            errors = np.mean([errors_of(one, eta) for one in logs], axis=0).round(3).tolist()
            row = {"impressions": size, "shuffled": options.shuffled, "memory": options.memory, "eta": eta}
            rows.append(row | dict(zip(ESTIMATORS, errors, strict=True)) | {"seconds": seconds})
            table.add_row(str(size), str(eta), *(f"{one:.3f}" for one in errors), str(seconds))
    Console(width=120).print(table)
    publish({"rows": rows}, range(options.seeds), options.out)


def errors_of(feedback: list[Feedback], eta: float) -> list[float]:
    """Return the mean |log curve - log truth| over ranks 2 to PLACES of each of ESTIMATORS."""
    counts = count_clicks(feedback)
    maximised = expectation_maximisation(counts)
    curves = (estimate_examination(feedback).curve, harvest(counts, maximised), maximised, ASSUMED_CURVE)
    truth = np.log(examination(eta, PLACES)[1:])
    return [float(np.abs(np.log(curve[1:PLACES]) - truth).mean()) for curve in curves]


def log(size: int, searchers: Searchers, shuffled: float, seed: int, memory: float = 0.0) -> list[Feedback]:
    """Return the feedback of `size` lists of PLACES documents; the number of queries is a twentieth of `size`.

    memory: ranks that the document with the most clicks of its query rises, and others by n / (1 + n) of them with n
    clicks less one for each click that it has more, as they weigh in the memory of a search.
    """
    random = np.random.default_rng(seed)
    queries = max(20, size // 20)
    popularity = 1 / np.arange(1, queries + 1)
    grades = (random.random((queries, PLACES)) < np.linspace(0.4, 0.05, PLACES)).astype(np.int64)
    counts: dict[int, dict[int, dict[int, tuple[int, int]]]] = {}
    sums: dict[int, dict[tuple[int, int], float]] = {}
    for query in random.choice(queries, size, p=popularity / popularity.sum()).tolist():
        of_query, of_sums = counts.setdefault(query, {}), sums.setdefault(query, {})
        ranks = np.arange(PLACES) + (SHUFFLE * random.normal(size=PLACES) if random.random() < shuffled else 0)
        times = np.asarray([sum(hits for _, hits in of_query.get(row, {}).values()) for row in range(PLACES)])
        relative = times / (1 + times.max() - times)
        order = np.argsort(ranks - memory * relative / (1 + relative), kind="stable")
        hit = clicked(searchers, attraction(searchers, grades[query][order], 1), random)
        for place, row in enumerate(order.tolist(), 1):
            at = of_query.setdefault(row, {})
            if at:
                add_showing(of_sums, at, place, bool(hit[place - 1]))
            shown, hits = at.get(place, (0, 0))
            at[place] = (shown + 1, hits + int(hit[place - 1]))
    return [_feedback(query, counts[query], sums[query]) for query in sorted(counts)]


def _feedback(
    query: int, counts: dict[int, dict[int, tuple[int, int]]], sums: dict[tuple[int, int], float]
) -> Feedback:
    shown = {row: {place: one[0] for place, one in at.items()} for row, at in counts.items()}
    clicks = {row: {place: one[1] for place, one in at.items()} for row, at in counts.items()}
    return Feedback(str(query), "", np.zeros(1, np.float32), {}, shown, clicks, contrasts=contrasts_of(sums))


if __name__ == "__main__":
    main()
