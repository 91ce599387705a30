"""The normalisers of attention: what makes weights of logits. One function each, all with the same arguments.

Letters: B queries, N candidate documents. `docs/math.md`, "Normalisers".
"""

from collections.abc import Callable

import torch
from torch import Tensor

Normaliser = Callable[[Tensor, Tensor], Tensor]
"""(logits (B, N+1), mask (B, N+1) bool, True = a candidate or the null slot) -> weights (B, N+1) >= 0, rows sum to 1.

A row of the mask has at least one True; where it is False the logit does not matter and the weight is 0.
"""


def softmax(logits: Tensor, mask: Tensor) -> Tensor:
    """Return exp(logit) over its sum: soft attention, the only one of the three with a gradient."""
    return torch.softmax(logits.masked_fill(~mask, -torch.inf), dim=1)


def one_hot(logits: Tensor, mask: Tensor) -> Tensor:
    """Return all weight on the best, of equals on the first: a look-up in a database. Softmax tends to it, T -> inf."""
    best = logits.masked_fill(~mask, -torch.inf).argmax(dim=1, keepdim=True)
    return torch.zeros_like(logits).scatter(1, best, 1.0)


def uniform(logits: Tensor, mask: Tensor) -> Tensor:
    """Return the same weight for all: average pooling. Softmax tends to it as T -> 0."""
    share = mask.to(logits.dtype)
    return share / share.sum(dim=1, keepdim=True)


NORMALISERS: dict[str, Normaliser] = {"softmax": softmax, "one_hot": one_hot, "uniform": uniform}
"""Every normaliser by its name in settings."""
