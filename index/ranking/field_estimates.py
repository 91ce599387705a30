"""Estimates of a field at a query: the distribution of its values under the attention weights.

This is Nadaraya-Watson regression: the average of the values, weighted by attention (Nadaraya 1964; Watson 1964; d2l.ai
11.2). Sees weights and values, never documents.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.float64]
MOST_VALUES = 20
"""Values that a distribution lists; the weights of all others are summed."""
LEAST_WEIGHT = 1e-30
"""Total weight of the candidates below which float32 weights are too imprecise."""
QUANTILES = (0.1, 0.5, 0.9)
KINDS = {bool: "boolean", int: "number", float: "number", str: "string"}


def attention_without_null(weights: NDArray[np.floating[Any]], logits: NDArray[np.floating[Any]]) -> Weights:
    """Return the weights (N,) of the candidates without the null slot, which sum to 1.

    weights (N,) and logits (N,) are those of the candidates. Weights that sum to at most LEAST_WEIGHT are replaced by
    the softmax of the logits.
    """
    total = float(weights.sum(dtype=np.float64))
    if total > LEAST_WEIGHT:
        return weights.astype(np.float64) / total
    shares = np.exp(logits.astype(np.float64) - np.max(logits, initial=-np.inf))
    normalised: Weights = shares / shares.sum() if len(shares) else shares
    return normalised


def predict(weights: Weights, values: Sequence[Any]) -> dict[str, Any]:
    """Return the distribution of a field for weights (N,) that sum to 1 and values (N,), None for a missing value.

    A value is a string, a number, a boolean or a list of these; the values of a list share the weight of their
    document equally. An empty list counts as a missing value, and documents of weight 0 are ignored. A field with only
    numbers gives their mean, standard deviation and quantiles. All other fields, mixed types included, give categories.
    Raises nothing.
    """
    given = [(weight, _as_list(value)) for weight, value in zip(weights.tolist(), values, strict=True)]
    given = [(weight, value) for weight, value in given if value and weight > 0]
    covered = np.asarray([weight for weight, _ in given], np.float64)
    coverage = float(covered.sum())
    shares = covered / coverage if given else covered
    lists = [value for _, value in given]
    numbers = bool(lists) and all(KINDS[type(item)] == "number" for items in lists for item in items)
    estimate = _number(*_each(shares, lists)) if numbers else _categories(shares, lists)
    return estimate | {
        "coverage": min(1.0, coverage),
        "effective_sample_size": effective_sample_size(shares),
        "documents": len(given),
    }


def effective_sample_size(shares: Weights) -> float:
    """Return 1 / sum_n a_n^2 for shares a (N,) that sum to 1 (Kish 1965): N if all are equal, 1 if one share is 1."""
    squares = float((shares**2).sum())
    return 1.0 / squares if squares > 0 else 0.0


def quantiles(shares: Weights, numbers: Sequence[float], levels: Sequence[float] = QUANTILES) -> list[float]:
    """Return for each level p the smallest of the numbers (N,) whose cumulative share reaches p, as it is given.

    An integer stays an integer: a double does not have every integer beyond 2^53.
    """
    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    cumulative = np.cumsum(shares[order])
    ranks = np.searchsorted(cumulative, np.asarray(levels) * cumulative[-1] - 1e-12)
    return [numbers[order[rank]] for rank in np.minimum(ranks, len(order) - 1).tolist()]


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, list):
        return list({(KINDS[type(one)], one): one for one in value}.values())
    return [] if value is None else [value]


def _each(shares: Weights, lists: list[list[Any]]) -> tuple[Weights, list[Any]]:
    """Return the share and the value of each element of the lists."""
    lengths = [len(items) for items in lists]
    return np.repeat(shares / lengths, lengths), [item for items in lists for item in items]


def _number(shares: Weights, values: list[Any]) -> dict[str, Any]:
    numbers = np.asarray(values, np.float64)
    scale = float(np.abs(numbers).max()) or 1.0  # the squares of large numbers overflow a double
    mean = float((shares * (numbers / scale)).sum())
    variance = float((shares * (numbers / scale - mean) ** 2).sum())
    found = quantiles(shares, values)
    return {
        "type": "number",
        "mean": mean * scale,
        "standard_deviation": variance**0.5 * scale,
        "quantiles": {str(level): number for level, number in zip(QUANTILES, found, strict=True)},
    }


def _categories(shares: Weights, lists: list[list[Any]]) -> dict[str, Any]:
    """Return the values by weight, ties by value; True, 1 and "1" are three different values."""
    total: dict[tuple[str, Any], float] = {}
    for share, items in zip(shares.tolist(), lists, strict=True):
        for value in items:
            name = (KINDS[type(value)], value)
            total[name] = total.get(name, 0.0) + share / len(items)
    best = sorted(total.items(), key=lambda item: (-item[1], *item[0]))
    return {
        "type": "categories",
        "distribution": [{"value": value, "weight": min(1.0, weight)} for (_, value), weight in best[:MOST_VALUES]],
        "other_weight": sum(weight for _, weight in best[MOST_VALUES:]),
    }
