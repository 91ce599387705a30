"""LambdaMART with counts of clicks for each query and document, beside all signals of our search.

Counts of the clicks that the labels were made from reveal the labels. The labels of training can therefore come from
the later half of a log (`later`), and the counts from the earlier half. Test queries have the counts of the whole log,
which are 0 for a query that the log lacks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.peers import Task
from benchmarks.peers.features import FEATURES, IN_SEQUENCE, Features, Pairs
from benchmarks.peers.lambdamart import LambdaMart
from benchmarks.peers.material import Material, Split
from index.learning.examples import Feedback, Showings, expected_examinations
from index.memory.query_key import as_query_key
from index.records import Floats, Ints

CLICK_COUNTS = ("clicks", "share of clicks", "clicks per impression", "clicks per examination")


class Counted(LambdaMart):
    """Reranks with all signals of our search and CLICK_COUNTS."""

    system = "lambdamart, counts"
    columns = (*FEATURES, *IN_SEQUENCE, *CLICK_COUNTS)

    def __init__(self, material: Material, task: Task, train: Floats, test: Floats) -> None:
        """train and test: CLICK_COUNTS (Q, N, len(CLICK_COUNTS)) of the queries of both splits."""
        super().__init__(material, task)
        self._features = CountedFeatures(material, train, test)


class CountedFeatures(Features):
    """The features of `benchmarks.peers.features`, and counts of clicks as the last columns."""

    def __init__(self, material: Material, train: Floats, test: Floats) -> None:
        super().__init__(material, in_sequence=True)
        self._train, self._test = train, test

    def of(self, split: Split, block: Ints, depth: int, training: bool) -> Pairs:
        """Return the candidates of a block of queries with their features."""
        pairs = super().of(split, block, depth, training)
        counts = (self._train if split is self._material.train else self._test)[block]
        return replace(pairs, values=np.concatenate([pairs.values, counts[pairs.rows, pairs.doc_indices]], axis=1))


def click_counts(feedback: Sequence[Feedback], curve: Floats, texts: Sequence[str], rows: Ints) -> Floats:
    """Return CLICK_COUNTS (Q, N, len(CLICK_COUNTS)) of queries with these texts; rows (N,): the documents."""
    by_key = {one.query_key: one for one in feedback}
    doc_index = {row: at for at, row in enumerate(rows.tolist())}
    found = np.zeros((len(texts), len(rows), len(CLICK_COUNTS)), np.float32)
    for at, text in enumerate(texts):
        one = by_key.get(as_query_key(text))
        for row, impressions in ((one and one.shown) or {}).items():
            assert one is not None
            clicks = sum((one.clicks or {}).get(row, {}).values())
            shown, examined = sum(impressions.values()), expected_examinations(impressions, curve)
            found[at, doc_index[row]] = (np.log1p(clicks), clicks, clicks / (shown + 1), clicks / (examined + 1))
    found[..., 1] /= np.maximum(found[..., 1].sum(axis=1, keepdims=True), 1)
    return found


def later(whole: Sequence[Feedback], earlier: Sequence[Feedback]) -> list[Feedback]:
    """Return the feedback of the part of a log that follows its earlier part."""
    before = {one.query_key: one for one in earlier}
    return [_without(one, before[one.query_key]) if one.query_key in before else one for one in whole]


def _without(one: Feedback, earlier: Feedback) -> Feedback:
    gains = {row: gain - earlier.gains.get(row, 0.0) for row, gain in one.gains.items()}
    shown, clicks = _less(one.shown or {}, earlier.shown or {}), _less(one.clicks or {}, earlier.clicks or {})
    return replace(one, gains={row: gain for row, gain in gains.items() if gain > 0}, shown=shown, clicks=clicks)


def _less(whole: Showings, earlier: Showings) -> Mapping[int, Mapping[int, int]]:
    """Return the differences of the counts, without zeros."""
    left = {
        row: {position: count - earlier.get(row, {}).get(position, 0) for position, count in by.items()}
        for row, by in whole.items()
    }
    kept = {row: {position: count for position, count in by.items() if count} for row, by in left.items()}
    return {row: by for row, by in kept.items() if by}
