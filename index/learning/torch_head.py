"""The head as torch trains it: the formula of `ranking.attention` over tensors, whose parameters have gradients.

The only module that knows both libraries. Training updates the tensors in place; a search uses a copy in arrays.
"""

from dataclasses import fields

import torch
from torch import Tensor

from index.learning.examples import Batch
from index.ranking.attention import SCORE_PREFIX, AttentionHead, Candidates, HeadConfig, initial_parameters


def trainable_head(config: HeadConfig) -> AttentionHead:
    """Return an untrained head over tensors; none requires a gradient yet."""
    return AttentionHead(config, {name: torch.from_numpy(value) for name, value in initial_parameters(config).items()})


def as_arrays(head: AttentionHead) -> AttentionHead:
    """Return a copy of a head over tensors, to search with; further training does not change it."""
    tensors = head.parameters_by_name().items()
    return AttentionHead(head.config, {name: one.detach().numpy().copy() for name, one in tensors})


def numbers_of_form(head: AttentionHead) -> list[Tensor]:
    """Return the parameters of the form that are not matrices: a few numbers per head."""
    matrices = {id(one) for one in head.score.low_rank()}
    of_form = [one for name, one in head.parameters_by_name().items() if name.startswith(SCORE_PREFIX)]
    return [one for one in of_form if id(one) not in matrices]


def as_tensors(batch: Batch) -> Batch:
    """Return a batch of arrays as tensors, which share their memory."""
    names = [one.name for one in fields(Candidates) if getattr(batch.candidates, one.name) is not None]
    candidates = Candidates(**{name: torch.from_numpy(getattr(batch.candidates, name)) for name in names})
    own = {one.name: torch.from_numpy(getattr(batch, one.name)) for one in fields(Batch) if one.name != "candidates"}
    return Batch(candidates=candidates, **own)
