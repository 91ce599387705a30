"""The optimism of choices: the overestimate of a gain that was measured on the queries on which it was chosen.

Bootstrap bias corrected cross-validation (Tsamardinos et al. 2018): all choices are repeated on each bootstrap sample
of queries, and the result is measured on the queries left out. No trial is repeated.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from index.learning.trainer import Trial

BOOTSTRAPS = 500
"""Bootstrap samples of an estimate."""

Doubles = NDArray[np.float64]
Counts = NDArray[np.int64]
"""How often each query is in a sample (queries,)."""


def optimism(chosen: Doubles, gains: Callable[[Counts], Doubles], seed: int) -> float:
    """Return the overestimate of the mean of `chosen` by choices on the same queries, >= 0.

    chosen: the gain (queries,) of the choices that were made, NaN for queries without this measure. gains: repeats all
    choices on a sample and returns the gain (queries,) of the result on every query.
    """
    queries, known = len(chosen), ~np.isnan(chosen)
    if known.sum() < 2:
        return 0.0
    random = np.random.default_rng(seed)
    outside = []
    for _ in range(BOOTSTRAPS):
        counts = np.bincount(random.integers(queries, size=queries), minlength=queries)
        left_out = (counts == 0) & known
        if left_out.any():
            outside.append(float(gains(counts)[left_out].mean()))
    return max(0.0, float(chosen[known].mean()) - float(np.mean(outside))) if outside else 0.0


@dataclass(frozen=True)
class Epochs:
    """A trial's measures after every epoch: the columns of its validation queries, and (epochs, columns) each.

    ndcg: the measure by which an epoch is chosen. clicks: the log likelihood per click, NaN for queries without clicks.
    """

    columns: NDArray[np.int64]
    ndcg: Doubles
    clicks: Doubles

    def sums(self, counts: Counts, epochs: int) -> Doubles:
        """Return the sums (epochs,) of nDCG@10 over a sample. A trial that stopped before keeps its last one."""
        own: Doubles = self.ndcg @ counts[self.columns]
        return own[np.minimum(np.arange(epochs), len(own) - 1)]


@dataclass(frozen=True)
class Measured:
    """The measures of a recipe (queries,) at the chosen epoch, and those of its trials after every epoch.

    values: nDCG@10. clicks: the log likelihood per click, NaN for queries without clicks.
    """

    values: Doubles
    clicks: Doubles
    trials: Sequence[Epochs]

    def at(self, counts: Counts) -> "Measured":
        """Return the measures after the number of epochs that is best on a sample, the first of equal numbers."""
        epochs = max((len(trial.ndcg) for trial in self.trials), default=0)
        if epochs < 2:
            return self
        best = int(np.argmax(np.sum([trial.sums(counts, epochs) for trial in self.trials], axis=0)))
        values, clicks = self.values.copy(), self.clicks.copy()
        for trial in self.trials:
            at = min(best, len(trial.ndcg) - 1)
            values[trial.columns], clicks[trial.columns] = trial.ndcg[at], trial.clicks[at]
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
