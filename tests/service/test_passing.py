"""Thresholds on the hits of a ranking."""

import warnings
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from index.ranking.search import Ranking
from service.search.passing import passing_ranks
from service.search.schemas import SearchIn


@pytest.mark.parametrize(
    ("least", "ranks"), [(1e308, []), (3.5, []), (2.5, [0]), (float(np.float32(0.1)), [0, 1]), (-1e308, [0, 1, 2])]
)
def test_the_logit_of_a_hit_is_at_least_the_threshold_of_any_size(least: float, ranks: list[int]) -> None:
    ranking = SimpleNamespace(logits=np.array([3, 0.1, -2], np.float32), doc_indices=np.arange(3), null_weight=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert passing_ranks(cast(Ranking, ranking), SearchIn(q="x", min_logit=least)).tolist() == ranks
