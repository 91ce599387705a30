"""Do the intervals of the off-policy estimates cover the truth?

    python -m benchmarks.exploration --out benchmarks/results/exploration.json

Searchers are simulated, so that the truth is known. Each of 20 queries has 20 documents with a true chance to be
clicked if they are looked at; the chance to look falls with the position. The logits of every model are the true log
chances plus errors. The errors of the model `near` resemble the errors of the logging model and are smaller, as after
training; the errors of the model `far` are independent of them. A searcher sees a list that the logging model explores
with a share, and clicks. The clicks per search of the logging model, of the other model and their difference are
estimated from the log. An interval is given where enough searches carry the weight. Coverage is the share of the given
95 % intervals that have the truth inside.

The lists are arrays: no document, no encoder, no service. The functions are the functions of the service.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.result_file import add_out, publish
from index.evaluation.off_policy import ESTIMATORS, Doubles, Estimate, compared, fitted_rewards, with_rewards
from index.ranking.exploration import choice_logs, mixture_probabilities
from index.ranking.replay import Policy, policy, replayed
from index.records import Ints

QUERIES, DOCUMENTS, POSITIONS = 20, 20, 10
ERRORS = {"logging": (0.7, 1.0), "near": (0.5, 0.9), "far": (0.35, 0.0)}
"""Model -> standard deviation of its errors, and their correlation with the errors of the logging model."""
SHARPNESS = 1.5
"""Factor of the logarithm of the true chances in the logits."""
TRUTH_SAMPLES = 20_000
"""Sampled lists per query and model for the true clicks per search: their standard error is below .002."""
CONDITIONS = ((0.05, 2_000), (0.05, 10_000), (0.2, 2_000), (1.0, 500), (1.0, 2_000))
"""Share of the searches that are explored, and number of logged searches."""


@dataclass(frozen=True)
class World:
    """Simulated searchers: chances (Q, N) of a click on a document that is looked at, theta (P,), and models.

    logits: model -> (Q, N). truth: model -> true clicks per search of the model's Plackett-Luce sample.
    """

    chances: Doubles
    examination: Doubles
    logits: Mapping[str, Doubles]
    truth: Mapping[str, float]


@dataclass(frozen=True)
class Log:
    """Logged lists of M searches: query (M,), places (M, P), log probability of each prefix (M, P), clicks (M, P)."""

    query: Ints
    places: Ints
    logs: Doubles
    clicks: Doubles


def world(seed: int) -> World:
    """Return searchers with true click chances between .02 and .8, and models that know them with noise."""
    generator = np.random.default_rng(seed)
    chances = np.clip(np.exp(generator.normal(-2.0, 1.0, (QUERIES, DOCUMENTS))), 0.02, 0.8)
    examination = np.arange(1, POSITIONS + 1) ** -0.7
    shared = generator.normal(size=chances.shape)
    logits = {}
    for name, (deviation, correlation) in ERRORS.items():
        own = generator.normal(size=chances.shape)
        errors = correlation * shared + (1 - correlation**2) ** 0.5 * own
        logits[name] = SHARPNESS * np.log(chances) + deviation * errors
    truth = {name: _true_clicks(chances, examination, each, generator) for name, each in logits.items()}
    return World(chances, examination, logits, truth)


def _true_clicks(chances: Doubles, examination: Doubles, logits: Doubles, generator: np.random.Generator) -> float:
    """Return the clicks per search of the Plackett-Luce samples of a model, by many samples."""
    totals = []
    for own, chance in zip(logits, chances, strict=True):
        noise = generator.gumbel(size=(TRUTH_SAMPLES, DOCUMENTS))
        first = np.argsort(-(own + noise), axis=1)[:, :POSITIONS]
        totals.append(float((chance[first] @ examination).mean()))
    return float(np.mean(totals))


def simulated_log(of: World, share: float, count: int, generator: np.random.Generator) -> Log:
    """Return the log of `count` searches of which the logging model explores this share."""
    query = generator.integers(QUERIES, size=count)
    places = np.empty((count, POSITIONS), np.int64)
    logs = np.empty((count, POSITIONS))
    for number, logits in enumerate(of.logits["logging"]):
        mine = np.flatnonzero(query == number)
        own = np.argsort(-logits, kind="stable")
        sampled = np.argsort(-(logits + generator.gumbel(size=(len(mine), DOCUMENTS))), axis=1)
        order = np.where(generator.random((len(mine), 1)) < share, sampled, own)
        chances = mixture_probabilities(choice_logs(logits[order]), order == own, share)
        places[mine], logs[mine] = order[:, :POSITIONS], np.cumsum(np.log(chances[:, :POSITIONS]), axis=1)
    clicked = generator.random(places.shape) < of.chances[query[:, None], places] * of.examination
    return Log(query, places, logs, clicked.astype(np.float64))


def policies(of: World, model: str, attention: Doubles, generator: np.random.Generator) -> list[Policy]:
    """Return the policy of a model for every query. attention (Q, N): alpha of the reward model."""
    pairs = zip(of.logits[model], attention, strict=True)
    return [policy(logits, alpha, POSITIONS, generator) for logits, alpha in pairs]


def replays(log: Log, of: Sequence[Policy]) -> tuple[Doubles, dict[str, Doubles]]:
    """Return the ratios (M, P) of a model, and alpha (M, P) for its reward model, by name."""
    ratios = np.empty_like(log.logs)
    attention = {name: np.empty_like(log.logs) for name in ("predicted", "expected", "start")}
    for number, own in enumerate(of):
        mine = log.query == number
        found = replayed(own, log.places[mine], np.ones((int(mine.sum()), POSITIONS), np.bool_))
        ratios[mine] = np.exp(found.logs - log.logs[mine])
        for name, values in attention.items():
            values[mine] = getattr(found, name)
    return ratios, attention


def mean_weights(of: World, a: str, b: str) -> Doubles:
    """Return alpha (Q, N): the mean of the attention weights of two models."""
    powers = [np.exp(of.logits[name] - of.logits[name].max(axis=1, keepdims=True)) for name in (a, b)]
    return np.mean([each / each.sum(axis=1, keepdims=True) for each in powers], axis=0)


def estimates(
    of: World, log: Log, share: float, a: Sequence[Policy], b: Sequence[Policy]
) -> Mapping[str, Mapping[str, Estimate]]:
    """Return `a`, `b` and `difference` -> estimator -> estimate for the policies of two models."""
    both = replays(log, a), replays(log, b)
    coefficients = fitted_rewards(log.clicks, both[0][1]["predicted"], of.examination)
    left, right = (with_rewards(*each, coefficients, of.examination) for each in both)
    return compared(log.clicks, left, right, share * len(log.clicks))


def coverage(of: World, model: str, share: float, count: int, runs: int, seed: int) -> dict[str, Any]:
    """Return `a` (the logging model), `b` (the other) and `difference` -> estimator -> summary of the runs."""
    generator = np.random.default_rng([seed, int(1000 * share), count])
    attention = mean_weights(of, "logging", model)
    a, b = (policies(of, name, attention, generator) for name in ("logging", model))
    truth = {"a": of.truth["logging"], "b": of.truth[model]}
    truth["difference"] = truth["b"] - truth["a"]
    found: dict[str, dict[str, list[Estimate]]] = {side: {name: [] for name in ESTIMATORS} for side in truth}
    for _ in range(runs):
        for side, by_name in estimates(of, simulated_log(of, share, count, generator), share, a, b).items():
            for name, one in by_name.items():
                found[side][name].append(one)
    return {
        side: {name: summary(each, truth[side]) for name, each in by_name.items()} for side, by_name in found.items()
    }


def summary(found: Sequence[Estimate], truth: float) -> dict[str, float | None]:
    """Return the means of the estimates of all runs; the share with an interval, their coverage, their mean width."""
    means = np.asarray([one.mean for one in found])
    given = np.asarray([one.interval for one in found if one.interval is not None], np.float64).reshape(-1, 2)
    inside = (given[:, 0] <= truth) & (truth <= given[:, 1])
    return {
        "truth": round(truth, 4),
        "mean": round(float(means.mean()), 4),
        "spread": round(float(means.std(ddof=1)), 4),
        "effective_sample_size": round(float(np.mean([one.effective_sample_size for one in found])), 1),
        "given": round(len(given) / len(found), 4),
        "given_coverage": round(float(inside.mean()), 4) if len(given) else None,
        "given_width": round(float((given[:, 1] - given[:, 0]).mean()), 4) if len(given) else None,
    }


def main() -> None:
    """Run the simulation; print a line for each condition, and one last line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=500, help="simulated logs of each condition")
    parser.add_argument("--seed", type=int, default=0)
    add_out(parser)
    options = parser.parse_args()
    of, console, rows = world(options.seed), Console(width=140), []
    for model in ("near", "far"):
        for share, count in CONDITIONS:
            found = coverage(of, model, share, count, options.runs, options.seed)
            rows.append({"model": model, "share": share, "searches": count, "runs": options.runs, "sides": found})
            covered = {
                side: {name: one["given_coverage"] for name, one in by_name.items()} for side, by_name in found.items()
            }
            console.print(model, share, count, covered, highlight=False)
    publish({"rows": rows}, [options.seed], options.out)


if __name__ == "__main__":
    main()
