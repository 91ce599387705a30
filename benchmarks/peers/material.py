"""The data of peers: a collection with its signals, computed once and shared as plain files.

It holds the grades of train queries only, so that no peer can make a choice on test queries.
Letters: Q queries (T to learn from, S to rank for), N documents, P keys, D key width.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from index.records import Floats, Ints, KeyKind
from index.words.query_words import Words

NOTHING = -1.0
"""The cosine of a document without a key of a kind."""
BLOCK = 256
VALIDATION_SHARE = 0.2
SIGNALS = ("dense", "sentence", "title", "words")
SPLIT_ARRAYS = ("vectors", *SIGNALS, "query_words", "query_weights", "first_query_word")


@dataclass(frozen=True)
class Keys:
    """Unit vectors (P, D), their kinds (P,), and the doc indices of their documents (P,), ascending."""

    vectors: Floats
    kinds: Ints
    doc_indices: Ints

    def of(self, kind: KeyKind) -> "Keys":
        """Return the keys of one kind."""
        chosen = np.flatnonzero(self.kinds == kind)
        return Keys(self.vectors[chosen], self.kinds[chosen], self.doc_indices[chosen])

    def best(self, queries: Floats, documents: int) -> Floats:
        """Return the cosine (Q, documents) of each query (Q, D) to the nearest key of each document."""
        best = np.full((len(queries), documents), NOTHING, np.float32)
        if not len(self.doc_indices):
            return best
        starts = np.flatnonzero(np.r_[True, self.doc_indices[1:] != self.doc_indices[:-1]])
        for first in range(0, len(queries), BLOCK):
            scores = queries[first : first + BLOCK] @ self.vectors.T
            best[first : first + BLOCK, self.doc_indices[starts]] = np.maximum.reduceat(scores, starts, axis=1)
        return best


@dataclass(frozen=True)
class Split:
    """Queries with their vectors (Q, D) and signals (Q, N): nearest passage, sentence and title by cosine, BM25.

    query_words and query_weights: the words of all queries as numbers, concatenated by query, and their idf;
    first_query_word (Q + 1,): the start of each query.
    """

    queries: list[str]
    texts: list[str]
    vectors: Floats
    dense: Floats
    sentence: Floats
    title: Floats
    words: Floats
    query_words: Words
    query_weights: Floats
    first_query_word: Ints

    def asked(self, row: int) -> tuple[Words, Floats]:
        """Return the words of one query, in reading order, and their weights."""
        own = slice(self.first_query_word[row], self.first_query_word[row + 1])
        return self.query_words[own], self.query_weights[own]


@dataclass(frozen=True)
class Grades:
    """Judgments of train queries, three arrays of equal length: the query's row, the doc index, the grade."""

    rows: Ints
    doc_indices: Ints
    grades: Ints

    def matrix(self, queries: int, documents: int) -> sparse.csr_array:
        """Return the grades (queries, documents)."""
        at = (self.rows, self.doc_indices)
        return sparse.csr_array((self.grades.astype(np.float32), at), shape=(queries, documents))


@dataclass(frozen=True)
class Material:
    """A collection: documents by doc index, their keys, and both splits. `fusion` is the best fixed fusion on train.

    tokens: the words of all documents as numbers, concatenated; first_token (N + 1,): the start of each document.
    shared_seconds: the cost of the train signals and of the choice of the fusion, part of every peer's learning.
    """

    ids: list[str]
    titles: list[str]
    texts: list[str]
    keys: Keys
    tokens: Words
    first_token: Ints
    train: Split
    test: Split
    grades: Grades
    fusion: str
    shared_seconds: float

    @cached_property
    def passages(self) -> Keys:
        """The passage keys, which dense search reads."""
        return self.keys.of(KeyKind.PASSAGE)

    @cached_property
    def gains(self) -> sparse.csr_array:
        """Grades of train queries (T, N)."""
        return self.grades.matrix(len(self.train.queries), len(self.ids))

    def positives(self) -> tuple[Ints, Ints]:
        """Return rows and doc indices of positive pairs: their grade is at least half of the highest grade."""
        good = (self.grades.grades > 0) & (2 * self.grades.grades >= self.grades.grades.max())
        return self.grades.rows[good], self.grades.doc_indices[good]

    def divided(self, seed: int) -> tuple[Ints, Ints]:
        """Return the train rows to learn from, and a fifth to validate on. Equal texts are in the same part."""
        texts, group = np.unique(self.train.texts, return_inverse=True)
        drawn = np.random.default_rng(seed).permutation(len(texts))
        held_out = np.isin(group, drawn[: max(1, round(VALIDATION_SHARE * len(texts)))])
        return np.flatnonzero(~held_out), np.flatnonzero(held_out)

    def run(self, doc_indices: Ints) -> dict[str, list[str]]:
        """Return test query -> document ids, best first, from ranked doc indices (S, depth)."""
        rows = zip(self.test.queries, doc_indices.tolist(), strict=True)
        return {query: [self.ids[doc_index] for doc_index in row] for query, row in rows}

    def save(self, folder: Path) -> None:
        """Write everything to a folder: arrays as .npy, the rest as JSON."""
        plain: dict[str, Any] = {"ids": self.ids, "titles": self.titles, "texts": self.texts, "fusion": self.fusion}
        plain |= {"shared_seconds": self.shared_seconds}
        for name, split in (("train", self.train), ("test", self.test)):
            plain[name] = {"queries": split.queries, "texts": split.texts}
            _save(folder, name, split, SPLIT_ARRAYS)
        _save(folder, "documents", self, ("tokens", "first_token"))
        _save(folder, "keys", self.keys, ("vectors", "kinds", "doc_indices"))
        _save(folder, "grades", self.grades, ("rows", "doc_indices", "grades"))
        (folder / "plain.json").write_text(json.dumps(plain), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> "Material":
        """Read the files of `save`. Arrays are mapped, so that a peer's memory counts only the pages that it reads."""
        plain = json.loads((folder / "plain.json").read_text(encoding="utf-8"))
        splits: dict[str, Any] = {
            name: Split(**plain.pop(name), **_load(folder, name, SPLIT_ARRAYS)) for name in ("train", "test")
        }
        keys = Keys(**_load(folder, "keys", ("vectors", "kinds", "doc_indices")))
        grades = Grades(**_load(folder, "grades", ("rows", "doc_indices", "grades")))
        tokens = _load(folder, "documents", ("tokens", "first_token"))
        return cls(**plain, **splits, **tokens, keys=keys, grades=grades)


def _save(folder: Path, name: str, holder: object, arrays: Sequence[str]) -> None:
    for array in arrays:
        np.save(folder / f"{name}-{array}.npy", getattr(holder, array), allow_pickle=False)


def _load(folder: Path, name: str, arrays: Sequence[str]) -> dict[str, Any]:
    return {array: np.load(folder / f"{name}-{array}.npy", mmap_mode="r", allow_pickle=False) for array in arrays}
