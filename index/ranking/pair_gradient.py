"""The inner products of (query, key) pairs for torch: the values of `inner_products.pair_products` and their gradient.

Training and searches score a pair by the same routine and get the same bits. This module is imported for tensors only:
a process that only searches never imports torch.
"""

from typing import Any

import torch
from torch import Tensor

from index.candidates.inner_products import pair_products


class PairProducts(torch.autograd.Function):
    """q_h . k (P, H) for queries (B, H, D), keys (K, D) and pairs (P,): row indices of queries and of keys."""

    @staticmethod
    def forward(ctx: Any, projected: Tensor, keys: Tensor, pair_query: Tensor, pair_key: Tensor) -> Tensor:
        """Return the scores (P, H)."""
        ctx.save_for_backward(projected, keys, pair_query, pair_key)
        arrays = (tensor.detach().numpy() for tensor in (projected, keys, pair_query, pair_key))
        return torch.from_numpy(pair_products(*arrays))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients (B, H, D) and (K, D) for the gradient (P, H) of the scores."""
        projected, keys, pair_query, pair_key = ctx.saved_tensors
        gradient, by_query, by_key = gradients[0], None, None
        if ctx.needs_input_grad[0]:
            pairs = [torch.nonzero(pair_query == query)[:, 0] for query in range(len(projected))]
            by_query = torch.stack([gradient[indices].T @ keys[pair_key[indices]] for indices in pairs])
        if ctx.needs_input_grad[1]:  # training never needs it, because stored keys never change
            weighted = torch.einsum("ph,phd->pd", gradient, projected[pair_query])
            by_key = torch.zeros_like(keys).index_add(0, pair_key, weighted)
        return by_query, by_key, None, None
