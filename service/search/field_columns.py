"""The values of metadata fields by document, for facets, sorting and distinct results.

A column is read from the database once and then only extended: a stored document never changes, a new version is a new
row. Rows that a generation does not have are ignored.
"""

import threading
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from index.records import Ints
from service.runtime.served_collection import ServedCollection
from service.search import repository
from service.storage.database import DatabaseReader

Scalar = str | int | float | bool
SPARE_ROWS = 10_000
"""Rows of replaced documents that a column may have beside as many rows as the collection has documents."""


class FieldColumn:
    """The values of a field: document d has the codes[first[d]:first[d + 1]], which are indexes of `values`."""

    def __init__(self) -> None:
        self.values: list[Scalar] = []
        self._codes = array("q")
        self._first = array("q", [0])
        self._known: dict[tuple[type, Scalar], int] = {}

    def append(self, value: Any) -> None:
        """Add the next document; null and a missing field have no value, a list has several."""
        elements = value if isinstance(value, list) else [] if value is None else [value]
        for element in map(_as_compared, elements):
            key = (type(element), element)
            if key not in self._known:
                self._known[key] = len(self.values)
                self.values.append(element)
            self._codes.append(self._known[key])
        self._first.append(len(self._codes))

    def codes_of(self, values: Iterable[Scalar]) -> list[int]:
        """Return the codes of these values, of those that a document has."""
        keys = ((type(value), value) for value in values)
        return [self._known[key] for key in keys if key in self._known]

    def arrays(self) -> tuple[Ints, Ints]:
        """Return copies of first (D + 1,) and codes (C,)."""
        return np.asarray(self._first, np.int64).copy(), np.asarray(self._codes, np.int64).copy()


class Columns:
    """The columns of the filterable fields of a collection."""

    def __init__(self, fields: Sequence[str]) -> None:
        self.fields = tuple(fields)
        self._lock = threading.Lock()
        self._rows = array("q")
        self._columns = {name: FieldColumn() for name in fields}
        self._snapshots: dict[str, tuple[Ints, Ints, Ints]] = {}
        """Copies, because an array whose buffer is read cannot grow."""

    def __len__(self) -> int:
        return len(self._rows)

    def extend(self, database: DatabaseReader, collection_id: int, newest: int) -> None:
        """Read the documents after the last row, until the row `newest` is there."""
        with self._lock:
            last = self._rows[-1] if self._rows else -1
            if last >= newest:
                return
            with database.read() as connection:
                for row, metadata in repository.metadata_after(connection, collection_id, last, newest, len(self)):
                    self._append(row, orjson.loads(metadata))
            self._snapshots.clear()

    def of(self, name: str, rows: Ints) -> "Values":
        """Return the values of a field for these rows (n,)."""
        with self._lock:
            if name not in self._snapshots:
                known_rows = np.asarray(self._rows, np.int64).copy()
                self._snapshots[name] = (known_rows, *self._columns[name].arrays())
            known, first, codes = self._snapshots[name]
            values = self._columns[name].values
        at = np.searchsorted(known, rows).clip(max=max(0, len(known) - 1))
        present = known[at] == rows if len(known) else np.zeros(len(rows), np.bool_)
        begins = np.where(present, first[at], 0)
        return Values(begins, np.where(present, first[at + 1] if len(known) else 0, 0), codes, values)

    def codes_of(self, name: str, values: Iterable[Scalar]) -> Ints:
        """Return the codes (m,) of those values of a field that a document has."""
        with self._lock:
            return np.asarray(self._columns[name].codes_of(values), np.int64)

    def _append(self, row: int, metadata: Mapping[str, Any]) -> None:
        self._rows.append(row)
        for name, column in self._columns.items():
            column.append(metadata.get(name))


class Values:
    """The values of a field for n documents: document d has the codes[begins[d]:ends[d]]."""

    def __init__(self, begins: Ints, ends: Ints, codes: Ints, values: Sequence[Scalar]) -> None:
        self._begins, self._ends, self._codes, self._values = begins, ends, codes, values

    def counts(self) -> list[tuple[Scalar, int]]:
        """Return the values with the number of documents, the most frequent first, then by text."""
        lengths = self._ends - self._begins
        positions = np.repeat(self._begins - (np.cumsum(lengths) - lengths), lengths) + np.arange(int(lengths.sum()))
        document = np.repeat(np.arange(len(lengths)), lengths)
        pairs = np.unique(np.stack([document, self._codes[positions]]), axis=1)  # a list may repeat a value
        numbers = np.bincount(pairs[1], minlength=len(self._values)).tolist() if pairs.size else []
        counted = [(value, count) for value, count in zip(self._values, numbers, strict=False) if count]
        return sorted(counted, key=lambda one: (-one[1], str(one[0])))

    def first(self) -> list[Scalar | None]:
        """Return the first value of each document, None where it has none."""
        return [
            self._values[self._codes[begin]] if end > begin else None
            for begin, end in zip(self._begins.tolist(), self._ends.tolist(), strict=True)
        ]

    def ranks(self) -> Ints:
        """Return the rank of the first value of each document among all values, -1 where it has none.

        Booleans come before numbers, and numbers before texts. Texts that differ in case alone are neighbours, and
        have different ranks.
        """
        order = sorted(range(len(self._values)), key=lambda code: sort_key(self._values[code]))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        codes = self.first_codes()
        return np.where(codes < 0, -1, rank[codes]) if len(rank) else codes

    def first_codes(self) -> Ints:
        """Return the code of the first value of each document, -1 where it has none."""
        has = self._ends > self._begins
        codes = np.full(len(has), -1, np.int64)
        codes[has] = self._codes[self._begins[has]]
        return codes


def _as_compared(value: Any) -> Any:
    """Return a whole float as an integer, so that 10.0 and 10 are one value, as in filters; others as they are.

    No integer of a document or of a filter has more than 64 bits with its sign.
    """
    is_whole = isinstance(value, float) and value.is_integer() and -(2.0**63) <= value < 2.0**63
    return int(value) if is_whole else value


def sort_key(value: Scalar) -> tuple[int, Any, str]:
    """Return the key by which values of a field are sorted."""
    if isinstance(value, bool):
        return 0, value, ""
    if isinstance(value, int | float):
        return 1, value, ""
    return 2, value.casefold(), value


def facet(values: Iterable[tuple[Scalar, int]], most: int) -> dict[str, Any]:
    """Return a facet: the counts of the most frequent values; of numbers also the least, the largest and the mean."""
    counted = list(values)
    shown = dict(_by_label(counted, most))
    numbers = [(value, n) for value, n in counted if isinstance(value, int | float) and not isinstance(value, bool)]
    if not numbers:
        return {"values": shown}
    total = sum(count for _, count in numbers)
    mean = sum(value * count for value, count in numbers) / total
    return {"min": min(numbers)[0], "max": max(numbers)[0], "mean": mean, "values": shown}


def _by_label(counted: Sequence[tuple[Scalar, int]], most: int) -> list[tuple[str, int]]:
    """Return the largest counts of labels, the most frequent first, then by text; those of 2020 and "2020" are one.

    counted: in this order. Only texts have labels that other values have too.
    """
    if len({isinstance(value, str) for value, _ in counted}) < 2:
        return [(label(value), count) for value, count in counted[:most]]
    counts: Counter[str] = Counter()
    for value, count in counted:
        counts[label(value)] += count
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:most]


def label(value: Scalar) -> str:
    """Return a value as the key of a facet: as a filter writes it."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def columns_of(database: DatabaseReader, state: ServedCollection, newest: int) -> Columns:
    """Return the columns of the filterable fields of a collection, up to the row `newest`."""
    fields = tuple(state.settings.filterable)
    columns = state.field_columns
    most = SPARE_ROWS + 2 * len(state.generation.rows)  # beyond it most rows belong to replaced documents
    if not isinstance(columns, Columns) or columns.fields != fields or len(columns) > most:
        columns = state.field_columns = Columns(fields)
    columns.extend(database, state.id, newest)
    return columns
