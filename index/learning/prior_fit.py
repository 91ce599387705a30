"""Fits the priors of documents: a bias of each document in the softmax, beyond the logits of a head.

With the logits l, the log propensities r and the shares y of the gains of a query, and the centred columns x of the
metadata (`field_effects`), the biases b of documents and the effects w of fields minimise the convex

    sum_q c_q [-sum_n y_qn log softmax_n(s l_qn + e r_qn + b_n + x_n w)] + penalty / 2 (sum_n b_n^2 + sum_j w_j^2)

over b, w, s and e. This is the listwise loss of training with a bias of its own for each document and each category:
random effects with a normal prior (Robinson 1991). What documents with a category have in common is cheaper as its
effect, which new documents have too. c_q grows with the number of clicks, because the shares of few clicks are mostly
chance.

s and e have no penalty. s is the sharpness of the logits: people choose less surely than a head is sure, and beside too
large differences of logits all that people prefer seems small. b / s and w / s are served, which add to l as b and w do
to s l; a larger s than 1 counts as 1. e corrects the estimated examination curve: in a log whose lists were ordered by
a field, a curve that is too steep or too flat would be taken for an effect of the field.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, minimize

from index.generation.generation import Generation
from index.learning.examples import Example, Feedback, make_batch
from index.learning.field_effects import LEAST, NO_COLUMNS, CentredColumns, DocumentColumns
from index.ranking.attention import AttentionHead
from index.ranking.priors import Hashes, Priors, bounded, document_hashes, no_priors
from index.records import Floats, Mask

HALF_CLICKS = 5.0
"""Clicks on a query with which it weighs half of a query with many."""
MOST_DOCUMENTS = 100_000
"""Most documents with a prior: those with the largest. 1.2 MB of a model file."""
LEAST_SHARPNESS = 0.25
"""The least s. Logits that say nothing would have 0, and priors without a bound."""
BATCH = 64
STEPS = 100
"""Most steps of L-BFGS."""


@dataclass(frozen=True)
class Residuals:
    """The candidates of queries under a head, flat (M,), with the queries' counts and weights (Q,).

    documents: hashes of the ids. is_known: whether the document was chosen, or shown in a log of clicks, on any of the
    queries. Other documents have no bias: the absence of choices does not lower a new document. logits: less the
    largest of the query. propensities: their logarithms; 0 for judged queries. shares: of the gains; they sum to 1 per
    query. effects: the columns of the metadata of documents that could be chosen. Those are the known ones for a query
    with clicks, and those that are not newer than the feedback for a judged query. Others have effects of 0 in the fit.
    """

    documents: Hashes
    is_known: Mask
    logits: NDArray[np.float64]
    propensities: NDArray[np.float64]
    shares: NDArray[np.float64]
    counts: NDArray[np.int64]
    weights: NDArray[np.float64]
    columns: DocumentColumns
    effects: CentredColumns

    @classmethod
    def of(
        cls,
        generation: Generation,
        examples: Sequence[Example],
        logits: Sequence[Floats],
        columns: DocumentColumns = NO_COLUMNS,
        newer: Set[int] = frozenset(),
    ) -> "Residuals":
        """Return the candidates of the examples with a gain, whose logits (N,) are given.

        newer: the rows of the documents that were first stored after all documents that the feedback names.
        """
        pairs = [(one, own) for one, own in zip(examples, logits, strict=True) if one.gains.any()]
        rows = np.asarray(sorted({row for one, _ in pairs for row in _chosen_or_shown(one.feedback)}), np.int64)
        none = np.empty(0)
        places = np.concatenate([np.empty(0, np.int64), *(one.candidates.doc_indices for one, _ in pairs)])
        found = generation.rows[places]
        is_known, is_newer = np.isin(found, rows), np.isin(found, np.asarray(sorted(newer), np.int64))
        is_clicked = np.repeat([one.feedback.shown is not None for one, _ in pairs], [len(own) for _, own in pairs])
        could_be_chosen = np.where(is_clicked, is_known, ~is_newer)
        return cls(
            np.concatenate([np.empty(0, np.uint64), *(hashes_of(one) for one, _ in pairs)]),
            is_known,
            np.concatenate([none, *(own.astype(np.float64) - own.max() for _, own in pairs)]),
            np.concatenate([none, *(one.log_propensity.astype(np.float64) for one, _ in pairs)]),
            np.concatenate([none, *(one.gains / one.gains.sum(dtype=np.float64) for one, _ in pairs)]),
            np.asarray([len(own) for _, own in pairs], np.int64),
            np.asarray([_weight(one) for one, _ in pairs], np.float64),
            columns,
            CentredColumns(columns, places, could_be_chosen),
        )


def _chosen_or_shown(feedback: Feedback) -> set[int]:
    """Return the rows that have a gain or an impression. A grade of 0 or less is no gain, as in the loss."""
    return {row for row, gain in feedback.gains.items() if gain > 0} | set(feedback.shown or ())


def hashes_of(example: Example) -> Hashes:
    """Return the hashes (N,) of the ids of the candidates."""
    assert example.candidates.id_order is not None
    return document_hashes(example.candidates.id_order)


def _weight(example: Example) -> float:
    """Return c of a query: its confidence, and for clicks times n / (n + HALF_CLICKS)."""
    confidence = float(example.feedback.confidence)
    if example.feedback.shown is None:
        return confidence
    clicks = float(example.gains.sum())
    return confidence * clicks / (clicks + HALF_CLICKS)


def candidate_logits(generation: Generation, head: AttentionHead, examples: Sequence[Example]) -> list[Floats]:
    """Return the logits (N,) of the candidates of each example under a head."""
    found: list[Floats] = []
    for start in range(0, len(examples), BATCH):
        part = examples[start : start + BATCH]
        batch = make_batch(generation, part, with_values=head.hops, with_fields=bool(head.priors.fields))
        logits = np.asarray(head(batch.query, batch.candidates).logits)
        found += [row[: len(one.gains)] for row, one in zip(logits, part, strict=True)]
    return found


@dataclass(frozen=True)
class Minimum:
    """What minimises the loss: biases (P,) of the known documents (P,), effects (W,) of the columns, s and e."""

    documents: Hashes
    biases: NDArray[np.float64]
    effects: NDArray[np.float64]
    sharpness: float
    examination: float


def minimum(residuals: Residuals, penalty: float) -> Minimum:
    """Return what minimises the loss of the residuals of at least one query."""
    documents, places = np.unique(residuals.documents[residuals.is_known], return_inverse=True)
    at = np.full(len(residuals.documents), len(documents))  # the place after the last is of the others
    at[residuals.is_known] = places
    start = np.cumsum(residuals.counts) - residuals.counts
    query = np.repeat(np.arange(len(residuals.counts)), residuals.counts)
    weight = residuals.weights[query]
    count, effects = len(documents), residuals.effects
    free = np.stack([residuals.logits, residuals.propensities])
    penalties = np.append(np.full(count + len(effects.means), penalty), [0.0, 0.0])

    def loss(fitted: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        biases, coefficients = fitted[:count], fitted[count:-2]
        logits = fitted[-2:] @ free + np.append(biases, 0.0)[at] + effects @ coefficients
        logits -= np.maximum.reduceat(logits, start)[query]
        scores = np.exp(logits)
        sums = np.add.reduceat(scores, start)
        chances = scores / sums[query]
        losses = np.log(sums) - np.add.reduceat(residuals.shares * logits, start)
        pull = weight * (chances - residuals.shares)
        gradient = np.concatenate([np.bincount(at, pull, count + 1)[:-1], effects.gradient(pull), free @ pull])
        return float(residuals.weights @ losses + penalties @ fitted**2 / 2), gradient + penalties * fitted

    first, least = np.append(np.zeros(len(penalties) - 2), [1.0, 1.0]), np.full(len(penalties), -np.inf)
    least[-2] = LEAST_SHARPNESS
    found = minimize(loss, first, jac=True, method="L-BFGS-B", bounds=Bounds(lb=least), options={"maxiter": STEPS}).x
    return Minimum(documents, found[:count], found[count:-2], float(found[-2]), float(found[-1]))


def fit_priors(residuals: Residuals, penalty: float) -> Priors:
    """Return the priors of the documents. The same residuals and penalty give the same bits on one machine."""
    if not len(residuals.counts):
        return no_priors()
    found, effects = minimum(residuals, penalty), residuals.effects
    sharpness = min(1.0, found.sharpness)
    values = bounded((found.biases / sharpness).astype(np.float32))
    largest = np.argsort(-np.abs(values), kind="stable")[:MOST_DOCUMENTS]
    kept = np.sort(largest[np.abs(values[largest]) >= LEAST])
    fields = residuals.columns.columns.priors(effects.uncentred(found.effects / sharpness), effects.means)
    return Priors(found.documents[kept], values[kept], fields)
