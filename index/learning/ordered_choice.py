"""The choice among ordered options, from the simplest, on queries that no option was fitted to.

An option is chosen if its gain over the option chosen before it exceeds a share of the standard error of the gain. The
rule is that for richer recipes (`model_selection`).
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from index.learning.config import FitConfig
from index.learning.optimism import Counts, Gains, beats, optimism

Doubles = NDArray[np.float64]


def choose(values: Sequence[Doubles], counts: Counts, error_share: float) -> NDArray[np.int64]:
    """Return the place of the chosen option for each sample (samples,).

    values: for each option the values (queries,) that decide.
    """
    chosen, every = np.zeros(len(counts), np.int64), np.stack(values)
    for at in range(1, len(every)):
        chosen = np.where(beats(every[at] - every[chosen], counts, error_share), at, chosen)
    return chosen


def overestimate(
    values: Sequence[Doubles], measures: Mapping[str, Sequence[Doubles]], chosen: int, config: FitConfig
) -> dict[str, float]:
    """Return measure -> the overestimate of the gain of the chosen option, which `values` decided on the same queries.

    measures: measure -> for each option its values (queries,), NaN for queries without the measure.
    """
    gains = {name: np.stack([of - options[0] for of in options]) for name, options in measures.items()}
    if not chosen:
        return dict.fromkeys(gains, 0.0)

    def repeated(counts: Counts) -> Gains:
        selected = choose(values, counts, config.error_share)
        return {name: gain[selected] for name, gain in gains.items()}

    return optimism({name: gain[chosen] for name, gain in gains.items()}, repeated, config.seed)
