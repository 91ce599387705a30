"""Recommendation: one attention in which an item is the query, and the documents that a user liked are keys and values.

Sees the values of one generation, and of the model only its temperature and its null slot; no query text and no words.
The query projection of a model is trained for queries and plays no part.

Letters: N candidate documents, L liked documents, M disliked documents, V value width.

    like_n    = v_n . sum_l softmax(tau v_n . v_l)_l v_l          the soft maximum of the cosines to the liked documents
    dislike_n = the same over the disliked documents, 0 without any
    logit_n   = T (like_n - f max(0, dislike_n - like_n))

A dislike counts only where a document is nearer to the disliked than to the liked documents. Disliked documents are
often near to the liked documents, so a penalty for the nearness itself pushes the best documents away
(docs/experiments.md).

Source: Zhou et al. 2018 (attention of an item over the history of a user); d2l.ai 11.1 (queries, keys and values).
"""

from dataclasses import dataclass, field

import numpy as np

from index.candidates.inner_products import row_products
from index.generation.generation import Generation
from index.ranking.array_api import softmax
from index.ranking.attention import AttentionHead
from index.ranking.search import Ranked
from index.records import Floats, Ints, Mask

PARTS = ("like", "dislike")
"""The parts of the logit of a recommended document, in the order of the last axis of `Ranked.parts`."""
SHARPNESS = 2.0
"""tau: how much the nearest liked documents count more than the others (docs/performance/recommend.md)."""
AVERSION = 1.0
"""f: how much it counts that a document is nearer to the disliked than to the liked documents."""
LEAST_EACH = 20
"""Least number of candidates near each liked document."""


@dataclass(frozen=True)
class Taste:
    """The doc indices of the documents that a user liked (L,) and disliked (M,)."""

    liked: Ints
    disliked: Ints = field(default_factory=lambda: np.empty(0, np.int64))


@dataclass(frozen=True)
class TasteShare:
    """A liked or disliked document in an explanation: its cosine to the hit and its share of the part."""

    part: str
    doc_index: int
    cosine: float
    share: float


def pooled(cosines: Floats, sharpness: float) -> tuple[Floats, Floats]:
    """Return the soft maximum (N,) of cosines (N, L), and the shares (N, L) of the liked documents.

    It is the mean of the cosines for sharpness 0, and tends to the largest of them as sharpness grows. The shares of a
    candidate sum to 1. Without liked documents the evidence is 0.
    """
    if not cosines.shape[1]:
        return np.zeros(len(cosines), np.float32), cosines
    shares: Floats = softmax(np.float32(sharpness) * cosines)
    evidence: Floats = (shares * cosines).sum(axis=1)
    return evidence, shares


def recommend(
    generation: Generation,
    head: AttentionHead,
    taste: Taste,
    count: int,
    allowed: Mask | None = None,
    sharpness: float = SHARPNESS,
    aversion: float = AVERSION,
) -> Ranked:
    """Return the documents near the liked and far from the disliked documents, without both.

    count: the least number of candidates, if there are so many. allowed (N,) bool: None allows all. A liked document
    without a value, because its vector is not made yet, gives no evidence; without any value there is no candidate.
    """
    liked, disliked = _stored_values(generation, taste.liked), _stored_values(generation, taste.disliked)
    passing = generation.alive.copy() if allowed is None else allowed & generation.alive
    passing[taste.liked] = passing[taste.disliked] = False
    found = _near(generation, liked, count, passing)
    values = generation.value_vectors(found)
    like, _ = pooled(row_products(values, liked), sharpness)
    dislike, _ = pooled(row_products(values, disliked), sharpness)
    nearer = np.maximum(dislike - like, 0) if len(disliked) else np.zeros_like(like)
    factor = np.exp(head.log_inverse_temperature)
    parts = factor * np.column_stack([like, np.float32(-aversion) * nearer])
    logits, weights = head.weighed(parts.sum(axis=1)[None], np.ones((1, len(found)), np.bool_))
    order = generation.best_first(found, logits[0, :-1])
    return Ranked(
        doc_indices=found[order],
        logits=logits[0, :-1][order],
        weights=weights[0, :-1][order],
        parts=parts[order],
        null_weight=float(weights[0, -1]),
        temperature=float(1 / factor),
    )


def explain_taste(generation: Generation, taste: Taste, doc_index: int) -> list[TasteShare]:
    """Return the liked and the disliked documents with their shares of the parts of a document, the largest first."""
    value = generation.value_vectors(np.asarray([doc_index]))
    found: list[TasteShare] = []
    for part, doc_indices in zip(PARTS, (taste.liked, taste.disliked), strict=True):
        known = doc_indices[generation.value_vectors(doc_indices).any(axis=1)]
        cosines = row_products(value, generation.value_vectors(known))
        columns = known, cosines[0], pooled(cosines, SHARPNESS)[1][0]
        rows = zip(*(column.tolist() for column in columns), strict=True)
        found += [TasteShare(part, *row) for row in sorted(rows, key=lambda row: (-row[2], row[0]))]
    return found


def _stored_values(generation: Generation, doc_indices: Ints) -> Floats:
    """Return the values (n, V) of these documents, without documents whose vectors are not made yet."""
    values = generation.value_vectors(doc_indices)
    known: Floats = values[values.any(axis=1)]
    return known


def _near(generation: Generation, liked: Floats, count: int, passing: Mask) -> Ints:
    """Return the doc indices (N,), ascending, of passing documents with keys near a liked value or near their mean.

    The mean finds documents that are near to many liked documents and nearest to none. It gets `count` candidates, so
    that there are at least so many; the liked documents share as many.
    """
    if not len(liked):
        return np.empty(0, np.int64)
    found = generation.nearest(liked.mean(axis=0, keepdims=True), count, passing)
    if len(liked) > 1:
        found += generation.nearest(liked, max(LEAST_EACH, -(-count // len(liked))), passing)
    return np.unique(np.concatenate(found))
