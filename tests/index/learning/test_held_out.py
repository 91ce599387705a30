"""The comparison of two heads: the overestimate is subtracted in the share of the queries that it concerns."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.evaluation.significance import Comparison
from index.learning.click_likelihood import (
    CLICKS,
    Clicked,
    clicked_pairs,
    compare_clicks,
    heavy_clients,
    shares_of_clients,
)
from index.learning.click_model import estimate_clicks
from index.learning.clicked_ranks import RANKS
from index.learning.config import Recipe
from index.learning.examples import FOLDS, TEST_FOLDS, UNKNOWN, Feedback, split
from index.learning.held_out import Choices, HeldOut, HopChoice, compare_heads
from index.learning.judgment_likelihood import JUDGMENTS
from index.learning.model_selection import Selection
from index.learning.prior_selection import NO_PRIORS
from index.learning.trainer import Trial
from index.learning.tree_selection import NO_TREES
from index.ranking.attention import AttentionHead
from tests.index.learning_fixtures import CONFIG, INITIAL, asked, collection_of, finished
from tests.index.ranking.attention_by_hand import only


def with_a_click(one: Feedback) -> Feedback:
    """Return a query whose list showed its right document second, and one further document first."""
    (right,) = one.gains
    shown = {(right - 1) % 60: {1: 1}, right: {2: 1}}
    return replace(one, shown=shown, clicks={right: {2: 1}})


def compared(directory: Path, feedback: list[Feedback], overestimate: float) -> HeldOut:
    """Return the comparison of INITIAL with a head that finds nothing, after choices with this overestimate."""
    champion, head = AttentionHead(replace(INITIAL, beta=only(words=1.0))), AttentionHead(INITIAL)
    trials = {fold: Trial(head, 1, {}) for fold in range(TEST_FOLDS, FOLDS)}
    optimism = {"nDCG@10": overestimate, CLICKS: overestimate}
    selection = Selection(Recipe("weights"), trials, {}, len(feedback), optimism, ())
    choices = Choices(selection, HopChoice(0.0, 0, {}, {}), NO_TREES, NO_PRIORS)
    learn, test = split(feedback)
    clicks = estimate_clicks(learn)
    steps = compare_heads(collection_of(directory), champion, head, choices, learn, test, clicks, CONFIG, frozenset())
    return finished(steps)[0]


def test_the_overestimate_counts_in_the_share_of_the_cross_fitted_queries_with_clicks(tmp_path: Path) -> None:
    """All queries with clicks are training queries; the test queries have judgments alone."""
    learn, test = split(asked(shifted=False, count=60))
    feedback = [*map(with_a_click, learn), *test]
    plain, lowered = (compared(tmp_path / name, feedback, by) for name, by in (("plain", 0.0), ("lowered", 0.1)))
    assert lowered.counts == {"test": len(test), "cross_fitted": len(learn), "clicked": len(learn)}
    share = {"nDCG@10": len(learn) / 60, CLICKS: 1.0}
    for measure, expected in share.items():
        difference = plain.comparisons[measure].difference - lowered.comparisons[measure].difference
        assert difference == pytest.approx(0.1 * expected)
    assert plain.judged is not None
    assert plain.judged.queries == len(test)
    assert lowered.judged == plain.judged, "no choice was made on the test queries"


@pytest.mark.parametrize(("regressed_slope", "factor"), [(0.25, 0.25), (4.0, 1.0)])
def test_the_overestimate_of_the_ranks_is_that_of_ndcg_times_the_slope_of_at_most_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, regressed_slope: float, factor: float
) -> None:
    feedback = [with_a_click(one) for one in asked(shifted=False, count=60)]
    regressed: list[tuple[set[str], set[str]]] = []

    def slope(gains: dict[str, float], others: dict[str, float]) -> float:
        regressed.append((set(gains), set(others)))
        return regressed_slope

    monkeypatch.setattr("index.learning.held_out.regression_slope", slope)
    plain, lowered = (compared(tmp_path / name, feedback, by) for name, by in (("plain", 0.0), ("lowered", 0.1)))
    share = plain.counts["cross_fitted"] / len(feedback)
    lost = plain.comparisons[RANKS].difference - lowered.comparisons[RANKS].difference
    assert lost == pytest.approx(factor * 0.1 * share)
    assert len(regressed) == 4, "for each of two curves"
    assert all(others and others <= gains for gains, others in regressed)


def test_where_no_document_changed_its_position_a_gain_must_hold_with_a_flatter_curve_too(tmp_path: Path) -> None:
    """Nothing in this log tells the examination, so the less favourable of two curves counts."""
    feedback = [with_a_click(one) for one in asked(shifted=False, count=60)]
    found = compared(tmp_path, feedback, 0.0).comparisons
    learn, _ = split(feedback)
    examination = estimate_clicks(learn).examination
    assert examination.pairs == 0
    assert examination.flatter == pytest.approx(examination.curve**0.75)
    assert replace(examination, pairs=30).flatter == pytest.approx(examination.curve**0.875)
    assert replace(examination, pairs=3000).flatter == pytest.approx(examination.curve, abs=0.01)
    collection = collection_of(tmp_path / "again")
    champion, head = AttentionHead(replace(INITIAL, beta=only(words=1.0))), AttentionHead(INITIAL)
    by_curve = [
        compare_clicks(*clicked_pairs(collection, champion, [(one, head) for one in feedback], curve))
        for curve in (examination.curve, examination.flatter)
    ]
    assert found[CLICKS].ratio == pytest.approx(min(one.ratio for one in by_curve), abs=1e-4)
    assert by_curve[0].ratio != pytest.approx(by_curve[1].ratio, abs=1e-2)


def clicked_by(one: Feedback, client: int, at: int) -> Feedback:
    """Return the query of `with_a_click` with a single click of a client, at a position."""
    row = next(row for row, positions in (one.shown or {}).items() if at in positions)
    return replace(one, gains={row: 1.0}, clicks={row: {at: 1}}, clients={row: {client: 1}})


def test_the_clicks_of_one_client_do_not_decide(tmp_path: Path) -> None:
    """One client clicks the right documents of most queries, and others the wrong ones of the rest."""
    feedback = [with_a_click(one) for one in asked(shifted=False, count=60)]
    right = [2 if number % 8 else 1 for number in range(60)]
    clients = {
        "unknown": [None] * 60,
        "one": [1 if at == 2 else 100 + number for number, at in enumerate(right)],
        "many": list(range(1, 61)),
        "the only one": [1] * 60,
    }
    found = {}
    for name, of in clients.items():
        log = [clicked_by(one, client or 0, at) for one, client, at in zip(feedback, of, right, strict=True)]
        if name == "unknown":
            log = [replace(one, clients=None) for one in log]
        found[name] = compared(tmp_path / name.replace(" ", ""), log, 0.0).comparisons
    for measure in (CLICKS, RANKS):
        plain = found["unknown"][measure]
        assert plain.is_better(0.05)
        assert (plain.clients, plain.without_one) == (None, None)
        one, many, alone = (found[name][measure] for name in ("one", "many", "the only one"))
        assert one.difference == many.difference == alone.difference == plain.difference
        assert one.without_one is not None
        assert one.without_one.difference <= 0
        assert not one.is_better(0.05)
        assert many.is_better(0.05)
        assert many.clients == 60
        assert alone == replace(plain, clients=1), "nothing is left without the only client"


def test_clients_without_a_name_are_left_out_together_where_they_have_at_most_half_of_the_clicks() -> None:
    assert heavy_clients({UNKNOWN: 0.5, 1: 0.3, 2: 0.2}) == [UNKNOWN, 1, 2]
    assert heavy_clients({UNKNOWN: 0.6, 1: 0.1, 2: 0.3}) == [2, 1]
    assert heavy_clients({UNKNOWN: 1.0}) == heavy_clients({1: 1.0}) == heavy_clients({}) == []
    assert heavy_clients(dict.fromkeys(range(1, 201), 1 / 200)) == [], "each has less than a hundredth"
    assert heavy_clients(dict.fromkeys(range(1, 31), 1 / 30)) == list(range(1, 11))


def test_a_client_is_heavy_by_its_queries_and_not_by_its_clicks() -> None:
    popular = Clicked(np.zeros(2), np.zeros(2), np.asarray([90.0, 10.0]), np.ones(2), clients=[{1: 90}, {2: 10}])
    rare = Clicked(np.zeros(2), np.zeros(2), np.asarray([0.0, 1.0]), np.ones(2), clients=[{}, {3: 1}])
    shares = shares_of_clients({"popular": popular} | {str(n): rare for n in range(3)})
    assert shares == pytest.approx({1: 0.9 / 4, 2: 0.1 / 4, 3: 0.75})
    assert heavy_clients(shares) == [3, 1, 2]


@pytest.mark.parametrize("others", [1, 2, 5])
def test_few_queries_without_one_client_prove_nothing(tmp_path: Path, others: int) -> None:
    feedback = [with_a_click(one) for one in asked(shifted=False, count=60)]
    log = [clicked_by(one, max(1, number - 58 + others), 2) for number, one in enumerate(feedback)]
    for measure in (CLICKS, RANKS):
        found = compared(tmp_path, log, 0.0).comparisons[measure]
        assert found.without_one is not None
        assert found.without_one.queries == others
        assert found.p_value < 0.01
        assert not found.is_better(0.05)


def test_documents_that_no_list_showed_count_only_where_clicks_decide() -> None:
    def better(measure: str, queries: int) -> Comparison:
        return Comparison(measure, queries, 0.5, 0.6, 0.1, 0.05, 0.15, 0.001, queries)

    recall = Comparison("R@100", 100, 0.9, 0.9, 0.0, 0.0, 0.0, 1.0, 100)
    for clicked, promoted in ((2, True), (80, False)):
        judged = {name: better(name, 100) for name in ("nDCG@10", JUDGMENTS)}
        measures = judged | {name: better(name, clicked) for name in (CLICKS, RANKS)} | {"R@100": recall}
        assert HeldOut(measures, {}, never_shown=(0.0, 0.35)).decide().promote is promoted


def test_clicks_do_not_outweigh_a_loss_on_judged_queries_where_judgments_decide() -> None:
    def measured(name: str, queries: int, difference: float) -> Comparison:
        low, high = difference - 0.05, difference + 0.05
        return Comparison(name, queries, 0.5, 0.5 + difference, difference, low, high, 0.001, queries)

    measures = {name: measured(name, 100, 0.1) for name in ("nDCG@10", JUDGMENTS)}
    measures |= {name: measured(name, 40, 0.4) for name in (CLICKS, RANKS)} | {"R@100": measured("R@100", 100, 0.0)}
    for loss, promoted in ((0.04, True), (0.1, False)):
        found = HeldOut(measures, {}, never_shown=(0.0, 0.0), judged=measured("nDCG@10", 60, -loss)).decide()
        assert [check.name for check in found.checks if not check.passed] == ([] if promoted else ["ndcg_not_worse"])
        assert found.promote is promoted


@pytest.mark.parametrize("better", [CLICKS, RANKS])
def test_either_measure_of_clicks_decides(better: str) -> None:
    def measured(name: str, difference: float, p_value: float) -> Comparison:
        return Comparison(name, 100, 0.5, 0.5 + difference, difference, -0.05, 0.15, p_value, 100)

    others = {name: measured(name, 0.0, 1.0) for name in ("nDCG@10", "R@100", CLICKS, RANKS)}
    assert not HeldOut(others, {}, never_shown=(0.0, 0.0)).decide().promote
    assert HeldOut(others | {better: measured(better, 0.1, 0.001)}, {}, never_shown=(0.0, 0.0)).decide().promote
    weak = measured(better, 0.1, 0.06)  # below the level, and above half of it
    assert not HeldOut(others | {better: weak}, {}, never_shown=(0.0, 0.0)).decide().promote
