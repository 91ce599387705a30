"""The null slot of the head: its weight agrees with the calibration, and no ranking depends on it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.learning.null_calibration import NullFit, null_evidence
from index.ranking.attention import Attention, AttentionHead, Candidates, HeadConfig
from tests.index.numpy_torch import By, each_library, tensors, trainable
from tests.index.ranking.attention_by_hand import ToyDocument, flatten, null_logit_by_hand, only

DIM = 2
CONFIG = HeadConfig(dim=DIM, rank=1, beta=only(words=1.0), inverse_temperature=1.0)
LOGITS = st.lists(st.floats(-20, 20, width=32), max_size=6)
NULL = st.tuples(st.floats(-30, 30), st.floats(0, 3), st.floats(0, 20))


def candidates_of(rows: list[list[float]]) -> Candidates:
    """Return candidates whose logits are these numbers."""
    return flatten([[ToyDocument([], words=logit) for logit in row] for row in rows], DIM)


def attended(by: By, rows: list[list[float]], null: tuple[float, float, float]) -> Attention:
    head = by(AttentionHead(replace(CONFIG, null=null)))
    attention: Attention = head(np.ones((len(rows), DIM), np.float32), candidates_of(rows))
    return attention


@each_library
@settings(deadline=None)
@given(rows=st.lists(LOGITS, min_size=1, max_size=3), null=NULL)
def test_the_null_weight_agrees_with_the_calibration(
    by: By, rows: list[list[float]], null: tuple[float, float, float]
) -> None:
    attention, fit = attended(by, rows, null), NullFit(*null)
    evidence = null_evidence(attention.logits[:, :-1])
    assert attention.weights[:, -1].tolist() == pytest.approx(fit.null_weight(evidence).tolist(), abs=1e-4)
    assert attention.weights.sum(1).tolist() == pytest.approx([1.0] * len(rows), abs=1e-5)


@each_library
@settings(deadline=None)
@given(row=LOGITS, null=NULL, other=NULL)
def test_the_null_slot_changes_no_ranking_and_no_ratio_of_weights(
    by: By, row: list[float], null: tuple[float, float, float], other: tuple[float, float, float]
) -> None:
    one, two = attended(by, [row], null), attended(by, [row], other)
    assert np.array_equal(one.logits[:, :-1], two.logits[:, :-1])
    shares = [each.weights[0, :-1].astype(float) for each in (one, two)]
    if all(float(share.sum()) > 1e-20 for share in shares):
        assert np.allclose(shares[0] / shares[0].sum(), shares[1] / shares[1].sum(), atol=1e-4)


@each_library
def test_the_null_logit_agrees_with_a_slow_loop(by: By) -> None:
    config = replace(CONFIG, null=(2.0, 0.7, 1.5))
    logits = [0.5, 1.5, -0.25]
    assert float(attended(by, [logits], config.null).logits[0, -1]) == pytest.approx(null_logit_by_hand(config, logits))


@each_library
@pytest.mark.parametrize("null", [(5.0, 1.0, 0.0), (-40.0, 2.0, 3.0)])
def test_without_a_candidate_the_null_slot_has_all_the_weight(by: By, null: tuple[float, float, float]) -> None:
    assert attended(by, [[]], null).weights.tolist() == [[1.0]]
    assert attended(by, [[], [1.0, 2.0]], null).weights[0].tolist() == [0.0, 0.0, 1.0]


@each_library
def test_with_slope_one_and_no_peak_the_null_logit_is_a_constant(by: By) -> None:
    logits = attended(by, [[0.1], [9.0, 8.0], [-5.0, 3.0]], (2.5, 1.0, 0.0)).logits[:, -1]
    assert logits.tolist() == pytest.approx([2.5] * 3, abs=1e-5)


@each_library
def test_more_evidence_and_a_higher_peak_lower_the_null_weight(by: By) -> None:
    null = (3.0, 0.8, 2.0)
    weak, strong = attended(by, [[1.0, 1.0], [4.0, 4.0]], null).weights[:, -1].tolist()
    total = math.log(2 * math.exp(4.0))
    shared, alone = attended(by, [[4.0, 4.0], [total, -20.0]], null).weights[:, -1].tolist()
    assert weak > strong == pytest.approx(shared)
    assert shared > alone


def test_a_query_without_candidates_in_a_batch_gives_no_nan_gradient() -> None:
    head = trainable(AttentionHead(replace(CONFIG, null=(2.0, 0.7, 1.5))))
    attention = head(tensors(np.ones((2, DIM), np.float32)), tensors(candidates_of([[], [0.5, 0.2]])))
    (attention.weights**2).sum().backward()
    assert head.beta.grad is not None
    gradient = head.beta.grad.numpy()
    assert np.isfinite(gradient).all()
    assert np.count_nonzero(gradient) > 0
