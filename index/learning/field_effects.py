"""The metadata of candidates as the columns of a linear model, whose coefficients are the priors of fields.

A category has a column of ones. A field with numbers has one too, and a column for each step between two neighbouring
knots, so that the penalty of the coefficients prefers a smooth curve (a random walk as prior; Fahrmeir, Lang 2001). A
column is centred on the candidates that it is fitted to, so that the fields explain the differences between these, and
not what they have in common against others.

Letters: M candidates of several queries, F pairs, W columns.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack, vstack

from index.generation.document_fields import FieldPairs, Keys, Numbers, categories_of, category_key, number_key
from index.generation.generation import Generation
from index.ranking.field_priors import KNOTS, FieldPriors, knots_of, no_field_priors, places, ramps
from index.records import Ints, Mask, MetadataValue

Doubles = NDArray[np.float64]
Label = tuple[str, str | bool | None]
"""A field and its category, None for the numbers of the field."""
LEAST_DOCUMENTS = 5
"""Documents of a category, at least: the category of one document would be the prior of that document."""
MOST_CATEGORIES = 5_000
"""Categories, at most: those of the most documents. 60 KB of a model file."""
BLOCK = 8192
"""Documents whose metadata are in memory at once."""
LEAST = 0.01
"""Effects below it are left out of the model."""


def labels_of(documents: Iterable[Mapping[str, MetadataValue]], fields: Collection[str]) -> dict[int, Label]:
    """Return key -> label for the fields of these names, and for those of their categories that enough documents have.

    documents: their metadata. The most frequent categories are first, then those that come first in the alphabet.
    """
    counts: dict[Label, int] = {}
    for metadata in documents:
        for field in fields:
            value = metadata.get(field)
            if isinstance(value, int | float) and not isinstance(value, bool):
                counts[field, None] = counts.get((field, None), 0) + 1
            elif value is not None:
                for category in set(categories_of(value)):
                    counts[field, category] = counts.get((field, category), 0) + 1
    enough = sorted(
        (label for label, count in counts.items() if count >= LEAST_DOCUMENTS),
        key=lambda label: (-counts[label], label[0], str(label[1])),
    )
    numbers = [label for label in enough if label[1] is None]
    categories = [label for label in enough if label[1] is not None][:MOST_CATEGORIES]
    return {key_of(label): label for label in (*numbers, *categories)}


def key_of(label: Label) -> int:
    """Return the key of a label, as in the pairs of documents."""
    field, category = label
    return number_key(field) if category is None else category_key(field, category)


@dataclass(frozen=True)
class FieldColumns:
    """What has a column: categories (C,) and fields with numbers (G,), keys, ascending, and the knots of each field."""

    categories: Keys
    numbers: Keys
    knots: tuple[Numbers, ...]

    @classmethod
    def of(cls, generation: Generation, labels: Mapping[int, Label]) -> "FieldColumns":
        """Return the columns of these keys. The knots are quantiles over the living documents."""
        keys = np.asarray(sorted(labels), np.uint64)
        is_number = np.asarray([labels[int(key)][1] is None for key in keys], np.bool_)
        living = np.repeat(generation.alive, np.diff(generation.columns.first_field))
        given = generation.columns.field_keys, generation.columns.field_numbers
        fields = [(key, given[1][living & (given[0] == key)]) for key in keys[is_number]]
        known = [(key, knots_of(values)) for key, values in fields if len(values)]
        numbers = np.asarray([key for key, _ in known], np.uint64)
        return cls(keys[~is_number], numbers, tuple(knots for _, knots in known))

    def __len__(self) -> int:
        return len(self.categories) + sum(map(len, self.knots))

    def of_documents(self, generation: Generation, doc_indices: Ints) -> csr_matrix:
        """Return the columns (n, W) of these documents (n,)."""
        parts = [doc_indices[first : first + BLOCK] for first in range(0, len(doc_indices), BLOCK)] or [doc_indices]
        found = [self.matrix(generation.fields_of(part, np.arange(len(part))), len(part)) for part in parts]
        return csr_matrix(vstack(found))

    def matrix(self, pairs: FieldPairs, count: int) -> csr_matrix:
        """Return the columns (count, W) of this many owners of pairs."""
        found, at = places(self.categories, pairs.keys)
        blocks = [_sparse(np.ones(len(found)), pairs.owners[found], at, (count, len(self.categories)))]
        for key, knots in zip(self.numbers, self.knots, strict=True):
            own = np.flatnonzero(pairs.keys == key)
            owner, column = np.repeat(pairs.owners[own], len(knots)), np.tile(np.arange(len(knots)), len(own))
            blocks.append(_sparse(ramps(pairs.numbers[own], knots).ravel(), owner, column, (count, len(knots))))
        return csr_matrix(hstack(blocks))

    def priors(self, coefficients: Doubles, offset: float) -> FieldPriors:
        """Return the priors of fields with these coefficients (W,)."""
        if not len(self):
            return no_field_priors()
        effects = coefficients[: len(self.categories)].astype(np.float32)
        kept = np.abs(effects) >= LEAST
        knots, heights, first = [], [], len(self.categories)
        for own in self.knots:
            missing = KNOTS - len(own)
            knots.append(np.append(own, own[-1] + 1 + np.arange(missing)))
            fitted = np.cumsum(coefficients[first : first + len(own)])
            heights.append(np.append(fitted, np.repeat(fitted[-1:], missing)))
            first += len(own)
        shape = (len(self.knots), KNOTS)
        return FieldPriors(
            self.categories[kept],
            effects[kept],
            self.numbers,
            np.asarray(knots, np.float64).reshape(shape),
            np.asarray(heights, np.float32).reshape(shape),
            np.asarray(offset, np.float32),
        )


NO_COLUMNS = FieldColumns(np.empty(0, np.uint64), np.empty(0, np.uint64), ())


class CentredColumns:
    """Columns of M candidates, each less its mean over the candidates that they are fitted to; 0 for the others.

    A document is a candidate of many queries, and its columns are stored once.
    """

    def __init__(self, columns: csr_matrix, document: Ints, is_fitted: Mask) -> None:
        """columns (n, W): of documents. document (M,): the place of each candidate among them. is_fitted (M,)."""
        self._columns, self._document, self._is_fitted = columns, document, is_fitted
        times = np.bincount(document[is_fitted], minlength=columns.shape[0])
        self.means: Doubles = columns.T @ times / max(1, int(times.sum()))

    def __matmul__(self, coefficients: Doubles) -> Doubles:
        """Return the effects (M,) for coefficients (W,)."""
        of_documents = self._columns @ coefficients - self.means @ coefficients
        effects: Doubles = np.where(self._is_fitted, of_documents[self._document], 0.0)
        return effects

    def gradient(self, pull: Doubles) -> Doubles:
        """Return the gradient (W,) of a loss with the gradient pull (M,) at the effects."""
        own = np.where(self._is_fitted, pull, 0.0)
        of_documents = np.bincount(self._document, own, self._columns.shape[0])
        found: Doubles = self._columns.T @ of_documents - self.means * own.sum()
        return found


def _sparse(
    values: NDArray[np.floating], rows: NDArray[np.int64], columns: NDArray[np.int64], shape: tuple[int, int]
) -> csr_matrix:
    return csr_matrix((values.astype(np.float64), (rows, columns)), shape=shape)


MOST_DESCRIBED = 20
"""Effects of categories in the report of a run, at most: the largest."""


def described(priors: FieldPriors, labels: Mapping[int, Label]) -> list[dict[str, Any]]:
    """Return the largest effects of categories and all fields with numbers for a report, the largest effects first.

    An effect is what is added to the logit. A field with numbers has its knots and the effects there.
    """
    largest = np.argsort(-np.abs(priors.effects), kind="stable")[:MOST_DESCRIBED]
    categories = [(labels[int(priors.categories[at])], float(priors.effects[at])) for at in largest]
    found: list[dict[str, Any]] = [
        {"field": field, "value": value, "effect": round(effect, 3)} for (field, value), effect in categories
    ]
    for key, knots, heights in zip(priors.numbers, priors.knots, priors.heights, strict=True):
        curve = [[knot, round(height, 3)] for knot, height in zip(knots.tolist(), heights.tolist(), strict=True)]
        while len(curve) > 1 and curve[-1][1] == curve[-2][1]:
            curve.pop()  # a field with fewer knots is filled up
        found.append({"field": labels[int(key)][0], "knots": curve, "effect": round(float(np.ptp(heights)), 3)})
    return sorted(found, key=lambda one: -abs(one["effect"]))
