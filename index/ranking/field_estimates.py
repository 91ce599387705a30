"""What the attended documents say about a field: the distribution of its values under the attention weights.

Nadaraya-Watson regression: the estimate at a query is the average of the values, weighted by attention (Nadaraya 1964;
Watson 1964; d2l.ai 11.2). Sees weights and values, never documents.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.float64]
MOST_VALUES = 20
"""Values of a distribution that are told one by one; the rest are summed."""
LEAST_WEIGHT = 1e-30
"""Of all candidates together; below it float32 rounds their weights."""
QUANTILES = (0.1, 0.5, 0.9)
KINDS = {bool: "boolean", int: "number", float: "number", str: "string"}


def attention_without_null(weights: NDArray[np.floating[Any]], logits: NDArray[np.floating[Any]]) -> Weights:
    """Return the attention (N,) over the candidates alone, which sums to 1, for their weights (N,) and logits (N,).

    Where the null slot leaves nothing that float32 can tell from zero, it is the softmax of the logits.
    """
    total = float(weights.sum(dtype=np.float64))
    if total > LEAST_WEIGHT:
        return weights.astype(np.float64) / total
    shares = np.exp(logits.astype(np.float64) - np.max(logits, initial=-np.inf))
    normalised: Weights = shares / shares.sum() if len(shares) else shares
    return normalised


def predict(weights: Weights, values: Sequence[Any]) -> dict[str, Any]:
    """Return the distribution of a field, for the weights (N,) and the value (N,) that each candidate has, or None.

    The weights sum to 1. A value is a string, a number, a boolean or a list of strings, which shares its document's
    weight out equally; an empty list is no value, and a document without weight has no say. Numbers alone give their
    mean, standard deviation and quantiles. Everything else are categories; so are numbers that share a field with
    other types. Nothing raises.
    """
    given = [(weight, _as_list(value)) for weight, value in zip(weights.tolist(), values, strict=True)]
    given = [(weight, value) for weight, value in given if value and weight > 0]
    covered = np.asarray([weight for weight, _ in given], np.float64)
    coverage = float(covered.sum())
    shares = covered / coverage if given else covered
    lists = [value for _, value in given]
    numbers = bool(lists) and all(KINDS[type(one)] == "number" for each in lists for one in each)
    estimate = _number(shares, [each[0] for each in lists]) if numbers else _categories(shares, lists)
    return estimate | {
        "coverage": min(1.0, coverage),
        "effective_sample_size": effective_sample_size(shares),
        "documents": len(given),
    }


def effective_sample_size(shares: Weights) -> float:
    """Return 1 / sum_n a_n^2 for shares a (N,) that sum to 1 (Kish 1965): N when all are equal, 1 when one has all."""
    squares = float((shares**2).sum())
    return 1.0 / squares if squares > 0 else 0.0


def quantiles(shares: Weights, numbers: Weights, levels: Sequence[float] = QUANTILES) -> list[float]:
    """Return per level p the smallest number (N,) at which the shares (N,) of it and all below it reach p."""
    order = np.argsort(numbers, kind="stable")
    reached = np.cumsum(shares[order])
    doc_indices = np.searchsorted(reached, np.asarray(levels) * reached[-1] - 1e-12)
    found: list[float] = numbers[order][np.minimum(doc_indices, len(numbers) - 1)].tolist()
    return found


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, list):
        return list(dict.fromkeys(value))
    return [] if value is None else [value]


def _number(shares: Weights, values: list[Any]) -> dict[str, Any]:
    numbers = np.asarray(values, np.float64)
    scale = float(np.abs(numbers).max()) or 1.0  # squares of large numbers are beyond a double
    mean = float((shares * (numbers / scale)).sum())
    variance = float((shares * (numbers / scale - mean) ** 2).sum())
    found = quantiles(shares, numbers)
    return {
        "type": "number",
        "mean": mean * scale,
        "standard_deviation": variance**0.5 * scale,
        "quantiles": {str(level): number for level, number in zip(QUANTILES, found, strict=True)},
    }


def _categories(shares: Weights, lists: list[list[Any]]) -> dict[str, Any]:
    """Return the values by weight, ties by value; True, 1 and "1" are three values."""
    total: dict[tuple[str, Any], float] = {}
    for share, each in zip(shares.tolist(), lists, strict=True):
        for value in each:
            name = (KINDS[type(value)], value)
            total[name] = total.get(name, 0.0) + share / len(each)
    best = sorted(total.items(), key=lambda item: (-item[1], *item[0]))
    told = [{"value": value, "weight": min(1.0, weight)} for (_, value), weight in best[:MOST_VALUES]]
    return {
        "type": "categories",
        "distribution": told,
        "other_weight": sum(weight for _, weight in best[MOST_VALUES:]),
    }
