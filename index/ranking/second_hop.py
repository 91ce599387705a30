"""The second hop: the answer of attention moves the query, through a learned projection of the values.

    e' = e + g W_v answer,   W_v = 1 + A B^T,   answer = sum_n p_n v_n

g is the parameter `hop` of a head, initially 0; A and B are its parameters `value_up`, initially 0, and `value_down`. A
head without value projection has W_v = 1. The stored values never change: training changes A and B only.

Source: Rocchio 1971 (a query moves towards documents); Sukhbaatar et al. 2015 (several hops of attention); Hu et al.
2021 (a change of low rank). Letters: B queries, N candidate documents, D key width, V value width, which is D, R rank.
"""

import math

import numpy as np

from index.ranking.array_api import Array, namespace
from index.ranking.normalisers import Normaliser, pool_values
from index.records import Floats

UP, DOWN = "value_up", "value_down"
"""The names of A (D, R) and B (V, R) among the parameters of a head."""


def initial_projection(dim: int, rank: int, seed: int) -> dict[str, Floats]:
    """Return A = 0 and B ~ N(0, 1/D) by name: W_v is 1 and A has a gradient. A rank of 0 has no projection."""
    if not rank:
        return {}
    random = np.random.default_rng((seed, rank))
    down = random.standard_normal((dim, rank), np.float32) / np.float32(math.sqrt(dim))
    return {UP: np.zeros((dim, rank), np.float32), DOWN: down}


def answer_without_null(logits: Array, mask: Array, values: Array, normaliser: Normaliser) -> Array:
    """Return sum_n p_n v_n (B, V) for the logits of the candidates (B, N), N > 0; 0 for a query without candidates.

    p is normalised over the candidates alone, because the null slot is calibrated after g is chosen. mask (B, N) bool:
    True for a candidate. values (B, N, V).
    """
    xp = namespace(logits)
    found = xp.any(mask, axis=1, keepdims=True)
    weights = normaliser(xp.where(found, logits, 0.0), mask | ~found)
    return pool_values(xp.where(found, weights, 0.0), values)


def moved(query: Array, answer: Array, amount: Array, up: Array | None = None, down: Array | None = None) -> Array:
    """Return e' (B, D) for queries (B, D) and answers (B, V). amount: g; up (D, R) and down (V, R): None for W_v = 1.

    e' is not normalised: its length belongs to g.
    """
    if up is not None and down is not None:
        answer = answer + (answer @ down) @ namespace(up).permute_dims(up, (1, 0))
    return query + amount * answer
