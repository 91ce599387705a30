"""The words of the documents that were added since the files of the word index were last written.

A few documents, in memory, so that a small write needs no file. Documents are only appended: a view is the log and the
number of documents that it sees, so searches read it without a lock while the writer appends.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

K1, B = 1.2, 0.75
"""The parameters of BM25, as the library has them."""


class RecentWords:
    """An append-only log of documents with their terms. One writer."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.lengths: list[int] = []
        self.documents: list[tuple[int, list[str], list[str], list[str]]] = []
        """What was appended, for the logs of other processes."""
        self.terms: dict[str, tuple[list[int], list[int]]] = {}
        """Term, a stem -> the positions in the log of the documents that contain it, and how often each does."""
        self.surface: dict[str, list[int]] = {}
        """Word of the vocabulary -> the positions of the documents that contain it."""
        self.written: dict[str, list[int]] = {}
        """Term of the field `written` -> the same."""

    def append(self, row: int, terms: Sequence[str], surface: Sequence[str], written: Sequence[str]) -> None:
        """Append a document; `terms` are its stems in order, the others its terms of these fields."""
        position = len(self.rows)
        for term, frequency in Counter(terms).items():
            positions, frequencies = self.terms.setdefault(term, ([], []))
            frequencies.append(frequency)  # before its position, which a search looks at first
            positions.append(position)
        for word in set(surface):
            self.surface.setdefault(word, []).append(position)
        for word in set(written):
            self.written.setdefault(word, []).append(position)
        self.documents.append((row, list(terms), list(surface), list(written)))
        self.lengths.append(len(terms))
        self.rows.append(row)


@dataclass(frozen=True)
class RecentView:
    """The first `seen` documents of a log, without those at the positions `gone`. Immutable."""

    log: RecentWords = field(default_factory=RecentWords)
    seen: int = 0
    gone: frozenset[int] = frozenset()

    @property
    def documents(self) -> int:
        """The number of documents."""
        return self.seen - len(self.gone)

    @property
    def positions(self) -> dict[int, int]:
        """Row -> position in the log, of every document."""
        return {self.log.rows[position]: position for position in range(self.seen) if position not in self.gone}

    def frequency(self, name: str, term: str) -> int:
        """Return the number of documents with a term of a field; with all words of a term that has spaces."""
        if not self.seen:
            return 0
        if " " in term:
            each = (set(self._positions(name, word)) for word in term.split(" "))
            return sum(position < self.seen and position not in self.gone for position in set.intersection(*each))
        positions = self._positions(name, term)
        count = bisect_left(positions, self.seen)
        return count - sum(position in self.gone for position in positions[:count]) if self.gone else count

    def _positions(self, name: str, term: str) -> Sequence[int]:
        """Return the positions in the log of the documents with a term, ascending, also of later documents."""
        if name == "words":
            return self.log.terms.get(term, ((), ()))[0]
        return (self.log.surface if name == "surface" else self.log.written).get(term, ())

    def with_prefix(self, name: str, prefix: str) -> dict[str, int]:
        """Return the terms of a field that begin with a prefix, and the number of documents of each."""
        if not self.seen:
            return {}
        of_field: dict[str, Mapping[str, object]] = {
            "words": self.log.terms,
            "surface": self.log.surface,
            "written": self.log.written,
        }
        terms = list(of_field[name])  # one step: the writer may add terms
        counted = {term: self.frequency(name, term) for term in terms if term.startswith(prefix)}
        return {term: count for term, count in counted.items() if count}

    def search(self, weights: Mapping[str, float], mean_length: float) -> dict[int, float]:
        """Return row -> BM25 score of all documents with one of the terms.

        weights: the idf of each term in the collection, times how much it counts. mean_length: the mean number of words
        of a document. Source: Robertson and Zaragoza 2009.
        """
        scores: dict[int, float] = {}
        for term, weight in weights.items():
            positions, frequencies = self.log.terms.get(term, ((), ()))
            for at in range(bisect_left(positions, self.seen)):
                position, frequency = positions[at], frequencies[at]
                if position not in self.gone:
                    row = self.log.rows[position]
                    norm = K1 * (1 - B + B * self.log.lengths[position] / mean_length)
                    scores[row] = scores.get(row, 0.0) + weight * frequency * (K1 + 1) / (frequency + norm)
        return scores

    @property
    def mean_length(self) -> float:
        """The mean number of words of a document, at least 1."""
        lengths = [self.log.lengths[position] for position in self.positions.values()]
        return max(1.0, math.fsum(lengths) / max(1, len(lengths)))
