"""The null slot inside the head: the weight that was calibrated is the one that is served; no ranking hangs on it."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from index.attention import Attention, AttentionHead, Candidates, HeadConfig
from index.calibration import NullFit, null_evidence
from tests.index.attention_by_hand import ToyDocument, flatten, null_logit_by_hand, only

DIM = 2
CONFIG = HeadConfig(dim=DIM, rank=1, beta=only(words=1.0), inverse_temperature=1.0)
LOGITS = st.lists(st.floats(-20, 20, width=32), max_size=6)
NULL = st.tuples(st.floats(-30, 30), st.floats(0, 3), st.floats(0, 20))


def candidates_of(rows: list[list[float]]) -> Candidates:
    """Return candidates whose logits are these numbers."""
    return flatten([[ToyDocument([], words=logit) for logit in row] for row in rows], DIM)


def attended(rows: list[list[float]], null: tuple[float, float, float]) -> Attention:
    head = AttentionHead(replace(CONFIG, null=null)).requires_grad_(False)
    attention: Attention = head(torch.ones(len(rows), DIM), candidates_of(rows))
    return attention


@given(rows=st.lists(LOGITS, min_size=1, max_size=3), null=NULL)
def test_the_null_logit_and_weight_are_those_that_calibration_fits(
    rows: list[list[float]], null: tuple[float, float, float]
) -> None:
    attention, fit = attended(rows, null), NullFit(*null)
    evidence = null_evidence(attention.logits[:, :-1].numpy())
    assert attention.logits[:, -1].tolist() == pytest.approx(fit.null_logit(evidence).tolist(), rel=1e-4, abs=1e-4)
    assert attention.weights[:, -1].tolist() == pytest.approx(fit.null_weight(evidence).tolist(), abs=1e-4)
    assert attention.weights.sum(1).tolist() == pytest.approx([1.0] * len(rows), abs=1e-5)


@given(row=LOGITS, null=NULL, other=NULL)
def test_the_null_slot_changes_no_ranking_and_no_ratio_of_weights(
    row: list[float], null: tuple[float, float, float], other: tuple[float, float, float]
) -> None:
    one, two = attended([row], null), attended([row], other)
    assert torch.equal(one.logits[:, :-1], two.logits[:, :-1])
    shares = [each.weights[0, :-1].double() for each in (one, two)]
    if all(float(share.sum()) > 1e-20 for share in shares):
        assert torch.allclose(shares[0] / shares[0].sum(), shares[1] / shares[1].sum(), atol=1e-4)


def test_the_null_logit_is_the_one_written_by_hand() -> None:
    config = replace(CONFIG, null=(2.0, 0.7, 1.5))
    logits = [0.5, 1.5, -0.25]
    assert float(attended([logits], config.null).logits[0, -1]) == pytest.approx(null_logit_by_hand(config, logits))


@pytest.mark.parametrize("null", [(5.0, 1.0, 0.0), (-40.0, 2.0, 3.0)])
def test_without_a_candidate_all_the_weight_is_on_the_null_slot(null: tuple[float, float, float]) -> None:
    assert attended([[]], null).weights.tolist() == [[1.0]]
    assert attended([[], [1.0, 2.0]], null).weights[0].tolist() == [0.0, 0.0, 1.0]


def test_with_slope_one_and_no_peak_the_null_logit_is_a_constant() -> None:
    logits = attended([[0.1], [9.0, 8.0], [-5.0, 3.0]], (2.5, 1.0, 0.0)).logits[:, -1]
    assert logits.tolist() == pytest.approx([2.5] * 3, abs=1e-5)


def test_more_evidence_and_a_clearer_winner_make_an_answer_likelier() -> None:
    null = (3.0, 0.8, 2.0)
    weak, strong = attended([[1.0, 1.0], [4.0, 4.0]], null).weights[:, -1].tolist()
    total = math.log(2 * math.exp(4.0))
    shared, alone = attended([[4.0, 4.0], [total, -20.0]], null).weights[:, -1].tolist()
    assert weak > strong == pytest.approx(shared)
    assert shared > alone


def test_a_query_without_candidates_beside_others_gives_no_gradient_that_is_not_a_number() -> None:
    head = AttentionHead(replace(CONFIG, null=(2.0, 0.7, 1.5)))
    attention = head(torch.ones(2, DIM), candidates_of([[], [0.5, 0.2]]))
    (attention.weights**2).sum().backward()
    assert head.beta.grad is not None
    assert bool(torch.isfinite(head.beta.grad).all())
    assert np.count_nonzero(head.beta.grad.numpy()) > 0
