"""The errors of the gate on simulated feedback: heads promoted that are no better, and better heads not promoted.

    python -m benchmarks.gate --data ../shared/data --resume gate.jsonl --out benchmarks/results/gate.json

Nulls: the untrained champion draws the labels (benchmarks/label_draws.py), so no head can be better, and every
promotion is false. Nights: a log grows, and a run follows every night until a head is promoted. Power: a head with
other weights draws the labels, and the champion is worse by a known number of points of expected nDCG@10.

Trials, all choices and the gate run again for every draw, by the code of the service. A cheap configuration makes
thousands of runs possible: the recipe `weights`, at most 4 epochs of 8 steps, 20 + 20 hard negatives, 0, 40 or 100
trees, priors of documents, no second hop, no memory. What does not depend on the head is computed once
(benchmarks/remembered_evidence.py).
"""

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from rich.console import Console
from scipy import stats

from benchmarks.collections import opened, read_set
from benchmarks.gate_alone import GateAlone
from benchmarks.label_draws import TOP, Truth, truths
from benchmarks.remembered_evidence import RememberedEvidence, remembered_evidence
from benchmarks.result_file import add_out, commit, publish
from benchmarks.simulator import Searchers
from benchmarks.vectors import CachedEncoder, converted_encoder
from benchmarks.workbench import KEYS, finished, on_one_thread
from index.evaluation.significance import CONFIDENCE, level
from index.generation.generation import Generation
from index.learning import trainer
from index.learning.click_likelihood import CLICKS
from index.learning.clicked_ranks import RANKS
from index.learning.config import FitConfig
from index.learning.examples import Feedback
from index.learning.fit import Fitted, fit
from index.learning.judgment_likelihood import JUDGMENTS
from index.learning.model_selection import NDCG
from index.memory.query_key import as_query_key
from index.ranking.attention import EVIDENCE, AttentionHead
from service.settings import Settings

CONFIG = FitConfig(recipes=("initial", "weights"), epochs=4, candidates=20, hops=())
SCALAR_STEPS = 8
TEMPERATURE = 2.0
"""Factor of the champion's temperature at which labels are drawn. nDCG@10 is then near the value of real judgments."""
LISTS = 4
"""Lists shown for each query."""
NIGHTS = 30
ROUNDS = 6
SEARCHERS = {
    "clicks by position": Searchers(noise=0.0),
    "clicks by cascade": Searchers(model="cascade"),
}
WORDS = ("words", "coverage", "proximity", "phrase")
"""Parts of the evidence that weigh more in a head that is better than the champion."""


@dataclass(frozen=True)
class Row:
    """A row of the table: `draws` logs of `queries` queries each; with nights, the last log of each chain has them."""

    name: str
    feedback: str
    queries: int
    draws: int
    worse: float = 0.0
    """Points of expected nDCG@10 that the champion loses against the head that draws the labels."""
    first: int = 0
    """Queries in the first night; 0: a single run."""
    trained: bool = False
    """Whether the champion counts as trained: then the gate uses the test queries alone."""
    alone: bool = False
    """Whether the gate decides alone, about heads that were not trained (benchmarks/gate_alone.py)."""
    forced: bool = False
    """Whether a trained recipe is always selected, so that the gate alone decides."""

    @property
    def label(self) -> str:
        """The name of the row in files of records."""
        return f"{self.name}, {self.feedback}, {self.queries}"


SIZES = (50, 100, 200, 400)
ROWS = (
    Row(f"{NIGHTS} nights of nulls, the gate alone", "judgments", 300, 1000, first=50, alone=True),
    Row("null", "judgments", 120, 1000),
    *(Row("null", feedback, 120, 100) for feedback in SEARCHERS),
    *(Row("null, trained whatever validation says", feedback, 120, 60, forced=True) for feedback in SEARCHERS),
    *(Row("2 points better", "judgments", queries, 40, worse=0.02) for queries in SIZES),
    Row(f"{NIGHTS} nights of nulls", "judgments", 300, 12, first=100),
    *(Row("5 points better", "judgments", queries, 40, worse=0.05) for queries in SIZES),
    *(Row("5 points better", feedback, 300, 40, worse=0.05) for feedback in SEARCHERS),
    Row(f"{NIGHTS} nights of nulls, trained champion", "judgments", 300, 12, first=100, trained=True),
)


class Simulation:
    """Simulated runs on the train queries of a set."""

    def __init__(self, generation: Generation, head: AttentionHead, queries: Sequence[Feedback]) -> None:
        self._generation = generation
        self._champion = head
        self._trained = head.changed(log_inverse_temperature=head.log_inverse_temperature + 0.01)
        self._queries = queries
        self._truths: dict[float, list[Truth]] = {}
        self._alone: GateAlone | None = None

    def records(self, memory: RememberedEvidence, row: Row, draw: int) -> list[dict[str, Any]]:
        """Return the record of each run on one simulated log."""
        random = np.random.default_rng([draw, row.queries])
        pool = self.truths(memory, row.worse)
        sizes = [row.queries]
        if row.first:
            sizes = np.linspace(row.first, row.queries, NIGHTS).round().astype(int).tolist()
        if row.alone:
            if self._alone is None:
                self._alone = GateAlone(memory, self._generation, self._champion, self._queries, pool)
            return list(self._alone.log(sizes, draw))
        drawn = [pool[at] for at in random.choice(len(pool), row.queries, replace=False)]
        feedback = [_labels(row.feedback, one, random) for one in drawn]
        found: list[dict[str, Any]] = []
        for night, size in enumerate(sizes):
            fitted = self._fitted(feedback[:size], row, night)
            report = fitted.report
            chosen = report["trees"]["chosen"] or report["priors"]["chosen"]
            trained = report["recipe"]["recipe"] != "initial" or bool(chosen)
            gain = round(self._gain(memory, fitted.head, pool), 5) if trained else 0.0
            found.append(_record(fitted) | {"gain": gain})
            if fitted.decision.promote:
                break
        return found

    def truths(self, memory: RememberedEvidence, worse: float) -> list[Truth]:
        """Return the distributions of all queries by a head against which the champion loses `worse`."""
        if worse not in self._truths:
            low, high = 0.0, 5.0
            for _ in range(12 if worse else 1):
                factor = (low + high) / 2 if worse else 0.0
                better = self._better(factor)
                pool = truths(memory, self._generation, better, self._queries, TEMPERATURE)
                lost = self._gain(memory, better, pool)
                low, high = (factor, high) if lost < worse else (low, factor)
            self._truths[worse] = pool
        return self._truths[worse]

    def _better(self, factor: float) -> AttentionHead:
        """Return the champion with the weights of words multiplied by 1 + factor."""
        scale = [1 + factor * (part in WORDS) for part in EVIDENCE]
        return self._champion.changed(beta=self._champion.beta * np.asarray(scale, np.float32))

    def _fitted(self, feedback: Sequence[Feedback], row: Row, earlier: int) -> Fitted:
        champion = self._trained if row.trained else self._champion
        config = replace(CONFIG, error_share=-1e9) if row.forced else CONFIG
        return finished(fit(self._generation, feedback, champion, config, earlier_decisions=earlier))[0]

    def _gain(self, memory: RememberedEvidence, head: AttentionHead, pool: Sequence[Truth]) -> float:
        """Return the true gain in nDCG@10 of a head over the champion, where these distributions are the truth."""
        means = []
        for one in (head, self._champion):
            best = memory.best(self._generation, one, self._queries, TOP)
            means.append(
                np.mean([truth.expected_ndcg(rows.tolist()) for truth, (rows, _) in zip(pool, best, strict=True)])
            )
        return float(means[0] - means[1])


def main() -> None:
    """Simulate every row; print a table and one last line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with one folder per test set")
    parser.add_argument("--set", default="cosqa", help="the set whose documents and train queries are used")
    parser.add_argument("--draws", type=int, default=0, help="simulated logs of each row, at most; 0: as in ROWS")
    parser.add_argument("--resume", type=Path, help="file of records; simulated logs in it are not simulated again")
    parser.add_argument("--stored", action="store_true", help="simulate nothing; report the records of --resume")
    add_out(parser)
    options = parser.parse_args()
    on_one_thread()
    one = read_set(options.data / options.set)
    console = Console(width=160)
    encoder = CachedEncoder(converted_encoder(Settings().encoder))
    records = Records(options.resume)
    if not options.stored:
        with opened(one, encoder, KEYS) as (_, state), patch.object(trainer, "SCALAR_STEPS", SCALAR_STEPS):
            texts = sorted({one.queries[query] for query in one.train})
            vectors = encoder.encode_queries(texts)
            queries = [Feedback(as_query_key(a), a, b, {}) for a, b in zip(texts, vectors, strict=True)]
            with remembered_evidence() as memory:
                simulate(Simulation(state.generation, state.serving.head, queries), memory, records, options.draws)
    rows = [summary(row, logs) for row in ROWS if (logs := records.of(row))]
    for each in rows:
        console.print(json.dumps(each), markup=False, soft_wrap=True)
    publish({"set": one.name, "rows": rows}, [0], options.out, sorted(records.commits))


class Records:
    """The records of simulated logs, in memory and in a file of JSON lines."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path and path.is_file() else []
        found = [json.loads(line) for line in lines]
        self._logs = {(one["row"], one["draw"]): one["log"] for one in found}
        self.commits = {one["commit"] for one in found}
        self._commit = commit()

    def of(self, row: Row) -> list[list[dict[str, Any]]]:
        """Return the records of each log of a row."""
        return [log for (label, draw), log in self._logs.items() if label == row.label and draw < row.draws]

    def has(self, row: Row, draw: int) -> bool:
        """Return whether a log was simulated."""
        return (row.label, draw) in self._logs

    def add(self, row: Row, draw: int, log: list[dict[str, Any]]) -> None:
        """Add the records of a log."""
        self._logs[row.label, draw] = log
        self.commits.add(self._commit)
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps({"row": row.label, "draw": draw, "commit": self._commit, "log": log}) + "\n")


def simulate(simulation: Simulation, memory: RememberedEvidence, records: Records, most: int) -> None:
    """Simulate all logs that are missing, in rounds: a run that is cut off has some logs of every row."""
    for done in np.linspace(0, 1, ROUNDS + 1)[1:]:
        for row in ROWS:
            for draw in range(math.ceil(done * min(row.draws, most or row.draws))):
                if not records.has(row, draw):
                    records.add(row, draw, simulation.records(memory, row, draw))


def summary(row: Row, logs: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Return the figures of a row from the records of its logs.

    promoted: logs in which a head was promoted. once: the share of logs in which a head would have been promoted at the
    level of a first decision in every night. worse: logs whose promoted head is truly worse than the champion. chosen:
    the share of runs that trained; difference and gain: their mean corrected and true difference in nDCG@10.
    """
    last = [log[-1] for log in logs]
    promoted = sum(one["promote"] for one in last)
    once = sum(any(one["difference"] > 0 and one["p"] < level(0) for one in log) for log in logs)
    interval = stats.binomtest(promoted, len(logs)).proportion_ci(CONFIDENCE)
    trained = [one for log in logs for one in log if one["recipe"] != "initial"]
    return {
        "row": row.name,
        "feedback": row.feedback,
        "queries": row.queries if not row.first else [row.first, row.queries],
        "logs": len(logs),
        "runs": sum(map(len, logs)),
        "promoted": promoted,
        "share": [round(promoted / len(logs), 4), round(interval.low, 4), round(interval.high, 4)],
        "once": round(once / len(logs), 4),
        "worse": sum(one["promote"] and one["gain"] < 0 for one in last),
        "chosen": round(len(trained) / sum(map(len, logs)), 4),
        "difference": round(float(np.mean([one["ndcg"] for one in trained] or [0.0])), 5),
        "gain": round(float(np.mean([one["gain"] for one in trained] or [0.0])), 5),
    }


def _labels(kind: str, one: Truth, random: np.random.Generator) -> Feedback:
    return one.judged(random) if kind == "judgments" else one.clicked(SEARCHERS[kind], LISTS, random)


def _record(fitted: Fitted) -> dict[str, Any]:
    """Return the facts of a run: difference and p of the measure with the clearer gain, p doubled for two measures."""
    held_out = fitted.report["held_out"]
    names = [CLICKS, RANKS] if fitted.decision.checks[0].name == "clicks_better" else [JUDGMENTS, NDCG]
    name = max(names, key=lambda one: (held_out[one]["difference"] > 0, -held_out[one]["p_value"]))
    facts = {"promote": fitted.decision.promote, "recipe": fitted.report["recipe"]["recipe"]}
    decided = {"difference": held_out[name]["difference"], "p": min(1.0, 2 * held_out[name]["p_value"])}
    return facts | decided | {"ndcg": held_out[NDCG]["difference"], "queries": held_out[name]["queries"]}


if __name__ == "__main__":
    main()
