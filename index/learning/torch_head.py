"""The attention head over torch tensors, for training: the class of `ranking.attention`, whose parameters have
gradients.

Training updates the tensors in place; searches use a copy in numpy arrays.
"""

from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from index.learning.examples import Batch
from index.learning.slates import Slates
from index.ranking.attention import SCORE_PREFIX, AttentionHead, Candidates, HeadConfig, initial_parameters


def trainable_head(config: HeadConfig) -> AttentionHead:
    """Return an untrained head over tensors; no parameter requires a gradient yet."""
    return AttentionHead(config, {name: torch.from_numpy(value) for name, value in initial_parameters(config).items()})


def as_arrays(head: AttentionHead) -> AttentionHead:
    """Return a copy of a head over tensors as a head over arrays; further training does not change it."""
    tensors = head.parameters_by_name().items()
    return AttentionHead(head.config, {name: tensor.detach().numpy().copy() for name, tensor in tensors})


def score_scalars(head: AttentionHead) -> list[Tensor]:
    """Return the parameters of the form that are not matrices: a few scalars per head."""
    matrices = {id(matrix) for matrix in head.score.low_rank()}
    score = [value for name, value in head.parameters_by_name().items() if name.startswith(SCORE_PREFIX)]
    return [value for value in score if id(value) not in matrices]


def as_tensors(batch: Batch) -> Batch:
    """Return a batch of arrays as a batch of tensors that share their memory."""
    given: dict[str, Any] = _tensors(replace(batch.candidates, id_order=None, fields=None))  # tensors have no bytes
    candidates = Candidates(**given)
    slates = None if batch.slates is None else slate_tensors(batch.slates)
    names = [field.name for field in fields(Batch) if field.name not in ("candidates", "slates")]
    arrays = {name: torch.from_numpy(getattr(batch, name)) for name in names}
    return Batch(candidates=candidates, slates=slates, **arrays)


def slate_tensors(slates: Slates) -> Slates:
    """Return explored lists of arrays as lists of tensors that share their memory."""
    return Slates(**_tensors(slates))


def _tensors(arrays: Candidates | Slates) -> dict[str, Tensor]:
    """Return the arrays of a dataclass as tensors by name; fields that are None are left out."""
    names = [field.name for field in fields(arrays) if getattr(arrays, field.name) is not None]
    return {name: torch.from_numpy(getattr(arrays, name)) for name in names}
