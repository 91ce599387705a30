"""The metadata of candidates as the columns of a linear model, whose coefficients are the priors of fields.

A category has a column of ones. A field with numbers has one too, and a column for each step between two neighbouring
knots, so that the penalty of the coefficients prefers a smooth curve (a random walk as prior; Fahrmeir, Lang 2001). A
column is centred on the candidates that it is fitted to, so that the fields explain the differences between these, and
not what they have in common against others. The steps of a field with numbers are centred on the candidates that have
it: a document without the number is like the mean of the others.

Letters: M candidates of several queries, F pairs, W columns.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack, vstack

from index.generation.document_fields import (
    NO_PAIRS,
    FieldPairs,
    Keys,
    Numbers,
    categories_of,
    category_key,
    number_key,
)
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
"""Documents whose columns are made at once."""
MOST_ENTRIES = 10_000_000
"""Entries of the columns of a run, about: 80 MB. The columns of further documents are left out of the fit."""
MOST_DESCRIBED = 20
"""Effects of categories in the report of a run, at most: the largest."""
LEAST = 0.01
"""Priors of documents and effects of categories below it are left out of the model."""


def labels_of(
    generation: Generation, documents: Iterable[Mapping[str, MetadataValue]], fields: Collection[str]
) -> dict[int, Label]:
    """Return key -> label for the fields of these names: their numbers and categories that enough documents have.

    documents: the metadata of the documents of the generation, which has keys alone. Fields with numbers come first,
    then categories, those of the most documents first and equal ones by key.
    """
    keys, counts = np.unique(generation.columns.field_keys[_is_living(generation)], return_counts=True)
    enough = dict(
        zip(keys[counts >= LEAST_DOCUMENTS].tolist(), counts[counts >= LEAST_DOCUMENTS].tolist(), strict=True)
    )
    found: dict[int, Label] = {}
    for metadata in documents:
        for field in fields:
            value = metadata.get(field)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            labels: list[Label] = [(field, None)] if is_number else []
            labels += [(field, one) for one in categories_of(value)] if value is not None else []
            found |= {key: label for label in labels if (key := key_of(label)) in enough}
    ordered = sorted(found, key=lambda key: (-enough[key], key))
    numbers = [key for key in ordered if found[key][1] is None]
    categories = [key for key in ordered if found[key][1] is not None][:MOST_CATEGORIES]
    return {key: found[key] for key in (*numbers, *categories)}


def _is_living(generation: Generation) -> Mask:
    """Return for each pair of the generation whether its document is there."""
    return np.repeat(generation.alive, np.diff(generation.columns.first_field))


def key_of(label: Label) -> int:
    """Return the key of a label, as in the pairs of documents."""
    field, category = label
    return number_key(field) if category is None else category_key(field, category)


def _sparse(
    values: NDArray[np.floating], rows: NDArray[np.int64], columns: NDArray[np.int64], shape: tuple[int, int]
) -> csr_matrix:
    found = csr_matrix((values.astype(np.float32), (rows, columns)), shape=shape)
    found.eliminate_zeros()
    return found


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
        given = generation.columns
        wanted = np.flatnonzero(np.isin(given.field_keys, keys[is_number]) & _is_living(generation))
        of_pair, values = given.field_keys[wanted], given.field_numbers[wanted]
        fields = [(key, values[of_pair == key]) for key in keys[is_number]]
        known = [(key, knots_of(own)) for key, own in fields if len(own)]
        numbers = np.asarray([key for key, _ in known], np.uint64)
        return cls(keys[~is_number], numbers, tuple(knots for _, knots in known))

    def __len__(self) -> int:
        return len(self.categories) + sum(map(len, self.knots))

    def constants(self) -> Ints:
        """Return for each column (W,) the column of ones of its field; for categories and columns of ones their own."""
        own = np.arange(len(self))
        first = len(self.categories)
        for knots in self.knots:
            own[first : first + len(knots)] = first
            first += len(knots)
        return own

    def matrix(self, pairs: FieldPairs, count: int) -> csr_matrix:
        """Return the columns (count, W) of this many owners of pairs."""
        found, at = places(self.categories, pairs.keys)
        blocks = [_sparse(np.ones(len(found)), pairs.owners[found], at, (count, len(self.categories)))]
        for key, knots in zip(self.numbers, self.knots, strict=True):
            own = np.flatnonzero(pairs.keys == key)
            owner, column = np.repeat(pairs.owners[own], len(knots)), np.tile(np.arange(len(knots)), len(own))
            blocks.append(_sparse(ramps(pairs.numbers[own], knots).ravel(), owner, column, (count, len(knots))))
        return csr_matrix(hstack(blocks))

    def priors(self, coefficients: Doubles, means: Doubles) -> FieldPriors:
        """Return the priors of fields with these coefficients (W,) of `matrix`, whose means (W,) in the fit are given.

        Categories with an effect below LEAST are left out.
        """
        if not len(self):
            return no_field_priors()
        effects = coefficients[: len(self.categories)].astype(np.float32)
        kept = np.abs(effects) >= LEAST
        served = np.append(np.where(kept, effects, 0), coefficients[len(self.categories) :])
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
            np.asarray(-means @ served, np.float32),
        )


@dataclass(frozen=True)
class DocumentColumns:
    """The columns (n, W) of documents (n,), doc indices, ascending. Others have no columns in the fit."""

    columns: FieldColumns
    documents: Ints
    matrix: csr_matrix

    @classmethod
    def of(cls, generation: Generation, columns: FieldColumns, documents: Ints) -> "DocumentColumns":
        """Return the columns of these documents (n,), ascending; of the first ones if they have over MOST_ENTRIES."""
        parts, entries, last = [columns.matrix(NO_PAIRS, 0)], 0, 0
        while last < len(documents) and entries < MOST_ENTRIES and len(columns):
            part = documents[last : last + BLOCK]
            parts.append(columns.matrix(generation.fields_of(part, np.arange(len(part))), len(part)))
            last, entries = last + len(part), entries + parts[-1].nnz
        return cls(columns, documents[:last], csr_matrix(vstack(parts)))


_NO_COLUMNS = FieldColumns(np.empty(0, np.uint64), np.empty(0, np.uint64), ())
NO_COLUMNS = DocumentColumns(_NO_COLUMNS, np.empty(0, np.int64), _NO_COLUMNS.matrix(NO_PAIRS, 0))


class CentredColumns:
    """Columns of M candidates, each less its mean over the candidates that they are fitted to; 0 for the others.

    A step of a field with numbers is less its mean over the candidates that have the field, and 0 for those without it:
    a document whose number is not known is like the mean of the known ones, and not like the least of them.
    A document is a candidate of many queries, and its columns are stored once.
    """

    def __init__(self, of_documents: DocumentColumns, documents: Ints, could_be_chosen: Mask) -> None:
        """documents (M,): the doc indices of the candidates; those that could be chosen (M,) and have columns count."""
        self._columns, known = of_documents.matrix, of_documents.documents
        self._document = np.minimum(np.searchsorted(known, documents), max(0, len(known) - 1))
        self._is_fitted = could_be_chosen & np.isin(documents, known)
        times = np.bincount(self._document[self._is_fitted], minlength=len(known))
        self.means: Doubles = self._columns.T @ times / max(1, int(times.sum()))
        constant = of_documents.columns.constants()
        self._steps = np.flatnonzero(constant != np.arange(len(constant)))
        self._constant = constant[self._steps]
        have = self.means[self._constant]
        self._risen = np.divide(self.means[self._steps], have, out=np.zeros(len(have)), where=have > 0)

    def uncentred(self, coefficients: Doubles) -> Doubles:
        """Return the coefficients (W,) of the columns as they are stored, for those (W,) of the centred steps."""
        found = coefficients.copy()
        np.subtract.at(found, self._constant, self._risen * coefficients[self._steps])
        return found

    def __matmul__(self, coefficients: Doubles) -> Doubles:
        """Return the effects (M,) for coefficients (W,)."""
        stored = self.uncentred(coefficients)
        of_documents = self._columns @ stored - self.means @ stored
        effects = np.zeros(len(self._document))
        effects[self._is_fitted] = of_documents[self._document[self._is_fitted]]
        return effects

    def gradient(self, pull: Doubles) -> Doubles:
        """Return the gradient (W,) of a loss with the gradient pull (M,) at the effects."""
        own = pull[self._is_fitted]
        of_documents = np.bincount(self._document[self._is_fitted], own, self._columns.shape[0])
        found: Doubles = self._columns.T @ of_documents - self.means * own.sum()
        found[self._steps] -= self._risen * found[self._constant]
        return found


def described(priors: FieldPriors, labels: Mapping[int, Label]) -> list[dict[str, Any]]:
    """Return the largest effects of categories and all fields with numbers for a report, the largest effects first.

    An effect is what is added to the logit. A field with numbers has its knots and the effects there; its effect is the
    difference of the largest and the least.
    """
    found: list[dict[str, Any]] = []
    for at in np.argsort(-np.abs(priors.effects), kind="stable")[:MOST_DESCRIBED].tolist():
        field, value = labels[int(priors.categories[at])]
        found.append({"field": field, "value": value, "effect": round(float(priors.effects[at]), 3)})
    for key, knots, heights in zip(priors.numbers, priors.knots, priors.heights, strict=True):
        count = KNOTS
        while count > 1 and heights[count - 1] == heights[count - 2]:
            count -= 1  # a field with fewer knots is filled up
        curve = [[float(knot), round(float(height), 3)] for knot, height in zip(knots[:count], heights, strict=False)]
        found.append({"field": labels[int(key)][0], "knots": curve, "effect": round(float(np.ptp(heights)), 3)})
    return sorted((one for one in found if one["effect"]), key=lambda one: -abs(one["effect"]))
