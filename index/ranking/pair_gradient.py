"""The inner products of (query, key) pairs for torch: the forward values of `inner_products.pair_products`, and their
gradient.

Training scores a pair by the same routine as a search, so both see the same bits. Imported for tensors only: a process
that only searches never imports torch.
"""

from typing import Any

import torch
from torch import Tensor

from index.inner_products import pair_products


class PairProducts(torch.autograd.Function):
    """q_h . k (P, H) for queries (B, H, D), keys (K, D) and pairs (P,): rows of queries and rows of keys."""

    @staticmethod
    def forward(ctx: Any, projected: Tensor, keys: Tensor, pair_query: Tensor, pair_key: Tensor) -> Tensor:
        """Return the scores (P, H)."""
        ctx.save_for_backward(projected, keys, pair_query, pair_key)
        return torch.from_numpy(
            pair_products(*(one.detach().numpy() for one in (projected, keys, pair_query, pair_key)))
        )

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients (B, H, D) and (K, D) for the gradient (P, H) of the scores."""
        projected, keys, pair_query, pair_key = ctx.saved_tensors
        gradient, by_query, by_key = gradients[0], None, None
        if ctx.needs_input_grad[0]:
            pairs = [torch.nonzero(pair_query == query)[:, 0] for query in range(len(projected))]
            by_query = torch.stack([gradient[one].T @ keys[pair_key[one]] for one in pairs])
        if ctx.needs_input_grad[1]:  # never in training, as stored keys never change
            weighted = torch.einsum("ph,phd->pd", gradient, projected[pair_query])
            by_key = torch.zeros_like(keys).index_add(0, pair_key, weighted)
        return by_query, by_key, None, None
