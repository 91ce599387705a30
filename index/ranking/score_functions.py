"""The forms of attention: score functions of a query and a key, one trainable class per form behind one interface.

Sees vectors, never documents. With initial parameters every form gives e . k for unit vectors, so that the untrained
model of any form is the zero-shot hybrid search. Written once over the array API: searches use numpy arrays, training
uses torch tensors (`learning.torch_head`).

Letters: B queries, K keys, P (query, key) pairs, D key width, H heads, R rank.
Sources: Luong et al. 2015 (bilinear); Vaswani et al. 2017 (scaled dot product, heads); Bahdanau et al. 2015 (additive);
Nadaraya 1964 and Watson 1964 (Gaussian kernel); Graves et al. 2014 (cosine); Hu et al. 2022 (low rank).
`docs/math.md`, "Forms of attention", has the equations.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from index.ranking.array_api import Array, namespace, pair_products, project_rows
from index.records import Floats

SMALLEST_SQUARE = 1e-12
"""Lower bound of squared lengths: the cosine with a zero vector is 0, and its gradient is finite."""


class Score(ABC):
    """One form of attention: H scores for each pair of a query and a key. Its parameters are its attributes."""

    @staticmethod
    @abstractmethod
    def initial(dim: int, rank: int, heads: int, random: np.random.Generator) -> dict[str, Floats]:
        """Return the initial parameters by name, float32. The same state of `random` gives the same bits."""

    @abstractmethod
    def search_vectors(self, query: Array) -> Array:
        """Return (B, H, D) for queries (B, D): the candidate index maximises their dot product with the keys."""

    @abstractmethod
    def __call__(self, query: Array, keys: Array, pair_query: Array, pair_key: Array) -> Array:
        """Return the scores (P, H) of pairs: pair_query (P,) indexes query (B, D), pair_key (P,) keys (K, D)."""

    @abstractmethod
    def low_rank(self) -> list[Array]:
        """Return the matrices, which need a small learning rate; the other parameters are a few scalars per head."""


@dataclass(frozen=True, eq=False)
class Bilinear(Score):
    """score = q_h . k with q_h = e + U_h V_h^T e; initially U = 0.

    W_k^T W_q is one matrix, applied to the query. The dot products of the search vectors are exactly the scores.
    """

    up: Array
    down: Array

    @staticmethod
    def initial(dim: int, rank: int, heads: int, random: np.random.Generator) -> dict[str, Floats]:
        up, down = _initial_low_rank(dim, rank, heads, random)
        return {"up": up, "down": down}

    def search_vectors(self, query: Array) -> Array:
        return by_query(self.project(query))

    def __call__(self, query: Array, keys: Array, pair_query: Array, pair_key: Array) -> Array:
        return pair_products(self.search_vectors(query), keys, pair_query, pair_key)

    def low_rank(self) -> list[Array]:
        return [self.up, self.down]

    def project(self, query: Array) -> Array:
        """Return W_q e (H, B, D), W_q = 1 + U V^T per head."""
        return query[None] + (query[None] @ self.down) @ transposed(self.up)


@dataclass(frozen=True, eq=False)
class Dot(Bilinear):
    """score = (W_q e) . (W_k k), W_q = 1 + U V^T and W_k = 1 + A B^T per head; initially U = A = 0.

    Computed as (W_k^T W_q e) . k with unchanged keys. The dot products of the search vectors are exactly the scores.
    """

    key_up: Array
    key_down: Array

    @staticmethod
    def initial(dim: int, rank: int, heads: int, random: np.random.Generator) -> dict[str, Floats]:
        query_side = Bilinear.initial(dim, rank, heads, random)
        key_up, key_down = _initial_low_rank(dim, rank, heads, random)
        return query_side | {"key_up": key_up, "key_down": key_down}

    def search_vectors(self, query: Array) -> Array:
        return by_query(self.absorb(self.project(query)))

    def low_rank(self) -> list[Array]:
        return [*super().low_rank(), self.key_up, self.key_down]

    def absorb(self, projected: Array) -> Array:
        """Return W_k^T q (H, B, D) for projected queries q (H, B, D)."""
        return projected + (projected @ self.key_up) @ transposed(self.key_down)

    def key_squares(self, keys: Array) -> Array:
        """Return |W_k k|^2 (K, H) = |k|^2 + 2 (A^T k).(B^T k) + |A B^T k|^2, with R numbers per key and head."""
        xp = namespace(keys)
        up, down = project_rows(keys[None], self.key_up), project_rows(keys[None], self.key_down)
        gram = project_rows(down, transposed(self.key_up) @ self.key_up)
        learned = xp.sum(2 * up * down + gram * down, axis=-1)
        return xp.sum(keys * keys, axis=-1)[:, None] + learned.T


@dataclass(frozen=True, eq=False)
class ScaledDot(Dot):
    """score = c (W_q e) . (W_k k) / sqrt(D), initially c = sqrt(D).

    For components of unit variance the dot product has variance D, and division by sqrt(D) makes it 1. Unit vectors
    have components of variance 1/D and need no scale, so the initial scale factor c / sqrt(D) is 1.
    """

    log_scale: Array

    @staticmethod
    def initial(dim: int, rank: int, heads: int, random: np.random.Generator) -> dict[str, Floats]:
        log_scale = np.full(heads, math.log(dim) / 2, np.float32)
        return Dot.initial(dim, rank, heads, random) | {"log_scale": log_scale}

    def search_vectors(self, query: Array) -> Array:
        scale = namespace(query).exp(self.log_scale - math.log(query.shape[1]) / 2)
        return scale[:, None] * super().search_vectors(query)


@dataclass(frozen=True, eq=False)
class Cosine(Dot):
    """score = (W_q e) . (W_k k) / (|W_q e| |W_k k|), which does not depend on the length of the key.

    The search vectors leave out 1 / |W_k k|, which depends on the key alone and is initially 1.
    """

    def search_vectors(self, query: Array) -> Array:
        projected = self.project(query)
        squares = namespace(query).sum(projected * projected, axis=-1)
        return by_query(self.absorb(projected / _length(squares)[..., None]))

    def __call__(self, query: Array, keys: Array, pair_query: Array, pair_key: Array) -> Array:
        scores = super().__call__(query, keys, pair_query, pair_key)
        return scores / _length(self.key_squares(keys))[pair_key]


@dataclass(frozen=True, eq=False)
class Gaussian(Dot):
    """score = 1 - p/2 |W_q e - W_k k|^2, initially p = 1: its softmax is a Gaussian kernel of precision T p.

    Computed from |q|^2 + |k|^2 - 2 q.k. The search vectors are p W_k^T W_q e, the part that is linear in the key. They
    leave out -p/2 |W_k k|^2, which depends on the key alone and is initially the same for all keys.
    """

    log_precision: Array

    @staticmethod
    def initial(dim: int, rank: int, heads: int, random: np.random.Generator) -> dict[str, Floats]:
        return Dot.initial(dim, rank, heads, random) | {"log_precision": np.zeros(heads, np.float32)}

    def search_vectors(self, query: Array) -> Array:
        return namespace(query).exp(self.log_precision)[:, None] * super().search_vectors(query)

    def __call__(self, query: Array, keys: Array, pair_query: Array, pair_key: Array) -> Array:
        xp = namespace(query)
        half = xp.exp(self.log_precision) / 2
        projected = self.project(query)
        query_term = half * xp.sum(projected * projected, axis=-1).T
        key_term = half * self.key_squares(keys)
        products = super().__call__(query, keys, pair_query, pair_key)
        return 1 + products - query_term[pair_query] - key_term[pair_key]


@dataclass(frozen=True, eq=False)
class Additive(Score):
    """score = e . k + w^T tanh(W_q e + W_k k), R hidden units per head; initially w = 0.

    The network is added to e . k, because without that term it would have to learn the knowledge of the encoder from
    feedback. The initial entries of its maps have variance 1, so that unit vectors reach the curved part of tanh: in
    its linear part the network would only add w^T W_k k, which is the same for every query. No search vector gives
    these scores exactly. The search vectors are the gradient of the score by the key at k = e, which is exact to first
    order near the query.
    """

    query_map: Array
    key_map: Array
    output: Array

    @staticmethod
    def initial(dim: int, rank: int, heads: int, random: np.random.Generator) -> dict[str, Floats]:
        query_map, key_map = random.standard_normal((2, heads, dim, rank), np.float32)
        return {"query_map": query_map, "key_map": key_map, "output": np.zeros((heads, rank), np.float32)}

    def search_vectors(self, query: Array) -> Array:
        hidden = namespace(query).tanh(query[None] @ (self.query_map + self.key_map))
        slope = self.output[:, None, :] * (1 - hidden * hidden)
        return by_query(query[None] + slope @ transposed(self.key_map))

    def __call__(self, query: Array, keys: Array, pair_query: Array, pair_key: Array) -> Array:
        xp = namespace(query)
        query_part, key_part = query[None] @ self.query_map, project_rows(keys[None], self.key_map)
        hidden = xp.tanh(query_part[:, pair_query] + key_part[:, pair_key])
        learned = xp.sum(hidden * self.output[:, None, :], axis=-1).T
        return pair_products(query[:, None, :], keys, pair_query, pair_key) + learned

    def low_rank(self) -> list[Array]:
        return [self.query_map, self.key_map]


FORMS: dict[str, type[Score]] = {
    "bilinear": Bilinear,
    "dot": Dot,
    "scaled_dot": ScaledDot,
    "cosine": Cosine,
    "additive": Additive,
    "gaussian": Gaussian,
}
"""The forms by their names in settings."""


def by_query(by_head: Array) -> Array:
    """Return (B, H, D) for (H, B, D)."""
    return namespace(by_head).permute_dims(by_head, (1, 0, 2))


def transposed(matrices: Array) -> Array:
    """Return (H, R, D) for (H, D, R)."""
    return namespace(matrices).permute_dims(matrices, (0, 2, 1))


def _initial_low_rank(dim: int, rank: int, heads: int, random: np.random.Generator) -> tuple[Floats, Floats]:
    """Return up = 0 and down ~ N(0, 1/D), both (H, D, R): 1 + up down^T is the identity, with a nonzero gradient."""
    shape = (heads, dim, rank)
    return np.zeros(shape, np.float32), random.standard_normal(shape, np.float32) / np.float32(math.sqrt(dim))


def _length(square: Array) -> Array:
    xp = namespace(square)
    return xp.sqrt(xp.clip(square, SMALLEST_SQUARE, None))
