"""The likelihood of held-out clicks: how well a head explains which of the shown documents were clicked.

A query with clicks has no complete judgments, so a measure of ranks knows only the documents that were shown and grades
them from few clicks. The likelihood uses every click as it is: P(n | query) is the softmax over the shown documents of
logit_n / T + log propensity_n, with the expected examinations as propensities (Joachims et al. 2017; Ai et al. 2018).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from index.evaluation.significance import Comparison, compare
from index.generation.generation import Generation
from index.learning.examples import Feedback, hash_of, make_batch, make_example
from index.ranking.attention import AttentionHead
from index.ranking.search import project
from index.records import Floats

CLICKS = "log likelihood per click"
"""The name of the measure."""
LOG_TEMPERATURES = (-3.0, 4.0)
"""Bounds of log T: T makes the scales of two heads comparable, and changes no ranking."""
TRIED_TEMPERATURES = np.exp(np.linspace(*LOG_TEMPERATURES, 29))
"""The values of T among which `ClickTable` takes the best."""
TOP = 10

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Clicked:
    """The shown documents of a query with clicks under a head: logits, log propensities and clicks, all (n,)."""

    logits: Doubles
    log_propensity: Doubles
    clicks: Doubles

    def likelihood(self, temperature: float) -> float:
        """Return the mean log probability of a click."""
        scores = self.logits / temperature + self.log_propensity
        log_weights = scores - np.logaddexp.reduce(scores)
        return float(self.clicks @ log_weights / self.clicks.sum())


@dataclass(frozen=True)
class ClickTable:
    """The clicks of Q queries: log propensity (Q, N) of each shown document, -inf in empty slots; clicks (Q, N)."""

    query_keys: Sequence[str]
    log_propensity: Doubles
    clicks: Doubles

    @classmethod
    def of(cls, shown: Mapping[str, tuple[NDArray[Any], NDArray[Any]]]) -> "ClickTable":
        """Return the table of query key -> log propensities (n,) and clicks (n,); the clicks have a sum above 0."""
        width = max((len(clicks) for _, clicks in shown.values()), default=0)
        log_propensity, clicks = np.full((len(shown), width), -np.inf), np.zeros((len(shown), width))
        for at, (own_propensity, own_clicks) in enumerate(shown.values()):
            log_propensity[at, : len(own_propensity)] = own_propensity
            clicks[at, : len(own_clicks)] = own_clicks
        return cls(list(shown), log_propensity, clicks)

    def likelihoods(self, logits: Mapping[str, NDArray[Any]]) -> dict[str, float]:
        """Return query key -> mean log probability of a click, with the T that is best for all queries.

        logits: query key -> logits (n,) of its shown documents. A single T, fitted on the same queries, overestimates
        by little; `likelihoods` fits it on others.
        """
        scores = np.zeros_like(self.log_propensity)
        for at, key in enumerate(self.query_keys):
            scores[at, : len(logits[key])] = logits[key]
        best: Doubles | None = None
        for temperature in TRIED_TEMPERATURES:
            each = self._at(scores / temperature)
            if best is None or each.sum() > best.sum():
                best = each
        return dict(zip(self.query_keys, [] if best is None else best.tolist(), strict=True))

    def _at(self, scores: Doubles) -> Doubles:
        weights = scores + self.log_propensity
        log_weights = np.where(self.clicks > 0, weights - np.logaddexp.reduce(weights, axis=1, keepdims=True), 0.0)
        found: Doubles = (self.clicks * log_weights).sum(axis=1) / self.clicks.sum(axis=1)
        return found


def click_counts(feedback: Feedback, rows: Sequence[int]) -> Doubles:
    """Return the number of clicks (n,) on the documents with these rows in the lists of a query."""
    return np.asarray([sum((feedback.clicks or {}).get(row, {}).values()) for row in rows], np.float64)


def clicked_queries(feedback: Sequence[Feedback]) -> list[Feedback]:
    """Return the queries with a click on a shown document, and at least two shown documents."""
    return [
        one for one in feedback if one.shown is not None and len(one.shown) > 1 and any((one.clicks or {}).values())
    ]


def clicked(generation: Generation, head: AttentionHead, feedback: Feedback, curve: Floats) -> Clicked | None:
    """Return the shown documents of a query under a head; None if the documents of all clicks are gone.

    The memory of the query itself is left out.
    """
    example = make_example(generation, feedback, project(head, feedback.vector), 0, curve)
    rows = generation.rows[example.candidates.doc_indices].tolist()
    clicks = click_counts(feedback, rows)
    if len(rows) < 2 or not clicks.sum():
        return None
    batch = make_batch(generation, [example], with_values=head.hops)
    logits = np.asarray(head(batch.query, batch.candidates).logits[0, : len(rows)], np.float64)
    return Clicked(logits, np.asarray(example.log_propensity, np.float64), clicks)


def likelihoods(queries: Mapping[str, Clicked]) -> dict[str, float]:
    """Return query key -> mean log probability of a click. T of a half of the queries is fitted on the other half."""
    halves: tuple[dict[str, Clicked], dict[str, Clicked]] = ({}, {})
    for key, one in queries.items():
        halves[hash_of(key) // 16 % 2][key] = one
    found: dict[str, float] = {}
    for own, other in (halves, halves[::-1]):
        temperature = _temperature(list((other or own).values())) if own else 1.0
        found |= {key: one.likelihood(temperature) for key, one in own.items()}
    return found


def _temperature(queries: Sequence[Clicked]) -> float:
    """Return T with the largest mean likelihood."""
    found = minimize_scalar(
        lambda log: -float(np.mean([one.likelihood(float(np.exp(log))) for one in queries])),
        bounds=LOG_TEMPERATURES,
        method="bounded",
    )
    return float(np.exp(found.x))


def compare_clicks(
    generation: Generation, champion: AttentionHead, pairs: Sequence[tuple[Feedback, AttentionHead]], curve: Floats
) -> Comparison | None:
    """Return the paired comparison of the likelihoods of clicks; None for fewer than two queries.

    pairs: each held-out query with the head that did not train on it.
    """
    before: dict[str, Clicked] = {}
    after: dict[str, Clicked] = {}
    for one, head in pairs:
        mine, theirs = clicked(generation, champion, one, curve), clicked(generation, head, one, curve)
        if mine is not None and theirs is not None:
            before[one.query_key], after[one.query_key] = mine, theirs
    if len(before) < 2:
        return None
    return compare(CLICKS, likelihoods(before), likelihoods(after))


def never_shown(runs: Mapping[str, Sequence[str]], queries: Sequence[Feedback], newest: int) -> float:
    """Return the mean share of the first ten documents that no list of their query showed.

    runs: query key -> rows, best first. Rows above `newest`, the newest document that the log shows, do not count:
    the log could not show them.
    """
    shares = []
    for one in queries:
        top = [int(row) for row in runs[one.query_key][:TOP]]
        shares.append(sum(row not in (one.shown or {}) and row <= newest for row in top) / max(1, len(top)))
    return float(np.mean(shares)) if shares else 0.0


def newest_shown(feedback: Sequence[Feedback]) -> int:
    """Return the row of the newest document that any list shows, -1 without lists."""
    rows: list[Any] = [max(one.shown) for one in feedback if one.shown]
    return max(rows, default=-1)
