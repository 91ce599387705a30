"""The normalisers of attention, functions from logits to weights with the same arguments, and pooling by weights.

Letters: B queries, N candidate documents. Equations: `docs/math.md`, "Normalisers".
"""

from collections.abc import Callable

from index.ranking import array_api
from index.ranking.array_api import Array, namespace, segment_max, segment_sum

Normaliser = Callable[[Array, Array], Array]
"""(logits (B, N+1), mask (B, N+1) bool, True = a candidate or the null slot) -> weights (B, N+1) >= 0, rows sum to 1.

Each row of the mask has at least one True. Where the mask is False, the logit is ignored and the weight is 0.
"""


def softmax(logits: Array, mask: Array) -> Array:
    """Return exp(logit) over its sum by row: soft attention, the only normaliser with a gradient."""
    return array_api.softmax(masked(logits, mask))


def one_hot(logits: Array, mask: Array) -> Array:
    """Return weight 1 on the largest logit, the first among equals. Softmax tends to it as T -> inf."""
    xp = namespace(logits)
    best = xp.argmax(masked(logits, mask), axis=1)
    return xp.astype(xp.arange(logits.shape[1])[None, :] == best[:, None], logits.dtype)


def uniform(logits: Array, mask: Array) -> Array:
    """Return equal weights: average pooling. Softmax tends to it as T -> 0."""
    xp = namespace(logits)
    share = xp.astype(mask, logits.dtype)
    return share / xp.sum(share, axis=1, keepdims=True)


def masked(logits: Array, mask: Array) -> Array:
    """Return the logits, with -inf where the mask (B, N) is False."""
    return namespace(logits).where(mask, logits, -float("inf"))


NORMALISERS: dict[str, Normaliser] = {"softmax": softmax, "one_hot": one_hot, "uniform": uniform}
"""The normalisers by their names in settings."""


def soft_maximum(scores: Array, segment: Array, segments: int, sharpness: Array | float) -> tuple[Array, Array]:
    """Return sum_i softmax(tau s)_i s_i per segment (segments, H), 0 if it is empty, and a mask of non-empty segments.

    scores (P, H); segment (P,) int64; sharpness tau, a scalar or (P, 1). This is attention over the keys of a document.
    The result is at most the best score, and tends to it as tau grows. Repeated keys do not change it, so that a
    document gains nothing by its length alone; log-sum-exp lacks this property (decision 0002).
    """
    xp = namespace(scores)
    weight = xp.exp(sharpness * (scores - segment_max(scores, segment, segments)[segment]))
    total = segment_sum(weight, segment, segments)
    pooled = segment_sum(weight * scores, segment, segments)
    return pooled / xp.where(total == 0, 1.0, total), total[:, 0] > 0


def pool_values(weights: Array, values: Array) -> Array:
    """Return the answer sum_n alpha_n v_n (B, V) for weights (B, N) or (B, N+1), null slot last, and values (B, N, V).

    The value of the null slot is zero: a higher null weight gives a shorter answer vector (d2l.ai 11.1, eq. 11.1.1).
    """
    return (weights[:, None, : values.shape[1]] @ values)[:, 0]
