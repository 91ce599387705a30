"""The metadata of documents as pairs of a key and a number, from which the priors of fields are computed.

A number is stored with the key of its field. Texts, booleans and the texts of a list are categories: the key of a
category is made of field and value, and its number is NaN.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from index.records import Ints, Mask, MetadataValue

Keys = NDArray[np.uint64]
Numbers = NDArray[np.float64]
MOST_PAIRS = 64
"""Pairs of a document, at most, so that they take 1 KiB of memory at most."""
LARGEST_NUMBER = 1e300
"""Numbers of this size and above are left out, and so are those that are not finite."""
LONGEST = 64
"""Characters of a text that is a category, at most; a longer one is rarely shared by documents."""


@dataclass(frozen=True, eq=False)
class FieldPairs:
    """The pairs of several documents: keys and numbers (F,), and whose they are, owners (F,): slots or rows."""

    owners: Ints
    keys: Keys
    numbers: Numbers

    def of(self, kept: Mask) -> "FieldPairs":
        """Return those pairs for which a mask (F,) is True."""
        return FieldPairs(self.owners[kept], self.keys[kept], self.numbers[kept])

    def owned_by(self, rows: Ints) -> "FieldPairs":
        """Return the pairs with the places of their rows among these rows, ascending, as owners."""
        return FieldPairs(np.searchsorted(rows, self.owners), self.keys, self.numbers)


NO_PAIRS = FieldPairs(np.empty(0, np.int64), np.empty(0, np.uint64), np.empty(0, np.float64))


def joined(several: Sequence[FieldPairs | None]) -> FieldPairs | None:
    """Return several pairs as one, None if one of them is missing."""
    given = [one for one in several if one is not None]
    if not given or len(given) < len(several):
        return None
    return FieldPairs(*(np.concatenate([getattr(one, of) for one in given]) for of in ("owners", "keys", "numbers")))


def pairs_of(metadata: Mapping[str, MetadataValue]) -> tuple[Keys, Numbers]:
    """Return the keys and numbers (n,) of a document, n at most MOST_PAIRS: the same in every order of the fields.

    Numbers and booleans come first, then texts, then texts of lists: they are left out first.
    """
    found = sorted(set(_pairs(metadata)))[:MOST_PAIRS]
    return np.asarray([key for _, key, _ in found], np.uint64), np.asarray([number for *_, number in found], np.float64)


def number_key(field: str) -> int:
    """Return the key of a field with numbers."""
    return _hash("number", field)


def category_key(field: str, value: str | bool) -> int:
    """Return the key of a category of a field. The text "true" and true are two categories."""
    return _hash("boolean" if isinstance(value, bool) else "text", field, str(value))


def categories_of(value: MetadataValue) -> list[str | bool]:
    """Return the categories of a field with this value: none for a number."""
    given = value if isinstance(value, list) else [value]
    return [one for one in given if isinstance(one, bool) or (isinstance(one, str) and len(one) <= LONGEST)]


def _pairs(metadata: Mapping[str, MetadataValue]) -> Iterator[tuple[int, int, float]]:
    """Yield the place in the order of what is kept, the key and the number of each pair."""
    for field, value in metadata.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            if abs(value) < LARGEST_NUMBER:  # also False for NaN
                yield 0, number_key(field), float(value)
        else:
            place = 0 if isinstance(value, bool) else 1 if isinstance(value, str) else 2
            yield from ((place, category_key(field, one), np.nan) for one in categories_of(value))


@lru_cache(1 << 16)
def _hash(*parts: str) -> int:
    text = "\0".join(parts).encode("utf-8", "replace")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big")
