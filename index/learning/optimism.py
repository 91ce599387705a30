"""The optimism of choices: the overestimate of a gain that was measured on the queries on which it was chosen.

Bootstrap bias corrected cross-validation (Tsamardinos et al. 2018): all choices are repeated on each bootstrap sample
of queries, and the result is measured on the queries left out. No trial is repeated.
"""

from collections.abc import Callable, Iterable, Sequence
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

    chosen: the gain (queries,) of the choices that were made. gains: repeats all choices on a sample and returns the
    gain (queries,) of the result on every query.
    """
    queries = len(chosen)
    if queries < 2:
        return 0.0
    random = np.random.default_rng(seed)
    outside = []
    for _ in range(BOOTSTRAPS):
        counts = np.bincount(random.integers(queries, size=queries), minlength=queries)
        left_out = counts == 0
        if left_out.any():
            outside.append(float(gains(counts)[left_out].mean()))
    return max(0.0, float(chosen.mean()) - float(np.mean(outside))) if outside else 0.0


@dataclass(frozen=True)
class Measured:
    """The measures of a recipe: (queries,) at the chosen epochs, and for each trial those after every epoch.

    trials: the columns of the trial's validation queries, and their measures (epochs, columns).
    """

    values: Doubles
    trials: Sequence[tuple[NDArray[np.int64], Doubles]]

    def at(self, counts: Counts) -> Doubles:
        """Return the measures (queries,) at the epochs that are best on a sample. The first of equal epochs is taken.

        A trial without a query in the sample takes its first epoch.
        """
        found = self.values.copy()
        for columns, epochs in self.trials:
            if len(epochs) > 1:
                found[columns] = epochs[int(np.argmax(epochs @ counts[columns]))]
        return found


def measured(trials: Iterable[Trial], queries: Sequence[str]) -> Measured:
    """Return the measures of a recipe's trials on these queries, of which each trial measured a part."""
    column = {query: at for at, query in enumerate(queries)}
    values, tables = np.zeros(len(queries)), []
    for trial in trials:
        own = [query for query in trial.measured if query in column]
        columns = np.asarray([column[query] for query in own], np.int64)
        table = np.asarray([[each[query] for query in own] for each in trial.measures], np.float64)
        values[columns] = [trial.measured[query] for query in own]
        tables.append((columns, table))
    return Measured(values, tables)
