"""The map from the queries of a collection to its weight of words, as the benchmark `day_one` learns it.

For each set: the weight of words that its judgments prefer, and the mean contrast of its queries, which needs no
judgment. A line through these points of other sets gives the weight of a set whose judgments are unknown.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from index.generation.generation import Generation
from index.learning.examples import Feedback, make_batch, make_example
from index.learning.from_documents import LENGTH_SLOPE, Balance, mean_cosine
from index.ranking.attention import COVERAGE, DENSE, LENGTH, PASSAGE, AttentionHead, HeadConfig
from index.records import LEXICAL

QUERIES = 500
"""Train queries of a set that the map is learned from, at most."""
CANDIDATES = 200
BOUNDS = (-3.0, 6.0)
"""Bounds of the logarithm of a fitted scale."""
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Point:
    """A set: the logarithm of its preferred weight of words, 0 for the weight of version 0, and its mean contrast."""

    log_weight: float
    contrast: float


def point_of(generation: Generation, feedback: Sequence[Feedback]) -> Point:
    """Return the point of a set from its train queries and their judgments. The generation has no memory."""
    mean = mean_cosine(generation)
    found = [_evidence(generation, one, mean) for one in feedback]
    scales = _preferred([(dense, words, relevant) for dense, words, relevant, _ in found if relevant.any()])
    return Point(float(scales[1] - scales[0]), float(np.mean([contrast for *_, contrast in found])))


def learned_map(points: Sequence[Point]) -> Balance:
    """Return the map through the points of some sets, by least squares."""
    design = np.asarray([[1.0, -point.contrast] for point in points])
    constant, slope = np.linalg.lstsq(design, np.asarray([point.log_weight for point in points]), rcond=None)[0]
    return Balance(float(constant), float(slope))


def _evidence(generation: Generation, one: Feedback, mean: float) -> tuple[Array, Array, NDArray[np.bool_], float]:
    """Return dense and word evidence (N,) weighted as in version 0, which documents are relevant, and the contrast."""
    config = HeadConfig(generation.dim)
    head = AttentionHead(config)
    example = make_example(generation, one, head.search_vectors(one.vector[None])[0], CANDIDATES)
    batch = make_batch(generation, [example])
    dense, words = head.dense(batch.query, batch.candidates)[0], batch.candidates.words[0]
    beta = np.asarray(config.beta)
    passage = (float(dense[:, PASSAGE].max()) - mean) / (1 - mean)
    length = float(batch.candidates.facts[0, LENGTH])
    contrast = passage - float(words[:, COVERAGE].max()) - LENGTH_SLOPE * (length - 0.5)
    return dense @ beta[:DENSE], words @ beta[DENSE : DENSE + len(LEXICAL)], example.gains > 0, contrast


def _preferred(queries: Sequence[tuple[Array, Array, NDArray[np.bool_]]]) -> Array:
    """Return the logarithms of the scales of dense and word evidence with the greatest likelihood of the judgments.

    Each relevant document has the same share of the probability of its query; the candidates share a softmax.
    """

    def loss(theta: Array) -> tuple[float, Array]:
        total, gradient = 0.0, np.zeros(2)
        for dense, words, relevant in queries:
            logits = np.exp(theta[0]) * dense + np.exp(theta[1]) * words
            logits = logits - logits.max()
            share = np.exp(logits) / np.exp(logits).sum()
            wanted = relevant / relevant.sum()
            total -= float(wanted @ (logits - np.log(np.exp(logits).sum())))
            gradient -= np.exp(theta) * [float((wanted - share) @ dense), float((wanted - share) @ words)]
        return total / len(queries), gradient / len(queries)

    start = np.log([HeadConfig.inverse_temperature] * 2)
    found: Array = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[BOUNDS] * 2).x
    return found
