"""Rankings as arrays: best doc indices, ranks, nDCG@10 of many queries at once, and fixed fusions of two scores."""

from collections.abc import Iterator

import numpy as np

from index.records import Floats, Ints

CUT = 10
WEIGHTS = tuple(round(0.05 * step, 2) for step in range(1, 41))
FORMS = ("cosine", "minmax")


def best(scores: Floats, depth: int) -> Ints:
    """Return the doc indices of the best documents (Q, depth), best first; ties go to the lower doc index."""
    depth = min(depth, scores.shape[1])
    if depth == scores.shape[1]:
        return np.argsort(-scores, axis=1, kind="stable")
    chosen = np.sort(np.argpartition(-scores, depth - 1, axis=1)[:, :depth], axis=1)
    order = np.argsort(-np.take_along_axis(scores, chosen, axis=1), axis=1, kind="stable")
    return np.take_along_axis(chosen, order, axis=1)


def ranks(scores: Floats) -> Ints:
    """Return the rank from 0 of every document (Q, N)."""
    order = np.argsort(-scores, axis=1, kind="stable")
    found = np.empty_like(order)
    np.put_along_axis(found, order, np.arange(scores.shape[1])[None], axis=1)
    return found


class Ndcg:
    """nDCG@10 of scores against gains (Q, N), with the grade itself as gain, as in trec_eval."""

    def __init__(self, gains: Floats) -> None:
        self._gains = gains
        self._discount = (1 / np.log2(np.arange(2, CUT + 2))).astype(np.float32)
        self._ideal = self._sum(np.take_along_axis(gains, best(gains, CUT), axis=1))

    def each(self, scores: Floats) -> Floats:
        """Return the measure of each query (Q,)."""
        return self.of(best(scores, CUT))

    def of(self, doc_indices: Ints) -> Floats:
        """Return the measure of each query (Q,) from ranked doc indices (Q, at least CUT)."""
        found = self._sum(np.take_along_axis(self._gains, doc_indices[:, :CUT], axis=1))
        return np.divide(found, self._ideal, out=np.zeros_like(found), where=self._ideal > 0)

    def mean(self, scores: Floats) -> float:
        """Return the mean over queries."""
        return float(self.each(scores).mean())

    def _sum(self, gains: Floats) -> Floats:
        total: Floats = (gains @ self._discount[: gains.shape[1]]).astype(np.float32)
        return total


def fused(name: str, dense: Floats, words: Floats) -> Floats:
    """Return a fixed fusion by its name, such as `minmax + 0.4 bm25`."""
    form, weight = name.removesuffix(" bm25").split(" + ")
    return _scaled(form, dense) + np.float32(weight) * _share(words)


def fusions(dense: Floats, words: Floats) -> Iterator[tuple[str, Floats]]:
    """Yield every fixed fusion: cosine or min-max dense, plus a weight times BM25 over its maximum."""
    share = _share(words)
    for form in FORMS:
        scaled = _scaled(form, dense)
        for weight in WEIGHTS:
            yield f"{form} + {weight} bm25", scaled + np.float32(weight) * share


def best_fusion(dense: Floats, words: Floats, ndcg: Ndcg) -> tuple[str, float]:
    """Return the fixed fusion with the best mean nDCG@10, and that mean."""
    means = {name: ndcg.mean(scores) for name, scores in fusions(dense, words)}
    chosen = max(means, key=lambda name: means[name])
    return chosen, means[chosen]


def _scaled(form: str, dense: Floats) -> Floats:
    if form == "cosine":
        return dense
    low, high = dense.min(1, keepdims=True), dense.max(1, keepdims=True)
    scaled: Floats = (dense - low) / np.maximum(high - low, 1e-9)
    return scaled


def _share(words: Floats) -> Floats:
    share: Floats = words / np.maximum(words.max(1, keepdims=True), 1e-9)
    return share
