"""The optimism of choices: the overestimate of a gain that was measured on the queries on which it was chosen.

Bootstrap bias corrected cross-validation (Tsamardinos et al. 2018): all choices are repeated on each bootstrap sample
of queries, and the result is measured on the queries left out. No trial is repeated.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from index.learning.trainer import Trial

BOOTSTRAPS = 500
"""Bootstrap samples of an estimate."""
SAMPLED = 100_000
"""Queries of samples for which choices are repeated at a time."""

Doubles = NDArray[np.float64]
Counts = NDArray[np.int64]
"""How often each query is in each sample (samples, queries)."""
Gains = Mapping[str, Doubles]
"""Measure -> the gain of each query: (queries,), or (samples, queries) where it depends on the sample."""


def optimism(chosen: Gains, repeated: Callable[[Counts], Gains], seed: int) -> dict[str, float]:
    """Return measure -> the overestimate, >= 0, of the mean of its gain by choices on the same queries.

    chosen: the gains of the choices that were made, NaN for queries without the measure. repeated: repeats all choices
    on each of some samples, and returns the gains of the results on every query.
    """
    known = {name: ~np.isnan(gain) for name, gain in chosen.items()}
    outside: dict[str, list[Doubles]] = {name: [] for name, of in known.items() if of.sum() > 1}
    for counts in _samples(max(map(len, known.values())), seed) if outside else ():
        gains, absent = repeated(counts), counts == 0
        for name, found in outside.items():
            left_out = absent & known[name]
            queries = left_out.sum(axis=1)
            sums = np.where(left_out, gains[name], 0.0).sum(axis=1)
            found.append(sums[queries > 0] / queries[queries > 0])
    return dict.fromkeys(chosen, 0.0) | {
        name: max(0.0, float(chosen[name][known[name]].mean() - np.concatenate(found).mean()))
        for name, found in outside.items()
    }


def regression_slope(gains: Mapping[str, float], others: Mapping[str, float]) -> float:
    """Return the slope, >= 0, of the regression of the `others` on the gains of the same queries, by query key.

    A choice by noisy gains overestimates another measure by its overestimate of the gains times this slope, if both are
    normal. 1 if the gains do not differ. Queries with only one of the two do not count.
    """
    known = sorted(gains.keys() & others.keys())
    left, right = (np.asarray([of[key] for key in known], np.float64) for of in (gains, others))
    variance = float(((left - left.mean()) ** 2).sum()) if len(left) else 0.0
    return max(0.0, float((left - left.mean()) @ right / variance)) if variance else 1.0


def _samples(queries: int, seed: int) -> Iterator[Counts]:
    """Yield BOOTSTRAPS samples, some at a time."""
    random = np.random.default_rng(seed)
    at_a_time = max(1, SAMPLED // queries)
    for first in range(0, BOOTSTRAPS, at_a_time):
        size = min(at_a_time, BOOTSTRAPS - first), queries
        drawn = random.integers(queries, size=size) + queries * np.arange(size[0])[:, None]
        yield np.bincount(drawn.ravel(), minlength=size[0] * queries).reshape(size)


def once(queries: int) -> Counts:
    """Return the sample that has every query once."""
    return np.ones((1, queries), np.int64)


def means(values: Doubles, counts: Counts) -> Doubles:
    """Return the means (samples,) of values (queries,) or (samples, queries) without NaN; 0 without queries."""
    found: Doubles = (values * counts).sum(axis=1) / max(1, counts.shape[1])
    return found


def beats(gains: Doubles, counts: Counts, error_share: float) -> NDArray[np.bool_]:
    """Return for each sample whether the mean of the gains is above a share of its standard error.

    gains: (queries,) or (samples, queries), without NaN.
    """
    queries, mean = counts.shape[1], means(gains, counts)
    if queries < 2:
        return np.zeros(len(counts), np.bool_)
    variance = means((gains - mean[:, None]) ** 2, counts) * queries / (queries - 1)
    return np.asarray(mean > error_share * np.sqrt(variance / queries))


@dataclass(frozen=True)
class Epochs:
    """A trial's measures after every epoch: the columns of its validation queries, and (epochs, columns) each.

    ndcg: the measure by which an epoch is chosen. clicks: the log likelihood per click, NaN for queries without clicks.
    """

    columns: NDArray[np.int64]
    ndcg: Doubles
    clicks: Doubles

    def sums(self, counts: Counts, epochs: int) -> Doubles:
        """Return the sums (samples, epochs) of nDCG@10. A trial that stopped before keeps its last one.

        Equal epochs have equal sums to the bit, which a matrix product of BLAS does not promise.
        """
        own: Doubles = np.einsum("sq,eq->se", counts[:, self.columns].astype(np.float64), self.ndcg)
        return own[:, np.minimum(np.arange(epochs), own.shape[1] - 1)]


@dataclass(frozen=True)
class Measured:
    """The measures of a recipe at the chosen epoch, (queries,) or (samples, queries), and those of its trials after
    every epoch.

    values: nDCG@10. clicks: the log likelihood per click, NaN for queries without clicks.
    """

    values: Doubles
    clicks: Doubles
    trials: Sequence[Epochs]

    def at(self, counts: Counts) -> "Measured":
        """Return the measures after the number of epochs that is best on each sample, the first of equal numbers."""
        epochs = max((len(trial.ndcg) for trial in self.trials), default=0)
        if epochs < 2:
            return self
        best = np.argmax(np.sum([trial.sums(counts, epochs) for trial in self.trials], axis=0), axis=1)
        values, clicks = (np.tile(own, (len(counts), 1)) for own in (self.values, self.clicks))
        for trial in self.trials:
            at = np.minimum(best, len(trial.ndcg) - 1)
            values[:, trial.columns], clicks[:, trial.columns] = trial.ndcg[at], trial.clicks[at]
        return Measured(values, clicks, self.trials)


def measured(trials: Iterable[Trial], queries: Sequence[str]) -> Measured:
    """Return the measures of a recipe's trials on these queries, of which each trial measured a part."""
    column = {query: at for at, query in enumerate(queries)}
    found = Measured(np.zeros(len(queries)), np.full(len(queries), np.nan), [])
    tables = []
    for trial in trials:
        own = [query for query in trial.measured if query in column]
        epochs = Epochs(
            np.asarray([column[query] for query in own], np.int64),
            _table(trial.measures, own),
            _table(trial.clicks or ({},) * len(trial.measures), own),
        )
        chosen = trial.measures.index(trial.measured)
        found.values[epochs.columns], found.clicks[epochs.columns] = epochs.ndcg[chosen], epochs.clicks[chosen]
        tables.append(epochs)
    return Measured(found.values, found.clicks, tables)


def _table(measures: Sequence[Mapping[str, float]], queries: Sequence[str]) -> Doubles:
    """Return the measures (epochs, queries), NaN for a query without the measure."""
    return np.asarray([[each.get(query, np.nan) for query in queries] for each in measures], np.float64).reshape(
        len(measures), len(queries)
    )
