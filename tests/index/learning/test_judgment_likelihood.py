"""The likelihood of held-out judgments, and the gate that reads it."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.evaluation.significance import compare
from index.learning.conditional_logit import CHANCE
from index.learning.examples import Feedback, split
from index.learning.held_out import HeldOut, clicks_decide, ranked
from index.learning.judgment_likelihood import CANDIDATES, JUDGMENTS, ScoredRows, judgment_likelihoods
from index.ranking.attention import AttentionHead
from tests.index.learning.test_held_out import compared, with_a_click
from tests.index.learning_fixtures import INITIAL, asked, collection_of

DOCUMENTS = [str(row) for row in range(40)]
FIRST, LAST = {"1": 3, "3": 1}, {"1": 1, "3": 3}
"""Grades of three documents: the first or the last of them is the best."""


def by_logits(logits: np.ndarray) -> ScoredRows:
    """Return the documents of a query in the order of their logits."""
    order = np.argsort(-logits)
    return ScoredRows([DOCUMENTS[at] for at in order], logits[order].astype(np.float32))


def drawn(
    queries: int, noise: float, seed: int = 0, noises: int = 0
) -> tuple[dict[str, ScoredRows], dict[str, ScoredRows], dict[str, dict[str, int]]]:
    """Return two heads and the relevant documents: one head has the logits that draw them, the other adds noise."""
    random, other = np.random.default_rng(seed), np.random.default_rng([seed, noises])
    noisy, right, qrels = {}, {}, {}
    for at in range(queries):
        logits = 1.5 * random.normal(size=len(DOCUMENTS))
        noisy[str(at)] = by_logits(logits + noise * other.normal(size=len(DOCUMENTS)))
        right[str(at)] = by_logits(logits)
        qrels[str(at)] = {DOCUMENTS[int(np.argmax(logits + random.gumbel(size=len(DOCUMENTS))))]: 1}
    return noisy, right, qrels


def test_equal_logits_give_every_document_of_both_heads_the_same_probability() -> None:
    before = {"a": ScoredRows(["1", "2"], np.zeros(2, np.float32))}
    after = {"a": ScoredRows(["2", "3"], np.zeros(2, np.float32))}
    left, right = judgment_likelihoods(before, after, {"a": {"3": 2, "1": 0, "9": 4}})
    assert left == right == {"a": pytest.approx(math.log(1 / 3))}


def test_documents_weigh_by_their_grades() -> None:
    logits = ScoredRows(["1", "2", "3"], np.asarray([2.0, 1.0, 0.0], np.float32))
    alone = {row: judgment_likelihoods({"a": logits}, {"a": logits}, {"a": {row: 1}})[0]["a"] for row in ("1", "3")}
    assert alone["1"] > alone["3"]
    graded, _ = judgment_likelihoods({"a": logits}, {"a": logits}, {"a": {"1": 3, "2": 0, "3": -1}})
    assert graded["a"] == pytest.approx(alone["1"]), "only positive grades are relevant"
    first, last = (judgment_likelihoods({"a": logits}, {"a": logits}, {"a": of})[0]["a"] for of in (FIRST, LAST))
    assert first > last + 0.05
    assert last == pytest.approx(math.log(1 / 3), abs=1e-3), "g falls, so no g is better than equal probabilities"


def test_distances_are_in_units_of_their_mean_and_a_missing_document_has_the_last_logit() -> None:
    one = ScoredRows(["1", "2"], np.asarray([3.0, 1.0], np.float32))
    assert one.scores_of(["2", "7", "1"]).tolist() == pytest.approx([-1.5, -1.5, 0.0])
    assert ScoredRows(["1"], np.ones(1, np.float32)).scores_of(["1"]).tolist() == [0.0]


def test_a_query_whose_relevant_documents_no_head_has_makes_no_difference() -> None:
    noisy, right, qrels = drawn(40, 1.0)
    known = judgment_likelihoods(noisy, right, qrels)
    lost = {"lost": by_logits(np.arange(40.0))}
    found = judgment_likelihoods(noisy | lost, right | lost, qrels | {"lost": {"77": 1}, "bad": {"3": 0}})
    assert found == tuple(side | {"lost": 0.0} for side in known), "a query without a relevant document does not count"


def test_the_scale_of_the_logits_on_a_query_does_not_matter() -> None:
    """A head with the same rankings that knows which queries are hard gains nothing: no list changes."""
    noisy, right, qrels = drawn(60, 1.0)
    random = np.random.default_rng(1)
    scaled = {key: replace(one, logits=one.logits * np.exp(random.normal())) for key, one in right.items()}
    plain, other = (judgment_likelihoods(noisy, side, qrels)[1] for side in (right, scaled))
    assert other == pytest.approx(plain, abs=1e-3)
    assert np.ptp(list(plain.values())) > 1


@pytest.mark.parametrize("shape", [np.sqrt, np.log1p, np.square])
def test_other_distances_in_the_same_order_are_no_better_and_no_worse(
    shape: Callable[[np.ndarray], np.ndarray],
) -> None:
    """The distances of a head are not those that draw the judgments, but a monotone function of them."""
    noisy, right, qrels = drawn(200, 1.0)
    shaped = {key: replace(one, logits=-shape(one.logits[0] - one.logits)) for key, one in right.items()}
    plain, other = (judgment_likelihoods(noisy, side, qrels)[1] for side in (right, shaped))
    differences = np.asarray([other[key] - plain[key] for key in plain])
    worse, _ = judgment_likelihoods(noisy, right, qrels)
    gained = np.asarray([plain[key] - worse[key] for key in plain])
    assert abs(differences.mean()) < 0.1 * gained.mean()


def test_a_relevant_document_far_below_does_not_decide() -> None:
    noisy, right, qrels = drawn(60, 1.0)
    far = {"far": ScoredRows(["1", "2"], np.asarray([0.0, -90.0], np.float32))}
    found, _ = judgment_likelihoods(noisy | far, right | far, qrels | {"far": {"2": 1}})
    assert found["far"] > math.log(CHANCE / 2) - 0.01


def test_the_likelihood_needs_fewer_queries_than_ndcg() -> None:
    """The same heads and judgments: its t is larger in the mean of forty logs."""
    ratios = []
    for seed in range(40):
        noisy, right, qrels = drawn(80, 0.4, seed)
        judged = compare(JUDGMENTS, *judgment_likelihoods(noisy, right, qrels))
        ndcg = compare(
            "nDCG@10", *({key: gain(one, qrels[key]) for key, one in side.items()} for side in (noisy, right))
        )
        ratios.append((judged.ratio, ndcg.ratio))
    judged_ratio, ndcg_ratio = np.mean(ratios, axis=0)
    assert judged_ratio > 1.2 * ndcg_ratio > 0


def gain(one: ScoredRows, grades: dict[str, int]) -> float:
    """Return nDCG@10 for a single relevant document."""
    (row,) = grades
    rank = list(one.rows).index(row)
    return 1 / math.log2(rank + 2) if rank < 10 else 0.0


def test_of_two_equally_good_heads_each_is_rarely_better() -> None:
    """Half of the level of a first decision is 2.5 % on one side."""
    better = 0
    for seed in range(120):
        one, _, qrels = drawn(30, 0.5, seed)
        other, _, _ = drawn(30, 0.5, seed, noises=seed + 1)
        found = compare(JUDGMENTS, *judgment_likelihoods(one, other, qrels))
        better += found.p_value < 0.05
    assert 1 <= better <= 13, "6 are expected on both sides"


def test_a_query_without_candidates_of_one_head_makes_no_difference() -> None:
    nothing = {"a": ScoredRows([], np.empty(0, np.float32))}
    some = {"a": ScoredRows(["1", "2"], np.asarray([2.0, 1.0], np.float32))}
    for before, after in ((nothing, some), (some, nothing), (nothing, nothing)):
        assert judgment_likelihoods(before, after, {"a": {"2": 1}}) == ({"a": 0.0}, {"a": 0.0})
    assert judgment_likelihoods({}, {}, {}) == ({}, {})


def test_the_best_candidates_count() -> None:
    many = ScoredRows([str(row) for row in range(900)], -np.arange(900, dtype=np.float32))
    assert many.among(None).rows == many.rows[:CANDIDATES]
    assert many.among({7, 850}).rows == ["7", "850"]


# --- In a run ---


def test_the_candidates_of_a_search_have_their_logits(tmp_path: Path) -> None:
    one = asked(shifted=False)[0]
    found = ranked(collection_of(tmp_path), AttentionHead(INITIAL), one)
    assert len(found.rows) == len(found.logits) > 10
    assert (np.diff(found.logits) <= 0).all()
    shown = found.among({int(row) for row in found.rows[3:5]} | {10**6})
    assert (shown.rows, shown.logits.tolist()) == (found.rows[3:5], found.logits[3:5].tolist())


def test_the_likelihood_of_judgments_is_compared_where_judgments_decide(tmp_path: Path) -> None:
    judged = asked(shifted=False, count=60)
    found = compared(tmp_path / "judged", judged, 0.0)
    assert found.comparisons[JUDGMENTS].queries == found.comparisons["nDCG@10"].queries == 60
    assert not clicks_decide(found.comparisons)
    decision = found.decide()
    assert [check.name for check in decision.checks] == ["judgments_better", "ndcg_not_lower", "recall_not_worse"]
    assert JUDGMENTS in decision.reasons[0]
    assert "nDCG@10" in decision.reasons[0]
    clicked = compared(tmp_path / "clicked", [with_a_click(one) for one in judged], 0.0)
    assert clicks_decide(clicked.comparisons)
    assert JUDGMENTS not in clicked.comparisons


def test_few_clicks_leave_the_decision_to_the_judgments(tmp_path: Path) -> None:
    learn, test = split(asked(shifted=False, count=60))
    feedback: list[Feedback] = [*learn, *map(with_a_click, test)]
    found = compared(tmp_path, feedback, 0.0)
    assert not clicks_decide(found.comparisons)
    assert found.decide().checks[0].name == "judgments_better"


def test_of_a_query_with_clicks_only_shown_documents_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: dict[str, list[int]] = {}

    def likelihoods(
        before: dict[str, ScoredRows], after: dict[str, ScoredRows], qrels: object
    ) -> tuple[dict[str, float], ...]:
        read.update({key: sorted(map(int, {*one.rows, *after[key].rows})) for key, one in before.items()})
        return dict.fromkeys(before, 0.0), dict.fromkeys(before, 0.0)

    monkeypatch.setattr("index.learning.held_out.judgment_likelihoods", likelihoods)
    learn, test = split(asked(shifted=False, count=60))
    clicked = list(map(with_a_click, test))
    compared(tmp_path, [*learn, *clicked], 0.0)
    assert all(set(read[one.query_key]) <= set(one.shown or {}) for one in clicked)
    assert all(len(read[one.query_key]) > 2 for one in learn)


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
    lost = plain.comparisons[JUDGMENTS].difference - lowered.comparisons[JUDGMENTS].difference
    assert lost == pytest.approx(3 * 0.01 * share, rel=1e-3)
