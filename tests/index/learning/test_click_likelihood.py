"""The likelihood of held-out clicks, and the documents that no list showed."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.evaluation.significance import compare
from index.generation.generation import Generation
from index.learning.click_likelihood import (
    CLICKS,
    Clicked,
    click_table,
    clicked,
    clicked_pairs,
    clicked_queries,
    compare_clicks,
    likelihoods,
    never_shown,
    query_weights,
)
from index.learning.conditional_logit import Calibration, ChoiceTable
from index.learning.examples import Feedback
from index.memory.click_worth import POSITIONS
from index.ranking.attention import AttentionHead
from tests.index.learning_fixtures import COUNT, DIM, INITIAL, asked, collection_of

FLAT = np.ones(POSITIONS, np.float32)
HALVED = (0.5 ** np.arange(POSITIONS)).astype(np.float32)


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Generation:
    return collection_of(Path(tmp_path_factory.mktemp("likelihood")))


def shown_to(feedback: Feedback, rows: list[int], clicks: dict[int, int]) -> Feedback:
    """Return a query whose documents were shown once, from the top down, with these clicks."""
    shown = {row: {position: 1} for position, row in enumerate(rows, 1)}
    by_position = {row: {rows.index(row) + 1: times} for row, times in clicks.items()}
    gains = {row: float(times) for row, times in clicks.items()}
    return replace(feedback, gains=gains, shown=shown, clicks=by_position)


def log(shifted: bool, count: int = 60) -> list[Feedback]:
    """Return queries with one click each, on the right one of ten documents in random order."""
    random = np.random.default_rng(3)
    found = []
    for one in asked(shifted=shifted, count=count, noise=0.05):
        (right,) = one.gains
        others = random.permutation([row for row in range(COUNT) if row != right])[:9].tolist()
        rows = random.permutation([right, *others]).tolist()
        found.append(shown_to(one, rows, {right: 1}))
    return found


QUARTER = Calibration(np.full(3, 0.25), np.asarray([1.0, 2.0]))
"""A temperature of 4."""


def drawn(count: int, seed: int = 0) -> dict[str, Clicked]:
    """Return queries with one click each, drawn from the softmax of the logits of eight documents."""
    random = np.random.default_rng(seed)
    queries = {}
    for at in range(count):
        logits = random.normal(size=8)
        liked = int(np.argmax(logits + random.gumbel(size=8)))
        queries[f"query {at}"] = Clicked(logits, np.zeros(8), (np.arange(8) == liked).astype(float), np.ones(8))
    return queries


def table_of(queries: dict[str, Clicked]) -> ChoiceTable:
    return click_table({key: (one.log_propensity, one.clicks) for key, one in queries.items()})


def test_the_likelihood_agrees_with_a_softmax_by_hand() -> None:
    logits, clicks = np.asarray([2.0, 1.0]), np.asarray([1.0, 3.0])
    first = 0.5 * math.exp(2 / 4) / (0.5 * math.exp(2 / 4) + math.exp(1 / 4))
    first = 0.95 * first + 0.05 * 0.5 / 1.5  # one click in twenty is by chance
    table = click_table({"a": (np.log([0.5, 1.0]), clicks)})
    by_hand = (math.log(first) + 3 * math.log(1 - first)) / 4
    assert table.likelihoods({"a": logits}, QUARTER) == {"a": pytest.approx(by_hand)}


def test_a_query_counts_by_its_number_of_clicks_up_to_a_bound() -> None:
    clicks = {"few": np.asarray([1.0, 0.0]), "some": np.asarray([2.0, 3.0]), "many": np.asarray([0.0, 995.0])}
    weights = query_weights(clicks)
    assert np.mean(list(weights.values())) == pytest.approx(1.0)
    assert weights["some"] / weights["few"] == pytest.approx((5 / 10) / (1 / 6))
    assert weights["many"] / weights["some"] == pytest.approx((995 / 1000) / (5 / 10))
    logits = {key: np.asarray([1.0, 0.0]) for key in clicks}
    shown = {key: (np.zeros(2), of) for key, of in clicks.items()}
    alone = {key: click_table({key: of}).likelihoods(logits, QUARTER)[key] for key, of in shown.items()}
    together = click_table(shown).likelihoods(logits, QUARTER)
    assert together == pytest.approx({key: weights[key] * value for key, value in alone.items()})


def test_the_weights_halve_the_variance_of_a_gain_where_many_queries_have_one_click() -> None:
    """A head that is better by the same logits on every query; nine of ten queries have a single click."""
    random = np.random.default_rng(0)
    before, after = {}, {}
    for at in range(600):
        logits = random.normal(size=8)
        count = 30 if at % 10 == 0 else 1
        clicks = random.multinomial(count, np.exp(logits) / np.exp(logits).sum()).astype(float)
        noisy = logits + 0.7 * random.normal(size=8)
        before[str(at)], after[str(at)] = (Clicked(of, np.zeros(8), clicks, np.ones(8)) for of in (noisy, logits))
    weights = query_weights({key: one.clicks for key, one in before.items()})
    weighted = compare_clicks(before, after)
    old, new = (likelihoods(side) for side in (before, after))
    plain = compare(CLICKS, *({key: of[key] / weights[key] for key in of} for of in (old, new)))
    assert weighted.low > 0
    assert weighted.difference / (weighted.high - weighted.low) > 1.1 * plain.difference / (plain.high - plain.low)


def test_g_falls_with_the_distance_and_its_slope_changes_at_the_knots() -> None:
    g = Calibration(np.asarray([1.0, 0.5, 2.0]), np.asarray([1.0, 3.0]))
    assert g(np.asarray([[0.0, 1.0, 2.0, 3.0, 5.0]])).tolist() == [[0.0, -1.0, -1.5, -2.0, -6.0]]


def test_the_scale_of_a_head_does_not_matter() -> None:
    queries = drawn(60)
    scaled = {key: replace(one, logits=7 * one.logits) for key, one in queries.items()}
    assert list(likelihoods(scaled).values()) == pytest.approx(list(likelihoods(queries).values()), abs=1e-3)


def test_logits_that_squeeze_the_order_of_another_head_gain_nothing() -> None:
    """A temperature alone would prefer the logits that the clicks were drawn from."""
    queries = drawn(400)
    plain = np.mean(list(likelihoods(queries).values()))
    for power in (0.7, 1.5):
        bent = {key: replace(one, logits=-((one.logits.max() - one.logits) ** power)) for key, one in queries.items()}
        assert plain == pytest.approx(np.mean(list(likelihoods(bent).values())), abs=0.01)
    shuffled = {key: replace(one, logits=one.logits[::-1]) for key, one in queries.items()}
    assert np.mean(list(likelihoods(shuffled).values())) < plain - 0.1


def test_a_single_click_far_below_the_best_document_does_not_decide() -> None:
    """No click of the fitted half is that far, so g may be steep there."""
    queries = drawn(60)
    far = Clicked(np.asarray([0.0, -50.0]), np.zeros(2), np.asarray([0.0, 1.0]), np.ones(2))
    assert likelihoods(queries | {"far": far})["far"] > math.log(0.05 / 2) - 0.01


def test_the_calibration_is_the_best_of_its_family() -> None:
    queries = drawn(80)
    table, logits = table_of(queries), {key: one.logits for key, one in queries.items()}
    best = table.calibrated(table.distances(logits))
    assert (best.weights >= 0).all()
    reached = sum(table.likelihoods(logits, best).values())
    random = np.random.default_rng(5)
    for _ in range(50):
        other = Calibration(np.abs(best.weights + random.normal(0, 0.3, 3)), best.knots)
        assert sum(table.likelihoods(logits, other).values()) <= reached + 1e-6


def test_the_gradient_of_the_calibration_equals_finite_differences() -> None:
    random = np.random.default_rng(1)
    lengths = (2, 5, 9)  # the shorter queries have empty slots
    clicks = [random.integers(0, 3, length) + (np.arange(length) == 0) for length in lengths]
    table = click_table({str(len(one)): (-random.random(len(one)), one) for one in clicks})
    features = -random.random((3, len(lengths), max(lengths)))
    for weights in (np.asarray([1.0, 1.0, 1.0]), np.asarray([0.0, 3.0, 20.0])):
        _, gradient = table.loss(weights, features)
        for at, step in enumerate(1e-6 * np.eye(3)):
            after, before = (table.loss(weights + side * step, features)[0] for side in (1, -1))
            assert gradient[at] == pytest.approx((after - before) / 2e-6, rel=1e-5, abs=1e-7)


@pytest.mark.filterwarnings("error")
def test_equal_logits_leave_the_propensities_alone() -> None:
    table = click_table({"a": (np.log([1.0, 0.5]), np.asarray([0.0, 2.0]))})
    assert table.likelihoods({"a": np.full(2, 7.0)}) == {"a": pytest.approx(math.log(1 / 3))}


def test_a_fit_has_the_same_bits_twice() -> None:
    queries = drawn(50)
    assert likelihoods(queries) == likelihoods(queries)


def test_propensities_come_from_the_positions(collection: Generation) -> None:
    one = shown_to(asked(shifted=False)[0], [4, 9, 30], {9: 1})
    found = clicked(collection, AttentionHead(INITIAL), one, HALVED)
    assert found is not None
    assert np.exp(found.log_propensity).tolist() == pytest.approx([1.0, 0.5, 0.25])
    assert found.clicks.tolist() == [0, 1, 0]
    assert found.examinations.tolist() == pytest.approx([1.0, 0.5, 0.25])


def test_a_head_that_ranks_clicked_documents_first_has_the_better_likelihood(collection: Generation) -> None:
    right = AttentionHead(INITIAL)
    wrong = AttentionHead(INITIAL)
    wrong = wrong.changed(beta=np.zeros_like(wrong.beta))
    queries = log(shifted=False)
    found = compare_clicks(*clicked_pairs(collection, wrong, [(one, right) for one in queries], FLAT))
    assert (found.measure, found.queries) == (CLICKS, len(queries))
    assert found.low > 0
    worse = compare_clicks(*clicked_pairs(collection, right, [(one, wrong) for one in queries], FLAT))
    assert worse.high < 0


def test_without_clicks_on_shown_documents_there_is_no_comparison(collection: Generation) -> None:
    head = AttentionHead(INITIAL)
    gone = shown_to(asked(shifted=False)[0], [1, COUNT + 5], {COUNT + 5: 1})
    assert clicked(collection, head, gone, FLAT) is None
    assert clicked_pairs(collection, head, [(gone, head)], FLAT) == ({}, {})
    judged = asked(shifted=False)[:3]
    silent = Feedback("silent", "", np.empty(0, np.float32), {}, {1: {1: 1}, 2: {2: 1}}, {})
    assert clicked_queries([*judged, silent]) == []


def test_documents_that_no_list_showed_are_counted_but_for_new_ones() -> None:
    one = shown_to(Feedback("query", "", np.zeros(DIM, np.float32), {}), [1, 2, 3], {1: 1})
    run = {"query": ["1", "2", "7", "8", "50"]}
    assert never_shown(run, [one], new={50}) == pytest.approx(2 / 5)
    assert never_shown(run, [one], new=set()) == pytest.approx(3 / 5)
    assert never_shown({}, [], new=set()) == 0.0


# --- The table of a trial ---


def test_a_table_fits_g_on_its_own_queries() -> None:
    queries = drawn(30)
    table, logits = table_of(queries), {key: one.logits for key, one in queries.items()}
    assert table.likelihoods(logits) == table.likelihoods(logits, table.calibrated(table.distances(logits)))


def test_a_table_without_queries_has_no_likelihoods() -> None:
    assert click_table({}).likelihoods({}) == {}


@pytest.mark.filterwarnings("error")
def test_documents_without_clicks_and_empty_slots_count_in_the_softmax_alone() -> None:
    table = click_table({"a": (np.zeros(3), np.asarray([0.0, 1.0, 0.0])), "b": (np.zeros(2), np.asarray([1.0, 0.0]))})
    found = table.likelihoods({"a": np.zeros(3), "b": np.zeros(2)})
    assert found == {"a": pytest.approx(math.log(1 / 3)), "b": pytest.approx(math.log(1 / 2))}
