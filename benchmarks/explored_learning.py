"""Does learning from explored lists lead to more clicks per search than learning from lists that were never explored?

    python -m benchmarks.explored_learning --out benchmarks/results/explored_learning.json

Searchers are simulated, so that the truth is known. A document has features; the logarithm of its chance to be clicked,
if it is looked at, is a weighted sum of them plus a part that no feature has. A model has a weight for each feature and
a temperature. The logging model has wrong weights. Its lists are logged never explored, and explored with a share of
.05, .2 or 1. From each log new weights are learned with the losses of the service: `listwise`, the softmax over the
documents shown with log propensities, and `reinforce`, on explored lists alone. Reported are the true clicks per search
of the deterministic list of each model, over new queries, as the mean over the seeds.

Searchers `by position` look at a position with the chance that `listwise` assumes. Searchers `by cascade` read from the
top, stop at their first click, and give up after a document without a click with a chance of .3. `listwise` assumes
neither.

The lists are arrays: no document, no encoder, no service.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from rich.console import Console
from torch import Tensor

from benchmarks.result_file import add_out, publish
from index.evaluation.off_policy import Doubles
from index.evaluation.significance import interval
from index.learning.losses import listwise_loss
from index.learning.reinforce import reinforce_loss
from index.learning.slates import SLATE, Slate, rewards_above_baseline, slate_arrays, stacked
from index.learning.torch_head import slate_tensors
from index.ranking.exploration import choice_logs, mixture_probabilities

FEATURES, DOCUMENTS, NEW_QUERIES = 5, 40, 400
TRUE = np.array([1.0, 0.8, 0.6, 0.3, 0.1])
LOGGING = np.array([0.2, 0.2, 0.6, 0.6, 0.6])
EXAMINATION = np.arange(1, SLATE + 1) ** -0.7
SHARES = (0.0, 0.05, 0.2, 1.0)
QUERIES, SEARCHES = 200, 10
"""Queries of a log, and searches of each."""
KINDS = ("by position", "by cascade")
PATIENCE = 0.7 ** np.arange(SLATE)
"""The chance that a searcher by cascade without a click so far reads each position."""
STEPS, RATE, DECAY = 192, 0.02, 1e-2
"""Steps, learning rate, and decay towards the logging weights: those of the recipe `weights`, for 8 epochs."""


@dataclass(frozen=True)
class Log:
    """Explored or unexplored lists of Q queries: features (Q, N, F), and the lists of each query."""

    features: Doubles
    slates: Sequence[Sequence[Slate]]


def queries(count: int, generator: np.random.Generator) -> tuple[Doubles, Doubles]:
    """Return the features (Q, N, F) of the documents of new queries, and their chances (Q, N)."""
    features = generator.normal(size=(count, DOCUMENTS, FEATURES))
    logs = features @ TRUE + 0.5 * generator.normal(size=(count, DOCUMENTS)) - 3.0
    return features, np.minimum(0.9, np.exp(logs))


def simulated_log(kind: str, share: float, generator: np.random.Generator) -> Log:
    """Return the log of the logging model with this share of explored searches."""
    features, chances = queries(QUERIES, generator)
    pairs = zip(features, chances, strict=True)
    return Log(features, [_slates(kind, x @ LOGGING, chance, share, generator) for x, chance in pairs])


def _slates(kind: str, logits: Doubles, chances: Doubles, share: float, generator: np.random.Generator) -> list[Slate]:
    """Return the lists of the searches of a query, with their clicks."""
    own = np.argsort(-logits, kind="stable")
    found = []
    for _ in range(SEARCHES):
        sampled = np.argsort(-(logits + generator.gumbel(size=DOCUMENTS)))
        order = sampled if generator.random() < share else own
        logged = mixture_probabilities(choice_logs(logits[order]), order == own, share) if share else np.ones(DOCUMENTS)
        rows = order[:SLATE]
        clicked = generator.random(SLATE) < chances[rows] * (EXAMINATION if kind == KINDS[0] else 1.0)
        if kind == KINDS[1]:
            clicked &= (np.cumsum(clicked) == 1) & (generator.random() < PATIENCE)
        found.append(
            Slate(tuple(rows.tolist()), (False,) * SLATE, tuple(logged[:SLATE].tolist()), tuple(clicked.tolist()))
        )
    return found


def listwise(log: Log) -> Doubles:
    """Return the weights learned from the clicks among the documents shown, with the true propensities."""
    gains, looks = (np.zeros(log.features.shape[:2]) for _ in range(2))
    for query, slates in enumerate(log.slates):
        for one in slates:
            gains[query, list(one.rows)] += one.clicked
            looks[query, list(one.rows)] += EXAMINATION
    shown = torch.from_numpy(looks > 0)
    log_propensity = torch.from_numpy(np.log(np.where(looks > 0, looks, 1.0)))
    target = torch.from_numpy(gains)
    return _fitted(log, lambda logits: listwise_loss(torch.where(shown, logits, -torch.inf), target, log_propensity))


def reinforce(log: Log) -> Doubles:
    """Return the weights learned from the explored lists."""
    rewards = rewards_above_baseline(log.slates)
    places = {place: place for place in range(DOCUMENTS)}
    arrays = [slate_arrays(slates, own, places) for slates, own in zip(log.slates, rewards, strict=True)]
    slates = slate_tensors(stacked(arrays))
    return _fitted(log, lambda logits: reinforce_loss(logits, slates))


def _fitted(log: Log, loss_of: Any) -> Doubles:
    """Return the weights after STEPS steps of AdamW with decay towards the logging weights, as `trainer` takes them."""
    features, origin = torch.from_numpy(log.features), torch.from_numpy(LOGGING)
    weights: Tensor = origin.clone().requires_grad_(True)
    optimiser = torch.optim.AdamW([weights], lr=RATE, weight_decay=0.0)
    for _ in range(STEPS):
        optimiser.zero_grad()
        loss_of(features @ weights).backward()
        optimiser.step()
        with torch.no_grad():
            weights.lerp_(origin, RATE * DECAY)
    return weights.detach().numpy()


def clicks_per_search(kind: str, weights: Doubles, features: Doubles, chances: Doubles) -> float:
    """Return the true clicks per search of the deterministic lists of a model."""
    order = np.argsort(-(features @ weights), axis=1, kind="stable")[:, :SLATE]
    shown = np.take_along_axis(chances, order, axis=1)
    if kind == KINDS[1]:
        unclicked = np.cumprod(1 - shown, axis=1) / (1 - shown)
        return float((shown * unclicked @ PATIENCE).mean())
    return float((shown @ EXAMINATION).mean())


def measured(kind: str, seed: int) -> dict[str, float]:
    """Return system -> true clicks per search, for one seed."""
    generator = np.random.default_rng(seed)
    new = queries(NEW_QUERIES, generator)
    found = {
        "logging model": clicks_per_search(kind, LOGGING, *new),
        "true weights": clicks_per_search(kind, TRUE, *new),
    }
    for share in SHARES:
        log = simulated_log(kind, share, generator)
        for name, learn in (("listwise", listwise), ("reinforce", reinforce)):
            if share or name == "listwise":
                found[f"{name}, share {share:g}"] = clicks_per_search(kind, learn(log), *new)
    return found


def main() -> None:
    """Run the simulation; print the mean of each system, and one last line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=20, help="number of simulated logs of each kind")
    add_out(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    figures = {}
    for kind in KINDS:
        figures[kind] = summary([measured(kind, seed) for seed in range(options.seeds)])
        for name, found in figures[kind].items():
            Console(width=120).print(kind, name, found, highlight=False)
    publish({"searches": QUERIES * SEARCHES, "kinds": figures}, list(range(options.seeds)), options.out)


def summary(runs: Sequence[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return system -> mean clicks per search, and the mean gain over the logging model with its interval."""
    systems = {}
    for name in runs[0]:
        values = np.asarray([run[name] for run in runs])
        gains = values - np.asarray([run["logging model"] for run in runs])
        figures = {"clicks": values.mean(), "gain": gains.mean(), "low": interval(gains)[0], "high": interval(gains)[1]}
        systems[name] = {measure: round(float(value), 4) for measure, value in figures.items()}
    return systems


if __name__ == "__main__":
    main()
