"""The evidence of past queries: the confirmations of a document, each by the nearness of its query, in a logarithm.

Sees numbers of many queries, as arrays or as tensors.
"""

from index.ranking.array_api import Array, namespace, segment_sum


def confirmed(cosine: Array, weight: Array, slot: Array, slots: int, log_sharpness: Array) -> Array:
    """Return sum_i w_i exp(t_m (e . k_i - 1)) over the past queries of each slot (slots,).

    cosine, weight, slot (M,): of each past query that confirms a slot. log_sharpness (): log t_m.
    """
    near = namespace(cosine).exp(namespace(cosine).exp(log_sharpness) * (cosine - 1))
    total: Array = segment_sum((weight * near)[:, None], slot, slots)[:, 0]
    return total


def compressed(total: Array, log_gain: Array) -> Array:
    """Return log(1 + c m) for each sum m of `confirmed`, and -log(1 + c |m|) if it is negative. log_gain (): log c.

    Dislikes that outweigh the likes near a query lower the logit.
    """
    xp = namespace(total)
    evidence: Array = xp.sign(total) * xp.log1p(xp.exp(log_gain) * xp.abs(total))
    return evidence
