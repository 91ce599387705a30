"""The normalisers of attention: functions from logits to weights, all with the same arguments.

Letters: B queries, N candidate documents. Equations: `docs/math.md`, "Normalisers".
"""

from collections.abc import Callable

from index.ranking import array_api
from index.ranking.array_api import Array, namespace

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
