"""The check of the settings of a head that a user of the library gives."""

from typing import Any

from index.arguments import is_finite, is_whole
from index.errors import InvalidArgument
from index.ranking.attention import EVIDENCE, HeadConfig
from index.ranking.normalisers import NORMALISERS
from index.ranking.score_functions import FORMS


def require_config(config: object, dim: int) -> None:
    """Raise InvalidArgument for other than the settings of a head for vectors of this width."""
    if not isinstance(config, HeadConfig):
        raise InvalidArgument("config must be a HeadConfig")
    if config.dim != dim:
        raise InvalidArgument(f"config.dim is {config.dim}; the vectors of the encoder have {dim} numbers")
    if config.form not in list(FORMS):
        raise InvalidArgument(f"config.form is {config.form!r}; it must be one of {', '.join(FORMS)}")
    if config.normaliser not in list(NORMALISERS):
        raise InvalidArgument(f"config.normaliser is {config.normaliser!r}; it must be one of {', '.join(NORMALISERS)}")
    for name, least in (("rank", 1), ("heads", 1), ("trees", 0), ("priors", 0), ("value_rank", 0)):
        value = getattr(config, name)
        if not is_whole(value, least):
            raise InvalidArgument(f"config.{name} is {value!r}; it must be a whole number from {least} on")
    for name in ("inverse_temperature", "sharpness", "memory_gain", "memory_sharpness"):
        value = getattr(config, name)
        if not _is_positive(value):
            raise InvalidArgument(f"config.{name} is {value!r}; it must be a number above 0")
    beta: object = config.beta
    if not isinstance(beta, tuple | list) or len(beta) != len(EVIDENCE) or not all(map(_is_weight, beta)):
        raise InvalidArgument(f"config.beta must have {len(EVIDENCE)} numbers from 0 on")


def _is_weight(value: Any) -> bool:
    return is_finite(value) and bool(value >= 0)


def _is_positive(value: Any) -> bool:
    return is_finite(value) and bool(value > 0)
