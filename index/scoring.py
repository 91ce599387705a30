"""The forms of attention: how well a query matches a key, one class per form behind one interface, each trainable.

Sees vectors, never documents. At birth every form gives e . k for unit vectors, so whatever form a collection chooses,
its untrained model is the zero-shot hybrid search, and what training adds is the form's own.

Letters: B queries, K keys, P (query, key) pairs, D key width, H heads, R rank.
Sources: Luong et al. 2015 (bilinear); Vaswani et al. 2017 (scaled dot product, heads); Bahdanau et al. 2015 (additive);
Nadaraya 1964 and Watson 1964 (Gaussian kernel); Graves et al. 2014 (cosine); Hu et al. 2022 (low rank).
`docs/math.md`, "Forms of attention", has the equations.
"""

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

SMALLEST_SQUARE = 1e-12
"""Squared lengths are taken to be at least this: the cosine with a vector of no length is 0, its gradient finite."""


class Score(nn.Module, ABC):
    """One form of attention: H scores for each pair of a query and a key.

    dim is D, rank is R, generator draws the random directions of birth: same generator, same bits.
    """

    def __init__(self, dim: int, rank: int, heads: int, generator: torch.Generator) -> None:
        super().__init__()
        self.heads = heads

    @abstractmethod
    def search_vectors(self, query: Tensor) -> Tensor:
        """Return (B, H, D) for queries (B, D): the vectors whose dot product with keys a candidate index maximises."""

    @abstractmethod
    def forward(self, query: Tensor, keys: Tensor, pair_query: Tensor, pair_key: Tensor) -> Tensor:
        """Return the scores (P, H) of pairs: pair_query (P,) are rows of query (B, D), pair_key (P,) of keys (K, D)."""

    @abstractmethod
    def low_rank(self) -> list[nn.Parameter]:
        """Return the matrices, which want a small learning rate; the others are a few numbers per head."""


class Bilinear(Score):
    """score = q_h . k with q_h = e + U_h V_h^T e; U = 0 at birth.

    W_k^T W_q is one matrix on the query's side. The search vectors are the scores, exactly.
    """

    def __init__(self, dim: int, rank: int, heads: int, generator: torch.Generator) -> None:
        super().__init__(dim, rank, heads, generator)
        self.up, self.down = _born_low_rank(dim, rank, heads, generator)

    def search_vectors(self, query: Tensor) -> Tensor:
        return self.project(query)

    def forward(self, query: Tensor, keys: Tensor, pair_query: Tensor, pair_key: Tensor) -> Tensor:
        return pair_products(self.search_vectors(query), keys, pair_query, pair_key)

    def low_rank(self) -> list[nn.Parameter]:
        return [self.up, self.down]

    def project(self, query: Tensor) -> Tensor:
        """Return W_q e (B, H, D), W_q = 1 + U V^T per head."""
        low = torch.einsum("bd,hdr->bhr", query, self.down)
        return query[:, None, :] + torch.einsum("bhr,hdr->bhd", low, self.up)


class Dot(Bilinear):
    """score = (W_q e) . (W_k k), W_q = 1 + U V^T and W_k = 1 + A B^T per head; U = A = 0 at birth.

    Computed as (W_k^T W_q e) . k: keys stay as they are, and the search vectors are the scores, exactly.
    """

    def __init__(self, dim: int, rank: int, heads: int, generator: torch.Generator) -> None:
        super().__init__(dim, rank, heads, generator)
        self.key_up, self.key_down = _born_low_rank(dim, rank, heads, generator)

    def search_vectors(self, query: Tensor) -> Tensor:
        return self.absorb(self.project(query))

    def low_rank(self) -> list[nn.Parameter]:
        return [*super().low_rank(), self.key_up, self.key_down]

    def absorb(self, projected: Tensor) -> Tensor:
        """Return W_k^T q (B, H, D) for projected queries q (B, H, D)."""
        low = torch.einsum("bhd,hdr->bhr", projected, self.key_up)
        return projected + torch.einsum("bhr,hdr->bhd", low, self.key_down)

    def key_squares(self, keys: Tensor) -> Tensor:
        """Return |W_k k|^2 (K, H) = |k|^2 + 2 (A^T k).(B^T k) + |A B^T k|^2, in R numbers a key and head."""
        up = torch.einsum("kd,hdr->khr", keys, self.key_up)
        down = torch.einsum("kd,hdr->khr", keys, self.key_down)
        gram = torch.einsum("hdr,hds->hrs", self.key_up, self.key_up)
        turned = torch.einsum("khr,hrs->khs", down, gram)
        return keys.square().sum(-1, keepdim=True) + (2 * up * down + turned * down).sum(-1)


class ScaledDot(Dot):
    """score = c (W_q e) . (W_k k) / sqrt(D), c = sqrt(D) at birth.

    For components of unit variance the dot product has variance D, and the root takes it back to 1; unit vectors have
    components of variance 1/D and need no scale, so it is learned from where it does nothing.
    """

    def __init__(self, dim: int, rank: int, heads: int, generator: torch.Generator) -> None:
        super().__init__(dim, rank, heads, generator)
        self.log_root = math.log(dim) / 2
        self.log_scale = nn.Parameter(torch.full((heads,), self.log_root))

    def search_vectors(self, query: Tensor) -> Tensor:
        return (self.log_scale - self.log_root).exp()[:, None] * super().search_vectors(query)


class Cosine(Dot):
    """score = (W_q e) . (W_k k) / (|W_q e| |W_k k|): no key wins by its length.

    The search vectors leave out 1 / |W_k k|, which belongs to the key alone and is 1 at birth.
    """

    def search_vectors(self, query: Tensor) -> Tensor:
        projected = self.project(query)
        return self.absorb(projected / _length(projected.square().sum(-1, keepdim=True)))

    def forward(self, query: Tensor, keys: Tensor, pair_query: Tensor, pair_key: Tensor) -> Tensor:
        scores = super().forward(query, keys, pair_query, pair_key)
        return scores / _length(self.key_squares(keys))[pair_key]


class Gaussian(Dot):
    """score = 1 - p/2 |W_q e - W_k k|^2, p = 1 at birth: its softmax is a Gaussian kernel of precision T p.

    Computed from |q|^2 + |k|^2 - 2 q.k. The search vectors are p W_k^T W_q e, the part that is linear in the key; they
    leave out -p/2 |W_k k|^2, which belongs to the key alone and is the same for all keys at birth.
    """

    def __init__(self, dim: int, rank: int, heads: int, generator: torch.Generator) -> None:
        super().__init__(dim, rank, heads, generator)
        self.log_precision = nn.Parameter(torch.zeros(heads))

    def search_vectors(self, query: Tensor) -> Tensor:
        return self.log_precision.exp()[:, None] * super().search_vectors(query)

    def forward(self, query: Tensor, keys: Tensor, pair_query: Tensor, pair_key: Tensor) -> Tensor:
        half = self.log_precision.exp() / 2
        of_query = half * self.project(query).square().sum(-1)
        of_key = half * self.key_squares(keys)
        products = super().forward(query, keys, pair_query, pair_key)
        return 1 + products - of_query[pair_query] - of_key[pair_key]


class Additive(Score):
    """score = e . k + w^T tanh(W_q e + W_k k), R hidden units per head; w = 0 at birth.

    The network is added to e . k: on its own it knows nothing at birth, and would have to learn from feedback what the
    encoder knows. Its maps are born with entries of variance 1, so that a unit vector reaches the bend of tanh: a
    straight tanh would only add w^T W_k k, the same for every query. No vector gives these scores by a dot product;
    the search vectors are their gradient by the key at k = e, which is exact to first order near the query.
    """

    def __init__(self, dim: int, rank: int, heads: int, generator: torch.Generator) -> None:
        super().__init__(dim, rank, heads, generator)
        self.query_map = nn.Parameter(torch.randn(heads, dim, rank, generator=generator))
        self.key_map = nn.Parameter(torch.randn(heads, dim, rank, generator=generator))
        self.output = nn.Parameter(torch.zeros(heads, rank))

    def search_vectors(self, query: Tensor) -> Tensor:
        hidden = torch.tanh(torch.einsum("bd,hdr->bhr", query, self.query_map + self.key_map))
        slope = self.output * (1 - hidden.square())
        return query[:, None, :] + torch.einsum("bhr,hdr->bhd", slope, self.key_map)

    def forward(self, query: Tensor, keys: Tensor, pair_query: Tensor, pair_key: Tensor) -> Tensor:
        of_query = torch.einsum("bd,hdr->bhr", query, self.query_map)
        of_key = torch.einsum("kd,hdr->khr", keys, self.key_map)
        hidden = torch.tanh(of_query[pair_query] + of_key[pair_key])
        learned = torch.einsum("phr,hr->ph", hidden, self.output)
        return pair_products(query[:, None, :], keys, pair_query, pair_key) + learned

    def low_rank(self) -> list[nn.Parameter]:
        return [self.query_map, self.key_map]


FORMS: dict[str, type[Score]] = {
    "bilinear": Bilinear,
    "dot": Dot,
    "scaled_dot": ScaledDot,
    "cosine": Cosine,
    "additive": Additive,
    "gaussian": Gaussian,
}
"""Every form by its name in settings."""


def pair_products(projected: Tensor, keys: Tensor, pair_query: Tensor, pair_key: Tensor) -> Tensor:
    """Return q_h . k (P, H) for pairs of projected queries (B, H, D) and keys (K, D): one product, then a look-up."""
    heads = projected.shape[1]
    table = projected.flatten(0, 1) @ keys.T
    rows = pair_query[:, None] * heads + torch.arange(heads, device=pair_query.device)
    return table[rows, pair_key[:, None]]


def _born_low_rank(dim: int, rank: int, heads: int, generator: torch.Generator) -> tuple[nn.Parameter, nn.Parameter]:
    """Return up = 0 and down ~ N(0, 1/D), both (H, D, R): 1 + up down^T is the identity, its gradient is not zero."""
    shape = (heads, dim, rank)
    down = torch.randn(shape, generator=generator) / dim**0.5
    return nn.Parameter(torch.zeros(shape)), nn.Parameter(down)


def _length(square: Tensor) -> Tensor:
    return square.clamp(min=SMALLEST_SQUARE).sqrt()
