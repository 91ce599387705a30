"""The priors of metadata fields: what a value of a field adds to the prior of a document.

A category adds its effect. A number adds a piecewise linear function of itself, constant beyond the first and the last
knot (Hastie, Tibshirani, Friedman 2009, 5.2).

Letters: F pairs of a key and a number (`index.generation.document_fields`), C categories, G fields with numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.generation.document_fields import FieldPairs, Keys, Numbers
from index.records import Floats, Ints

QUANTILES = (0.02, 0.2, 0.4, 0.6, 0.8, 0.93, 0.99)
"""Quantiles of a field at which its knots are: closer at large numbers, because sales and clicks have a long tail."""
KNOTS = len(QUANTILES)
PARAMETERS = {
    "priors.categories": np.uint64,
    "priors.category_effects": np.float32,
    "priors.numbers": np.uint64,
    "priors.knots": np.float64,
    "priors.heights": np.float32,
    "priors.offset": np.float32,
}
"""The arrays of the priors of fields among the parameters of a head: name -> dtype."""
NUMBERS = ("effects", "knots", "heights", "offset")


@dataclass(frozen=True, eq=False)
class FieldPriors:
    """The effects (C,) of categories, and the heights (G, KNOTS) at knots (G, KNOTS) of fields with numbers.

    categories (C,) and numbers (G,) are keys, ascending; the knots of a field ascend. offset (): minus the mean effect
    of the documents that the effects were fitted to, so that a usual document has about 0.
    """

    categories: Keys
    effects: Floats
    numbers: Keys
    knots: Numbers
    heights: Floats
    offset: Floats

    def __bool__(self) -> bool:
        return bool(len(self.categories) or len(self.numbers))

    @property
    def shape(self) -> tuple[int, int]:
        """C and G."""
        return len(self.categories), len(self.numbers)

    def of_pairs(self, keys: Keys, numbers: Numbers) -> Floats:
        """Return what each pair (F,) adds; 0 for a key without an effect."""
        added = np.zeros(len(keys), np.float32)
        found, at = places(self.categories, keys)
        added[found] = self.effects[at]
        found, at = places(self.numbers, keys)
        for field in np.unique(at).tolist():
            own = found[at == field]
            added[own] = np.interp(numbers[own], self.knots[field], self.heights[field])
        return added

    def of_owners(self, pairs: FieldPairs, count: int) -> Floats:
        """Return the sum of the offset and of the pairs of each owner (count,)."""
        added = self.of_pairs(pairs.keys, pairs.numbers)
        return (self.offset + np.bincount(pairs.owners, added, count)).astype(np.float32)

    def parameters(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by the names of a head's parameters."""
        arrays = (self.categories, self.effects, self.numbers, self.knots, self.heights, self.offset)
        return dict(zip(PARAMETERS, arrays, strict=True))

    @classmethod
    def of_parameters(cls, parameters: Mapping[str, Any]) -> "FieldPriors":
        """Return the priors of the parameters of a head.

        Raises ValueError unless keys and knots ascend and all numbers are finite.
        """
        found = cls(*(np.asarray(parameters[name], dtype) for name, dtype in PARAMETERS.items()))
        ascending = all((keys[1:] > keys[:-1]).all() for keys in (found.categories, found.numbers))
        ascending = ascending and bool((np.diff(found.knots) >= 0).all())
        if not ascending or not all(np.isfinite(getattr(found, name)).all() for name in NUMBERS):
            raise ValueError("the priors of fields are not in order, or not finite")
        return found


def no_field_priors(categories: int = 0, numbers: int = 0) -> FieldPriors:
    """Return effects of 0 for this many categories and fields with numbers."""
    knots = np.tile(np.arange(KNOTS, dtype=np.float64), (numbers, 1))
    heights = np.zeros((numbers, KNOTS), np.float32)
    keys, fields = np.arange(categories, dtype=np.uint64), np.arange(numbers, dtype=np.uint64)
    return FieldPriors(keys, np.zeros(categories, np.float32), fields, knots, heights, np.zeros((), np.float32))


def places(known: Keys, keys: Keys) -> tuple[Ints, Ints]:
    """Return the positions (m,) of those keys (F,) that are known, and their places (m,) in `known`, ascending."""
    if not len(known):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    found = np.flatnonzero(known[at] == keys)
    return found, at[found]


def knots_of(values: Numbers) -> Numbers:
    """Return the knots (k,) of a field with these values (n,), n > 0: its distinct quantiles, at most KNOTS."""
    knots: Numbers = np.unique(np.quantile(values, QUANTILES, method="nearest"))
    return knots


def ramps(values: Numbers, knots: Numbers) -> Numbers:
    """Return functions (n, k) at values (n,): 1, and those that rise from 0 to 1 between two neighbouring knots (k,).

    Their product with steps (k,) interpolates between the sums of the first 1, 2 ... k steps at the knots.
    """
    risen = np.clip((values[:, None] - knots[:-1]) / np.diff(knots), 0, 1)
    return np.concatenate([np.ones((len(values), 1)), risen], axis=1)
