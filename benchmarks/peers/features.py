"""The features of query-document pairs for the trees of LambdaMART."""

import re
from dataclasses import dataclass, replace

import numpy as np
import Stemmer
from scipy import sparse

from benchmarks.peers.material import SIGNALS, Material, Split
from benchmarks.peers.ranking import best, fused, ranks
from index.records import Floats, Ints
from index.words.query_words import QueryWords
from index.words.term_matching import Matches, find_words, match

RANKED = ("dense", "sentence", "title", "words", "fusion")
COUNTS = ("times judged", "times relevant", "mean grade")
FEATURES = (
    *(*SIGNALS, "fusion"),
    *(f"{name} rank" for name in RANKED),
    *("words share", "title words", "query words", "best words", "best dense"),
    *COUNTS,
)
IN_SEQUENCE = Matches._fields
"""The word signals that our search reads besides FEATURES; the last columns, if included."""


@dataclass(frozen=True)
class Pairs:
    """Candidates of a block of queries: rows in the block and doc indices (M,), values (M, F); fusion (B, N) of all."""

    rows: Ints
    doc_indices: Ints
    values: Floats
    fusion: Floats


class Features:
    """Computes the features of a collection's pairs: FEATURES, then IN_SEQUENCE if included."""

    def __init__(self, material: Material, in_sequence: bool = False) -> None:
        self._material = material
        self._in_sequence = in_sequence
        self._tokens = np.asarray(material.tokens)  # plain views: slicing mapped arrays is slow
        self._first_token = np.asarray(material.first_token)
        self._stemmer = Stemmer.Stemmer("english")
        self._vocabulary: dict[str, int] = {}
        self._title_words = [self._numbers(title) for title in material.titles]
        self._gains = material.gains
        ones = replace(material.grades, grades=np.ones_like(material.grades.grades))
        self._judged = ones.matrix(len(material.train.queries), len(material.ids))
        self._relevant = (self._gains > 0).astype(np.float32)
        self._totals = [np.asarray(one.sum(0)).ravel() for one in (self._judged, self._relevant, self._gains)]

    def of(self, split: Split, block: Ints, depth: int, training: bool) -> Pairs:
        """Return the union of the best `depth` by dense and by words. training: counts exclude own judgments."""
        signals = {name: np.asarray(getattr(split, name)[block]) for name in SIGNALS}
        signals["fusion"] = fused(self._material.fusion, signals["dense"], signals["words"])
        chosen = np.zeros(signals["dense"].shape, bool)
        for name in ("dense", "words"):
            np.put_along_axis(chosen, best(signals[name], depth), True, axis=1)
        rows, doc_indices = np.nonzero(chosen)
        columns = [signals[name][rows, doc_indices] for name in RANKED[:3]]
        columns += [signals["words"][rows, doc_indices], signals["fusion"][rows, doc_indices]]
        columns += [ranks(signals[name])[rows, doc_indices] for name in RANKED]
        top = {name: signals[name].max(1)[rows] for name in ("dense", "words")}
        columns.append(signals["words"][rows, doc_indices] / np.maximum(top["words"], 1e-9))
        texts = [self._numbers(split.texts[row]) for row in block]
        columns.append(self._title_share(texts)[rows, doc_indices])
        columns += [np.asarray([len(words) for words in texts])[rows], top["words"], top["dense"]]
        columns += self._counts(block, rows, doc_indices, training)
        if self._in_sequence:
            columns += self._matches(split, block, rows, doc_indices)
        return Pairs(rows, doc_indices, np.stack(columns, axis=1).astype(np.float32), signals["fusion"])

    def _counts(self, block: Ints, rows: Ints, doc_indices: Ints, training: bool) -> list[Floats]:
        counts = [total[doc_indices] for total in self._totals]
        if training:
            own = (self._judged, self._relevant, self._gains)
            counts = [count - one[block].toarray()[rows, doc_indices] for count, one in zip(counts, own, strict=True)]
        times_judged, times_relevant, grades = counts
        return [times_judged, times_relevant, grades / np.maximum(times_judged, 1)]

    def _matches(self, split: Split, block: Ints, rows: Ints, doc_indices: Ints) -> list[Floats]:
        """Return coverage, proximity and phrase, each (M,); rows (M,) ascending."""
        own = np.split(doc_indices, np.searchsorted(rows, np.arange(1, len(block))))
        found = []
        for row, candidates in zip(block, own, strict=True):
            words = QueryWords.of(*split.asked(row))
            found.append(match(words, find_words(words, self._tokens, self._first_token, candidates)))
        return [np.concatenate(column) for column in zip(*found, strict=True)]

    def _title_share(self, texts: list[Ints]) -> Floats:
        """Return the share (B, N) of each query's distinct words that occur in each title."""
        queries, titles = self._bag(texts), self._bag(self._title_words)
        shared = (queries @ titles.T).toarray()
        share: Floats = shared / np.maximum([[len(words)] for words in texts], 1)
        return share

    def _bag(self, texts: list[Ints]) -> sparse.csr_array:
        starts = np.cumsum([0, *(len(words) for words in texts)])
        words = np.concatenate(texts) if texts else np.empty(0, np.int64)
        return sparse.csr_array((np.ones(len(words), np.float32), words, starts), (len(texts), len(self._vocabulary)))

    def _numbers(self, text: str) -> Ints:
        """Return the distinct stems of a text as numbers."""
        stems = set(self._stemmer.stemWords(re.findall(r"\w+", text.lower())))
        return np.asarray(
            [self._vocabulary.setdefault(stem, len(self._vocabulary)) for stem in sorted(stems)], np.int64
        )
