"""Array functions that attention needs beyond the array API standard, for numpy and for torch.

Searches use numpy and training uses torch, so that the formula of attention is written once. The standard has products,
sums and exponentials; it lacks reductions by segment and a softmax that does not overflow.

Source: the Python array API standard, 2024.12. Letters: P values, S segments, H columns.
"""

from typing import Any

import numpy as np

from index.candidates import inner_products

Array = Any
"""A numpy array or a torch tensor; functions return the type of their arguments."""


def namespace(array: Array) -> Any:
    """Return the module whose functions work on this array: numpy, or the array API wrapper of torch."""
    if isinstance(array, np.ndarray | np.generic):
        return np
    import array_api_compat.torch  # here: a process that only searches never imports torch

    return array_api_compat.torch


def number(scalar: Array) -> float:
    """Return a scalar as a Python float, without its gradient."""
    return float(scalar.detach()) if hasattr(scalar, "detach") else float(scalar)


def softmax(logits: Array) -> Array:
    """Return the softmax of each row (B, N). Each row needs a finite logit."""
    xp = namespace(logits)
    if xp is not np:
        return logits.softmax(dim=-1)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def logsumexp(logits: Array) -> Array:
    """Return the log-sum-exp of each row: (B,) for (B, N), N > 0; -inf if all logits are -inf."""
    if namespace(logits) is not np:
        return logits.logsumexp(dim=-1)
    largest = logits.max(axis=-1)
    shift = np.where(np.isfinite(largest), largest, np.float32(0))
    with np.errstate(divide="ignore"):
        return np.log(np.exp(logits - shift[:, None]).sum(axis=-1)) + shift


def pair_products(projected: Array, keys: Array, pair_query: Array, pair_key: Array) -> Array:
    """Return q_h . k (P, H) for pairs of projected queries (B, H, D) and keys (K, D): see `inner_products`."""
    if namespace(keys) is np:
        return inner_products.pair_products(projected, keys, pair_query, pair_key)
    from index.ranking.pair_gradient import PairProducts

    return PairProducts.apply(projected, keys, pair_query, pair_key)  # type: ignore[no-untyped-call]


def project_rows(rows: Array, matrices: Array) -> Array:
    """Return rows @ matrices (H, K, R) for rows (1 or H, K, D) and matrices (H, D, R).

    numpy sums each row separately, so that the bits of a key's projection do not depend on the other keys.
    """
    if namespace(rows) is not np:
        return rows @ matrices
    by_head = np.broadcast_to(rows, (len(matrices), *rows.shape[1:]))
    pairs = zip(by_head, matrices, strict=True)
    return np.stack([inner_products.row_products(head_rows, matrix.T) for head_rows, matrix in pairs])


def segment_sum(values: Array, segment: Array, segments: int) -> Array:
    """Return the sums (S, H) of the values (P, H) of each segment (P,) in [0, S); 0 for an empty segment."""
    if namespace(values) is not np:
        return values.new_zeros((segments, *values.shape[1:])).index_add(0, segment, values)
    return _reduced(np.add, values, segment, segments, 0)


def segment_max(values: Array, segment: Array, segments: int) -> Array:
    """Return the largest values (S, H) of each segment (P,) of values (P, H); -inf for an empty segment.

    It has no gradient: a constant subtracted from all logits does not change their softmax.
    """
    if namespace(values) is not np:
        index = segment[:, None].expand(-1, values.shape[1])
        return values.new_full((segments, values.shape[1]), -np.inf).scatter_reduce(0, index, values.detach(), "amax")
    return _reduced(np.maximum, values, segment, segments, -np.inf)


def _reduced(ufunc: np.ufunc, values: Array, segment: Array, segments: int, empty: float) -> Array:
    reduced = np.full((segments, *values.shape[1:]), empty, values.dtype)
    if len(segment):
        if (segment[1:] < segment[:-1]).any():
            order = np.argsort(segment, kind="stable")
            segment, values = segment[order], values[order]
        starts = np.append(0, np.flatnonzero(segment[1:] != segment[:-1]) + 1)
        reduced[segment[starts]] = ufunc.reduceat(values, starts, axis=0)
    return reduced
