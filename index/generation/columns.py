"""The columns of a generation: numbers per document, key and word; the vectors are stored separately."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.generation.document_fields import Keys, Numbers
from index.records import Ints
from index.storage.checksum_guard import Checksums
from index.storage.growable_array import GrowableArray
from index.words.query_words import Words

ID_BYTES, HASH_BYTES = 16, 8
ID_ORDER = np.dtype(f"S{ID_BYTES + HASH_BYTES}")
"""The first bytes of an id in UTF-8, then a hash of the id, which orders ids with the same beginning."""


def id_order(ids: Iterable[str]) -> NDArray[np.bytes_]:
    """Return bytes (n,) by which documents with equal scores are ordered: the same in every history of a collection."""
    texts = (id.encode("utf-8", "replace") for id in ids)
    ordered = [
        text[:ID_BYTES].ljust(ID_BYTES, b"\0") + blake2b(text, digest_size=HASH_BYTES).digest() for text in texts
    ]
    return np.asarray(ordered, ID_ORDER)


@dataclass(frozen=True)
class Columns:
    """N documents, their K keys and T words, one array per column. Published arrays are never written.

    rows (N,), ascending, and value_checksums (N,) are per document. Document n has the keys first_key[n]:first_key[n +
    1] and the words first_token[n]:first_token[n + 1]; first_key and first_token are (N + 1,) and begin with 0.
    key_kind, key_start, key_end (character offsets in the text) and key_checksums are (K,); tokens (T,) are word
    numbers; the first title_words[n] words of document n are in its title, and title_words is (N,). id_order (N,)
    bytes sorts as the ids of the documents do (`id_order`). The metadata of document n are the pairs
    first_field[n]:first_field[n + 1] of field_keys and field_numbers (F,) (`document_fields.pairs_of`).
    """

    rows: Ints
    value_checksums: Checksums
    first_key: Ints
    key_kind: Ints
    key_start: Ints
    key_end: Ints
    key_checksums: Checksums
    first_token: Ints
    tokens: Words
    title_words: Ints
    id_order: NDArray[np.bytes_]
    first_field: Ints
    field_keys: Keys
    field_numbers: Numbers

    @classmethod
    def empty(cls) -> "Columns":
        """Return the columns of no documents."""
        none, checksums, start = np.empty(0, np.int64), np.empty(0, np.uint64), np.zeros(1, np.int64)
        words, ids = np.empty(0, np.uint32), np.empty(0, ID_ORDER)
        fields = start, np.empty(0, np.uint64), np.empty(0, np.float64)
        return cls(none, checksums, start, none, none, none, checksums, start, words, none, ids, *fields)

    def by_name(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by their names."""
        return {name: getattr(self, name) for name in NAMES}

    def key_positions(self, doc_indices: Ints) -> Ints:
        """Return the positions of the keys of these documents, in the order of the documents."""
        return _spans(self.first_key, doc_indices)

    def token_positions(self, doc_indices: Ints) -> Ints:
        """Return the positions of the words of these documents, in the order of the documents."""
        return _spans(self.first_token, doc_indices)

    def field_positions(self, doc_indices: Ints) -> Ints:
        """Return the positions of the metadata pairs of these documents, in the order of the documents."""
        return _spans(self.first_field, doc_indices)

    def taken(self, doc_indices: Ints) -> "Columns":
        """Return the columns of these documents, in this order."""
        keys, tokens = self.key_positions(doc_indices), self.token_positions(doc_indices)
        pairs = self.field_positions(doc_indices)
        return Columns(
            rows=self.rows[doc_indices],
            value_checksums=self.value_checksums[doc_indices],
            first_key=_offsets(self.first_key, doc_indices),
            key_kind=self.key_kind[keys],
            key_start=self.key_start[keys],
            key_end=self.key_end[keys],
            key_checksums=self.key_checksums[keys],
            first_token=_offsets(self.first_token, doc_indices),
            tokens=self.tokens[tokens],
            title_words=self.title_words[doc_indices],
            id_order=self.id_order[doc_indices],
            first_field=_offsets(self.first_field, doc_indices),
            field_keys=self.field_keys[pairs],
            field_numbers=self.field_numbers[pairs],
        )


NAMES = tuple(field.name for field in fields(Columns))
OFFSETS = ("first_key", "first_token", "first_field")


class ColumnBuffers:
    """The growable arrays that hold the columns of successive generations; a single writer appends to them."""

    def __init__(self, columns: Columns) -> None:
        """Copy the columns into arrays with spare capacity, so that the next append copies nothing."""
        self._arrays = {name: GrowableArray.with_capacity(array) for name, array in columns.by_name().items()}

    @property
    def columns(self) -> Columns:
        """The columns of all documents appended so far."""
        return Columns(**{name: array.view for name, array in self._arrays.items()})

    def extended(self, columns: Columns, block: Columns) -> Columns:
        """Return these columns with the documents of a block appended. Readers of `columns` see no change."""
        for name, added in block.by_name().items():
            before = getattr(columns, name)
            if name in OFFSETS:
                added = added[1:] + before[-1]
            self._arrays[name] = self._arrays[name].extended(len(before), added)
        return self.columns


def _offsets(first: Ints, doc_indices: Ints) -> Ints:
    """Return the offsets (n + 1,), beginning with 0, of these documents when they are stored contiguously."""
    return np.append(0, np.cumsum((first[1:] - first[:-1])[doc_indices]))


def _spans(first: Ints, doc_indices: Ints) -> Ints:
    """Return the positions first[n], ..., first[n + 1] - 1 of these documents n, concatenated."""
    starts, counts = first[doc_indices], first[doc_indices + 1] - first[doc_indices]
    before = np.cumsum(counts) - counts
    positions: Ints = np.arange(int(counts.sum())) + np.repeat(starts - before, counts)
    return positions
