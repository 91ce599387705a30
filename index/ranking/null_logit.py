"""The logit of the null slot, which says that no candidate answers the query."""

from index.ranking.array_api import Array, logsumexp, namespace


def null_logit(null: Array, scores: Array) -> Array:
    """Return (B,) L + offset - slope L - peak p for L = logsumexp of the scores (B, N).

    null (3,): offset, slope and peak. p is the largest weight among the candidates without the null slot. The weight of
    the null slot is then sigmoid(offset - slope L - peak p), as `learning.null_calibration.fit_null` fits it. Without
    candidates it is 1.
    """
    xp = namespace(scores)
    offset, slope, peak = null[0], null[1], null[2]
    if not scores.shape[1]:
        return xp.sum(scores, axis=1) + offset
    total = logsumexp(scores)
    found = xp.isfinite(total)
    total = xp.where(found, total, 0.0)
    largest = xp.where(found, xp.exp(xp.max(scores, axis=1) - total), 0.0)
    return offset + (1 - slope) * total - peak * largest
