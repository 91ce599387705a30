"""The likelihood of held-out judgments, and the gate that reads it."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.evaluation.significance import compare
from index.learning.click_model import estimate_clicks
from index.learning.conditional_logit import CHANCE
from index.learning.examples import Feedback, split
from index.learning.held_out import HeldOut, clicks_decide, ranked
from index.learning.judgment_likelihood import JUDGED, Ranked, judgment_likelihoods
from index.ranking.attention import AttentionHead
from tests.index.learning.test_held_out import compared, with_a_click
from tests.index.learning_fixtures import INITIAL, asked, collection_of

DOCUMENTS = [str(row) for row in range(40)]


def by_logits(logits: np.ndarray) -> Ranked:
    """Return the documents of a query in the order of their logits."""
    order = np.argsort(-logits)
    return Ranked([DOCUMENTS[at] for at in order], logits[order].astype(np.float32))


def drawn(
    queries: int, noise: float, seed: int = 0
) -> tuple[dict[str, Ranked], dict[str, Ranked], dict[str, dict[str, int]]]:
    """Return two heads and the relevant documents: one head has the logits that draw them, the other adds noise."""
    random = np.random.default_rng(seed)
    noisy, right, qrels = {}, {}, {}
    for at in range(queries):
        logits = 1.5 * random.normal(size=len(DOCUMENTS))
        noisy[str(at)] = by_logits(logits + noise * random.normal(size=len(DOCUMENTS)))
        right[str(at)] = by_logits(logits)
        qrels[str(at)] = {DOCUMENTS[int(np.argmax(logits + random.gumbel(size=len(DOCUMENTS))))]: 1}
    return noisy, right, qrels


def test_equal_logits_give_every_document_of_both_heads_the_same_probability() -> None:
    before = {"a": Ranked(["1", "2"], np.zeros(2, np.float32))}
    after = {"a": Ranked(["2", "3"], np.zeros(2, np.float32))}
    left, right = judgment_likelihoods(before, after, {"a": {"3": 2, "1": 0, "9": 4}})
    assert left == right == {"a": pytest.approx(math.log(1 / 3))}


def test_documents_weigh_by_their_grades() -> None:
    logits = Ranked(["1", "2", "3"], np.asarray([2.0, 1.0, 0.0], np.float32))
    alone = {row: judgment_likelihoods({"a": logits}, {"a": logits}, {"a": {row: 1}})[0]["a"] for row in ("1", "3")}
    assert alone["1"] > alone["3"]
    graded, _ = judgment_likelihoods({"a": logits}, {"a": logits}, {"a": {"1": 3, "2": 0, "3": -1}})
    assert graded["a"] == pytest.approx(alone["1"]), "only positive grades are relevant"


def test_a_document_that_one_head_lacks_has_its_last_logit() -> None:
    one = Ranked(["1", "2"], np.asarray([3.0, 1.0], np.float32))
    assert one.logits_of(["2", "7", "1"]).tolist() == [1.0, 1.0, 3.0]
    assert Ranked([], np.empty(0, np.float32)).logits_of(["7"]).tolist() == [0.0]


def test_a_query_whose_relevant_documents_no_head_has_makes_no_difference() -> None:
    noisy, right, qrels = drawn(40, 1.0)
    known = judgment_likelihoods(noisy, right, qrels)
    lost = {"lost": by_logits(np.arange(40.0))}
    found = judgment_likelihoods(noisy | lost, right | lost, qrels | {"lost": {"77": 1}, "bad": {"3": 0}})
    assert found == tuple(side | {"lost": 0.0} for side in known), "a query without a relevant document does not count"


def test_the_scale_of_a_head_does_not_matter() -> None:
    noisy, right, qrels = drawn(60, 1.0)
    scaled = {key: replace(one, logits=5 * one.logits) for key, one in right.items()}
    plain, larger = (judgment_likelihoods(noisy, side, qrels)[1] for side in (right, scaled))
    assert larger == pytest.approx(plain, abs=1e-3)


def test_a_relevant_document_far_below_does_not_decide() -> None:
    noisy, right, qrels = drawn(60, 1.0)
    far = {"far": Ranked(["1", "2"], np.asarray([0.0, -90.0], np.float32))}
    found, _ = judgment_likelihoods(noisy | far, right | far, qrels | {"far": {"2": 1}})
    assert found["far"] > math.log(CHANCE / 2) - 0.01


def test_the_likelihood_needs_fewer_queries_than_ndcg() -> None:
    """The same heads and judgments: its t is larger in the mean of forty logs."""
    ratios = []
    for seed in range(40):
        noisy, right, qrels = drawn(80, 0.4, seed)
        judged = compare(JUDGED, *judgment_likelihoods(noisy, right, qrels))
        ndcg = compare(
            "nDCG@10", *({key: gain(one, qrels[key]) for key, one in side.items()} for side in (noisy, right))
        )
        ratios.append((judged.ratio, ndcg.ratio))
    judged_ratio, ndcg_ratio = np.mean(ratios, axis=0)
    assert judged_ratio > 1.2 * ndcg_ratio > 0


def gain(one: Ranked, grades: dict[str, int]) -> float:
    """Return nDCG@10 for a single relevant document."""
    (row,) = grades
    rank = list(one.rows).index(row)
    return 1 / math.log2(rank + 2) if rank < 10 else 0.0


def test_a_head_that_draws_the_judgments_is_rarely_beaten() -> None:
    """At the level of one side of a first decision, half of it for each of two measures, 2.5 % are expected."""
    beaten = 0
    for seed in range(300):
        noisy, right, qrels = drawn(30, 0.1, seed)
        found = compare(JUDGED, *judgment_likelihoods(right, noisy, qrels))
        beaten += found.difference > 0 and found.p_value < 0.05
    assert beaten <= 15


# --- In a run ---


def test_the_candidates_of_a_search_have_their_logits(tmp_path: Path) -> None:
    one = asked(shifted=False)[0]
    found = ranked(collection_of(tmp_path), AttentionHead(INITIAL), one)
    assert len(found.rows) == len(found.logits) > 10
    assert (np.diff(found.logits) <= 0).all()
    shown = found.among({int(row) for row in found.rows[3:5]} | {10**6})
    assert (shown.rows, shown.logits.tolist()) == (found.rows[3:5], found.logits[3:5].tolist())
    assert found.among(None) is found


def test_the_likelihood_of_judgments_is_compared_where_judgments_decide(tmp_path: Path) -> None:
    judged = asked(shifted=False, count=60)
    found = compared(tmp_path / "judged", judged, 0.0)
    assert found.comparisons[JUDGED].queries == found.comparisons["nDCG@10"].queries == 60
    assert not clicks_decide(found.comparisons)
    decision = found.decide()
    assert [check.name for check in decision.checks] == ["judgments_better", "ndcg_not_lower", "recall_not_worse"]
    assert JUDGED in decision.reasons[0]
    assert "nDCG@10" in decision.reasons[0]
    clicked = compared(tmp_path / "clicked", [with_a_click(one) for one in judged], 0.0)
    assert clicks_decide(clicked.comparisons)
    assert JUDGED not in clicked.comparisons


def test_few_clicks_leave_the_decision_to_the_judgments(tmp_path: Path) -> None:
    learn, test = split(asked(shifted=False, count=60))
    feedback: list[Feedback] = [*learn, *map(with_a_click, test)]
    found = compared(tmp_path, feedback, 0.0)
    assert not clicks_decide(found.comparisons)
    assert found.decide().checks[0].name == "judgments_better"


def test_the_overestimate_of_the_likelihood_is_that_of_ndcg_times_the_slope(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = asked(shifted=False, count=60)
    found: list[HeldOut] = []
    for name, overestimate in (("plain", 0.0), ("lowered", 0.01)):
        monkeypatch.setattr("index.learning.held_out.regression_slope", lambda gains, others: 3.0)
        found.append(compared(tmp_path / name, judged, overestimate))
    plain, lowered = found
    share = plain.counts["cross_fitted"] / 60
    lost = plain.comparisons[JUDGED].difference - lowered.comparisons[JUDGED].difference
    assert lost == pytest.approx(3 * 0.01 * share, rel=1e-3)
    assert estimate_clicks(judged).examination.pairs == 0
