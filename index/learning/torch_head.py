"""The head as torch trains it: the formula of `attention`, its parameters tensors with gradients.

The only place where both are known. What trains holds a TrainableHead; what searches an AttentionHead of its arrays.
"""

from dataclasses import fields
from typing import Any

import torch
from torch import nn

from index.learning.examples import Batch
from index.ranking.attention import OF_FORM, AttentionHead, Candidates, HeadConfig, initial_parameters
from index.ranking.score_functions import FORMS, Score


class TrainableHead(AttentionHead, nn.Module):
    """An attention head whose parameters have gradients; born as every head is."""

    def __init__(self, config: HeadConfig) -> None:
        nn.Module.__init__(self)
        self.config = config
        values = {name: torch.from_numpy(value) for name, value in initial_parameters(config).items()}
        self.register_buffer("null", values.pop("null"))
        self.score = _trainable(FORMS[config.form])
        for name, value in values.items():
            owner: Any = self.score if name.startswith(OF_FORM) else self
            setattr(owner, name.removeprefix(OF_FORM), nn.Parameter(value))

    @property
    def hops(self) -> bool:
        """Whether there is a second hop, or one is being learned."""
        return bool(self.hop.requires_grad) or super().hops

    def as_arrays(self) -> AttentionHead:
        """Return the head as it is now, to search with: a copy, which further training leaves alone."""
        return AttentionHead(self.config, {name: one.numpy().copy() for name, one in self.state_dict().items()})

    def numbers_of_form(self) -> list[nn.Parameter]:
        """Return what the form learns besides its matrices: a few numbers per head."""
        matrices = {id(one) for one in self.score.low_rank()}
        return [one for name, one in self.named_parameters() if name.startswith(OF_FORM) and id(one) not in matrices]


def as_tensors(batch: Batch) -> Batch:
    """Return a batch of numpy arrays as tensors, which share their memory."""
    flat = {one.name: torch.from_numpy(getattr(batch.candidates, one.name)) for one in fields(Candidates)}
    own = {one.name: torch.from_numpy(getattr(batch, one.name)) for one in fields(Batch) if one.name != "candidates"}
    return Batch(candidates=Candidates(**flat), **own)


def _trainable(form: type[Score]) -> Score:
    """Return a form that is a torch module too, so that its parameters are the head's."""
    module: Score = type(form.__name__, (form, nn.Module), {})()
    return module
