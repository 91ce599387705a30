"""The forms of attention written out by hand for one query, one key and one head: plain Python, one loop per sum."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from tests.index.ranking.attention_by_hand import Vector, dot

Matrix = Sequence[Vector]
Values = dict[str, Any]
"""The parameters of one head by name: a matrix (D, R), a vector (R,), or a number."""


def through(vector: Vector, matrix: Matrix) -> list[float]:
    """Return M^T x, one sum per column."""
    return [dot(vector, [row[r] for row in matrix]) for r in range(len(matrix[0]))]


def projected(vector: Vector, up: Matrix, down: Matrix) -> list[float]:
    """Return x + U V^T x."""
    low = through(vector, down)
    return [x + dot(row, low) for x, row in zip(vector, up, strict=True)]


def sides(values: Values, e: Vector, k: Vector) -> tuple[list[float], list[float]]:
    """Return W_q e and W_k k."""
    return projected(e, values["up"], values["down"]), projected(k, values["key_up"], values["key_down"])


def bilinear(values: Values, e: Vector, k: Vector) -> float:
    return dot(projected(e, values["up"], values["down"]), k)


def product(values: Values, e: Vector, k: Vector) -> float:
    return dot(*sides(values, e, k))


def scaled(values: Values, e: Vector, k: Vector) -> float:
    return math.exp(values["log_scale"]) * product(values, e, k) / math.sqrt(len(e))


def cosine(values: Values, e: Vector, k: Vector) -> float:
    q, other = sides(values, e, k)
    return dot(q, other) / (math.sqrt(dot(q, q)) * math.sqrt(dot(other, other)))


def gaussian(values: Values, e: Vector, k: Vector) -> float:
    q, other = sides(values, e, k)
    distance = sum((a - b) ** 2 for a, b in zip(q, other, strict=True))
    return 1 - math.exp(values["log_precision"]) / 2 * distance


def additive(values: Values, e: Vector, k: Vector) -> float:
    of_query, of_key = through(e, values["query_map"]), through(k, values["key_map"])
    hidden = [math.tanh(a + b) for a, b in zip(of_query, of_key, strict=True)]
    return dot(e, k) + dot(values["output"], hidden)


BY_HAND: dict[str, Callable[[Values, Vector, Vector], float]] = {
    "bilinear": bilinear,
    "dot": product,
    "scaled_dot": scaled,
    "cosine": cosine,
    "gaussian": gaussian,
    "additive": additive,
}
