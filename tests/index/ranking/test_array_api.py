"""numpy and torch give the same results: reductions by segment, softmax, and the whole of attention."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from index.learning.torch_head import as_arrays
from index.ranking.array_api import logsumexp, namespace, number, segment_max, segment_sum, softmax
from index.ranking.attention import EVIDENCE, Attention, AttentionHead, HeadConfig, initial_parameters
from index.ranking.normalisers import NORMALISERS
from index.ranking.score_functions import FORMS
from index.records import FACTS, Floats
from tests.index.numpy_torch import By, by_torch, each_library, moved, trainable
from tests.index.ranking.attention_by_hand import flatten, random_documents, random_unit

SEGMENTS = 6
RANDOM = np.random.default_rng(0)
SEGMENTINGS = {
    "in order": [0, 0, 1, 2, 2, 2, 4, 5],
    "in no order": [5, 0, 2, 4, 2, 0, 5, 2],
    "all in one": [3] * 8,
    "one of each": [4, 2, 0, 5, 1, 3],
    "none": [],
}
segmentings = pytest.mark.parametrize("segment", SEGMENTINGS.values(), ids=SEGMENTINGS)


def by_loop(values: Floats, segment: list[int], of_column: Callable[[list[float]], float]) -> list[list[float]]:
    """Return one number per segment and column, computed from the values of the segment."""
    return [
        [of_column([float(row[h]) for row, s in zip(values, segment, strict=True) if s == at]) for h in range(2)]
        for at in range(SEGMENTS)
    ]


@each_library
@segmentings
def test_segment_sums_agree_with_a_loop_and_are_zero_for_empty_segments(by: By, segment: list[int]) -> None:
    values = RANDOM.normal(size=(len(segment), 2))
    sums = by(segment_sum)(values, np.asarray(segment, np.int64), SEGMENTS)
    assert sums.shape == (SEGMENTS, 2)
    assert sums.tolist() == [pytest.approx(row, abs=1e-12) for row in by_loop(values, segment, math.fsum)]


@each_library
@segmentings
def test_segment_maxima_agree_with_a_loop_and_are_minus_infinity_for_empty_segments(by: By, segment: list[int]) -> None:
    values = RANDOM.normal(size=(len(segment), 2))
    largest = by(segment_max)(values, np.asarray(segment, np.int64), SEGMENTS)
    assert largest.tolist() == by_loop(values, segment, lambda column: max(column, default=-math.inf))


@each_library
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_reductions_keep_the_precision_of_their_arguments(by: By, dtype: type) -> None:
    values, segment = np.ones((3, 2), dtype), np.asarray([1, 0, 1])
    row = np.ones((2, 3), dtype)
    found = [by(segment_sum)(values, segment, 2), by(segment_max)(values, segment, 2), by(softmax)(row)]
    assert [one.dtype for one in [*found, by(logsumexp)(row)]] == [dtype] * 4


@each_library
def test_softmax_is_the_share_of_the_exponentials(by: By) -> None:
    logits = np.asarray([[1.0, 3.0, -2.0], [-math.inf, 0.0, -math.inf], [5e3, 5e3, -5e3]])
    rows = [[math.exp(one) for one in (1.0, 3.0, -2.0)], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]]
    assert by(softmax)(logits).tolist() == [pytest.approx([one / sum(row) for one in row]) for row in rows]


@each_library
def test_logsumexp_is_a_number_or_minus_infinity(by: By) -> None:
    logits = np.asarray([[1.0, 3.0, -2.0], [-math.inf, 0.5, -math.inf], [-math.inf] * 3, [5e3, 5e3, -5e3]])
    expected = [math.log(sum(map(math.exp, (1.0, 3.0, -2.0)))), 0.5, -math.inf, 5e3 + math.log(2)]
    assert by(logsumexp)(logits).tolist() == pytest.approx(expected)


def test_number_returns_a_float_in_both_libraries() -> None:
    assert number(np.float32(0.5)) == number(np.asarray(0.5)) == number(torch.tensor(0.5, requires_grad=True)) == 0.5
    assert namespace(np.float32(0.5)) is namespace(np.ones(2)) is np
    assert namespace(torch.ones(2)) is not np


# --- The whole of attention ---

DIM = 6


def head_of(form: str, heads: int, hop: float, seed: int, normaliser: str = "softmax") -> AttentionHead:
    """Return a head with all parameters changed from their initial values."""
    config = HeadConfig(DIM, rank=3, heads=heads, form=form, normaliser=normaliser, inverse_temperature=3.0)
    return AttentionHead(config, moved(initial_parameters(config), 0.3, seed)).changed(hop=hop)


def attended(head: AttentionHead, seed: int) -> tuple[Attention, Attention]:
    """Return the attention of four queries, one without candidates, in numpy and in torch; all rows but one padded."""
    random = np.random.default_rng(seed)
    queries = [random_documents(10 * seed + at, count, DIM) for at, count in enumerate((7, 3, 0, 1))]
    facts = random.random((4, len(FACTS))).tolist()
    candidates = flatten(queries, DIM, facts=facts)
    dropped = candidates.mask & (random.random(candidates.mask.shape) < 0.8)
    candidates = replace(candidates, mask=dropped)
    asked = np.asarray([random_unit(random, DIM) for _ in range(4)], np.float32)
    return head(asked, candidates), by_torch(head)(asked, candidates)


def assert_same(one: Attention, other: Attention) -> None:
    for name, shape in (("logits", (4, 8)), ("weights", (4, 8)), ("parts", (4, 7, len(EVIDENCE)))):
        served, learned = getattr(one, name), getattr(other, name)
        assert served.shape == learned.shape == shape
        assert served.dtype == learned.dtype == np.float32
        assert np.allclose(served, learned, rtol=1e-5, atol=1e-5), name


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("hop", [0.0, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_torch_and_numpy_give_the_same_attention(form: str, heads: int, hop: float, seed: int) -> None:
    one, other = attended(head_of(form, heads, hop, seed), seed)
    assert_same(one, other)
    assert np.isneginf(one.logits).any()
    assert one.weights[2].tolist() == [0.0] * 7 + [1.0]


@pytest.mark.parametrize("normaliser", NORMALISERS)
def test_torch_and_numpy_give_the_same_attention_with_every_normaliser(normaliser: str) -> None:
    assert_same(*attended(head_of("dot", 2, 0.5, 1, normaliser), 1))


@pytest.mark.parametrize("form", FORMS)
def test_conversion_to_torch_and_back_keeps_the_bits_of_a_head(form: str) -> None:
    head = head_of(form, 2, 0.5, 0)
    learned = trainable(head)
    returned = as_arrays(learned).parameters_by_name()
    assert returned.keys() == head.parameters_by_name().keys()
    for name, value in head.parameters_by_name().items():
        assert returned[name].dtype == np.float32
        assert np.array_equal(returned[name], value), name
    with torch.no_grad():
        learned.beta.add_(1.0)
    assert np.array_equal(returned["beta"], head.beta)


def test_parameters_of_another_head_are_refused() -> None:
    config = HeadConfig(DIM, rank=3)
    values = initial_parameters(config)
    for wrong in (values | {"beta": values["beta"][1:]}, values | {"unheard": values["beta"]}, {}):
        with pytest.raises(ValueError, match="do not fit the configuration"):
            AttentionHead(config, wrong)
