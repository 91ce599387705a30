"""The two libraries that compute attention: numpy for searches, torch for training.

A test that is parametrized by `each_library` uses numpy arrays only: `by(head)`, `by(score)` or
`by(function)` takes and returns arrays, and computes in numpy or in torch.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest
import torch

from index.ranking.attention import AttentionHead
from index.ranking.score_functions import Score


def by_numpy(one: Any) -> Any:
    return one


def by_torch(one: Any) -> Any:
    """Return a wrapper that takes and returns arrays and computes with tensors that have gradients."""
    if isinstance(one, AttentionHead):
        return _InTorch(trainable(one))
    return _InTorch(differentiable(one) if isinstance(one, Score) else one)


each_library = pytest.mark.parametrize("by", [by_numpy, by_torch])
By = Callable[[Any], Any]


class _InTorch:
    """A wrapper of a callable and its methods that takes and returns arrays."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __call__(self, *arguments: Any) -> Any:
        return arrays(self._inner(*map(tensors, arguments)))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return _InTorch(found) if callable(found) and not isinstance(found, torch.Tensor) else arrays(found)


def trainable(head: AttentionHead, dtype: torch.dtype | None = None) -> AttentionHead:
    """Return a head with the same parameters as tensors with gradients."""
    return AttentionHead(head.config, _differentiable(head.parameters_by_name(), dtype))


def differentiable(score: Score, dtype: torch.dtype | None = None) -> Score:
    """Return the form with its parameters as tensors with gradients."""
    return type(score)(**_differentiable(vars(score), dtype))


def _differentiable(values: dict[str, Any], dtype: torch.dtype | None) -> dict[str, torch.Tensor]:
    return {name: torch.tensor(value, dtype=dtype, requires_grad=True) for name, value in values.items()}


def moved(values: dict[str, Any], scale: float, seed: int = 0) -> dict[str, Any]:
    """Return parameters with random changes."""
    random = np.random.default_rng(seed)
    return {
        name: np.asarray(value + scale * random.normal(size=np.shape(value)), np.asarray(value).dtype)
        for name, value in values.items()
    }


def tensors(value: Any) -> Any:
    """Return arrays, also those of a dictionary or a dataclass, as tensors."""
    return _mapped(value, np.ndarray | np.generic, torch.tensor)


def arrays(value: Any) -> Any:
    """Return tensors, also those of a tuple or a dataclass, as arrays."""
    return _mapped(value, torch.Tensor, lambda tensor: tensor.detach().numpy())


def _mapped(value: Any, kind: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_mapped(one, kind, change) for one in value)
    if isinstance(value, dict):
        return {name: _mapped(one, kind, change) for name, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(**{one.name: _mapped(getattr(value, one.name), kind, change) for one in fields(value)})
    return value
