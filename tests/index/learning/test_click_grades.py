"""Grades from clicks: two click rates are estimated from the whole log, and documents are graded by them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from index.learning.click_model import (
    ASSUMED_ATTRACTION,
    BEST_GRADE,
    PRIOR_EXAMINATIONS,
    Attraction,
    ClickModel,
    Examination,
    as_judged,
    estimate_attraction,
    estimate_clicks,
    held_out_gains,
    highest_hash,
)
from index.learning.examples import Feedback, Solved, hash_of, split
from index.memory.click_worth import ASSUMED_CURVE, POSITIONS

VECTOR = np.zeros(2, np.float32)
FLAT = np.ones(POSITIONS, np.float32)
RATES = Attraction(noise=0.05, worth=0.6, share=0.1)


def clicked(query_key: str, shown: Mapping[int, Mapping[int, int]], gains: Mapping[int, float]) -> Feedback:
    return Feedback(query_key, query_key, VECTOR, gains, shown)


def on_top(query_key: str, shown: Mapping[int, int], gains: Mapping[int, float]) -> Feedback:
    """Return a query whose documents were all shown at the first position, each this many times."""
    return clicked(query_key, {row: {1: times} for row, times in shown.items()}, gains)


def drawn_log(rates: Attraction, queries: int = 200, lists: int = 20, seed: int = 0) -> list[Feedback]:
    """Return queries of ten documents, each relevant with probability `share`; clicks are Poisson."""
    random = np.random.default_rng(seed)
    log = []
    for query in range(queries):
        rate = np.where(random.random(10) < rates.share, rates.worth, rates.noise)
        drawn = random.poisson(rate * lists).tolist()
        gains = {row: float(clicks) for row, clicks in enumerate(drawn) if clicks}
        log.append(on_top(str(query), dict.fromkeys(range(10), lists), gains))
    return log


def model_of(attraction: Attraction, *curve: float) -> ClickModel:
    chances = np.concatenate([curve, np.full(POSITIONS - len(curve), curve[-1])]).astype(np.float32)
    return ClickModel(Examination(chances, "assumed", 0, 0, 0), attraction)


def short_log(queries: int = 3000, seed: int = 0) -> list[Feedback]:
    """Return queries with two lists of five documents: in three of ten queries the first one is right.

    A searcher clicks a right document with probability .9, others with .1.
    """
    random = np.random.default_rng(seed)
    log = []
    for query in range(queries):
        is_right = (np.arange(5) == 0) & (random.random() < 0.3)
        drawn = (random.random((2, 5)) < np.where(is_right, 0.9, 0.1)).sum(axis=0).tolist()
        gains = {row: float(clicks) for row, clicks in enumerate(drawn) if clicks}
        vector = VECTOR if gains else np.empty(0, np.float32)
        log.append(replace(on_top(str(query), dict.fromkeys(range(5), 2), gains), vector=vector))
    return log


# --- Two rates of clicks ---


@pytest.mark.parametrize("rates", [RATES, Attraction(0.1, 0.4, 0.3), Attraction(0.02, 0.3, 0.05)])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_estimate_recovers_the_rates_of_sampled_clicks(rates: Attraction, seed: int) -> None:
    found = estimate_attraction(drawn_log(rates, seed=seed), FLAT)
    assert found.noise == pytest.approx(rates.noise, rel=0.1)
    assert found.worth == pytest.approx(rates.worth, rel=0.1)
    assert found.share == pytest.approx(rates.share, rel=0.2)


def test_queries_without_a_click_keep_noise_and_grades_apart() -> None:
    log = short_log()
    every = estimate_attraction(log, FLAT)
    conditioned = estimate_attraction([one for one in log if not one.is_silent], FLAT)
    assert abs(every.noise - 0.1) < 0.05
    assert conditioned.noise > 0.18
    clicked_twice = on_top("query", {0: 2, 1: 2}, {0: 2.0, 1: 1.0})
    told_apart, alike = (held_out_gains(clicked_twice, model_of(one, 1.0)) for one in (every, conditioned))
    assert told_apart[0] > told_apart[1]
    assert alike[0] == alike[1]


def test_a_sample_of_silent_queries_gives_the_rates_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    log = short_log(12_000)
    silent = [one for one in log if one.is_silent]
    kept = sorted(silent, key=lambda one: hash_of(one.query_key))[: len(silent) // 2]
    monkeypatch.setattr("index.learning.click_model.MAX_SILENT", len(kept))
    sample = [*(one for one in log if not one.is_silent), *kept]
    learned, _ = split(sample)  # its silent queries are fewer than the bound
    noise = estimate_clicks(split(log)[0]).attraction.noise
    assert estimate_clicks(learned, highest_hash(sample)).attraction.noise == pytest.approx(noise, rel=0.2)
    assert estimate_clicks(learned).attraction.noise > 1.2 * noise
    assert highest_hash(learned) is None


def test_a_query_with_weak_grades_has_little_confidence() -> None:
    model = model_of(RATES, 1.0)
    weak, strong = (as_judged(on_top("query", {1: times, 2: times}, {1: times / 2}), model) for times in (2, 40))
    assert 0 < weak.confidence < strong.confidence <= 1.0
    assert as_judged(Feedback("judged", "judged", VECTOR, {3: 1.0}), model).confidence == 1.0


def test_clicks_are_divided_by_expected_examinations_and_not_by_impressions() -> None:
    log = drawn_log(RATES)
    deep = [replace(one, shown={row: {2: 80} for row in one.shown or {}}) for one in log]
    quarter = np.asarray([1.0, *[0.25] * (POSITIONS - 1)], np.float32)
    assert estimate_attraction(deep, quarter) == estimate_attraction(log, FLAT)


def log_posterior(log: Sequence[Feedback], rates: Attraction) -> float:
    """Return the log likelihood of all counts, up to a constant, with the prior of the initial rates."""
    total, clicks, looked = 0.0, 0.0, 0.0
    for one in log:
        for row, showings in (one.shown or {}).items():
            c, e = one.gains.get(row, 0.0), float(sum(showings.values()))
            wanted = rates.share * rates.worth**c * math.exp(-rates.worth * e)
            total += math.log(wanted + (1 - rates.share) * rates.noise**c * math.exp(-rates.noise * e))
            clicks, looked = clicks + c, looked + e
    mean = clicks / looked
    for rate, start in ((rates.worth, 3 * mean), (rates.noise, mean / 2)):
        total += PRIOR_EXAMINATIONS * (start * math.log(rate) - rate)
    return total


def test_no_em_step_lowers_the_likelihood(monkeypatch: pytest.MonkeyPatch) -> None:
    log = drawn_log(Attraction(0.1, 0.4, 0.2), queries=20, lists=10)
    likelihoods = []
    for steps in range(25):
        monkeypatch.setattr("index.learning.click_model.MIXTURE_STEPS", steps)
        likelihoods.append(log_posterior(log, estimate_attraction(log, FLAT)))
    assert (np.diff(likelihoods) > -1e-9).all()
    assert likelihoods[-1] > likelihoods[0] + 10


def test_the_posterior_is_bayes_rule_by_hand() -> None:
    wanted = 0.1 * 0.6**4 * math.exp(-0.6 * 10)
    not_wanted = 0.9 * 0.05**4 * math.exp(-0.05 * 10)
    found = RATES.posterior(np.asarray([4.0]), np.asarray([10.0]))
    assert found.tolist() == pytest.approx([wanted / (wanted + not_wanted)])


@pytest.mark.parametrize("log", [[], [on_top("query", {1: 9}, {})], [Feedback("judged", "judged", VECTOR, {3: 2.0})]])
def test_without_clicks_the_assumed_rates_are_used(log: list[Feedback]) -> None:
    assert estimate_clicks(log).attraction == ASSUMED_ATTRACTION


def test_judgments_do_not_count_as_clicks() -> None:
    log = drawn_log(RATES, queries=40)
    judged = [Feedback(f"judged {n}", "judged", VECTOR, {n: 4.0}) for n in range(40)]
    assert estimate_clicks(log + judged).attraction == estimate_clicks(log).attraction


def test_the_record_of_a_run_has_the_rates_and_the_curve() -> None:
    said = estimate_clicks(drawn_log(RATES, queries=20)).as_dict()
    assert {"method", "curve"} < set(said)
    assert set(said["attraction"]) == {"noise", "worth", "share"}
    assert said["attraction"]["noise"] < 0.1 < 0.5 < said["attraction"]["worth"]


# --- The worth of a document ---


@pytest.mark.parametrize("rates", [RATES, ASSUMED_ATTRACTION, Attraction(0.3, 2.5, 0.001)])
def test_worth_rises_with_clicks_falls_with_examinations_and_is_between_0_and_1(rates: Attraction) -> None:
    looked, clicks = np.meshgrid(np.geomspace(0.05, 500, 60), np.arange(60.0))
    worth = rates.worth_of(clicks.ravel(), looked.ravel()).reshape(clicks.shape)
    assert worth.min() >= 0.0
    assert worth.max() == 1.0
    assert (np.diff(worth, axis=0) >= 0).all()
    assert (np.diff(worth, axis=1) <= 0).all()
    assert worth[10, 0] > worth[1, 0] > worth[0, 0]


def test_few_examinations_are_weak_evidence() -> None:
    """2 clicks in 2 examinations and 20 in 20 are a rate of 1; both get 2 examinations at the noise rate."""
    worth = RATES.worth_of(np.asarray([2.0, 20.0]), np.asarray([2.0, 20.0]))
    chance = RATES.posterior(np.asarray([2.0, 20.0]), np.asarray([2.0, 20.0]))
    assert worth.tolist() == pytest.approx([chance[0] * (2 + 2 * 0.05) / (2 + 2) / 0.6, 1.0])


# --- Grades ---


def test_a_list_of_irrelevant_documents_gets_no_grade_even_if_its_best_has_clicks() -> None:
    useless = on_top("useless", {1: 40, 2: 40, 3: 40}, {1: 4.0, 2: 2.0, 3: 1.0})
    useful = on_top("useful", {1: 40, 2: 40, 3: 40}, {1: 25.0, 2: 2.0, 3: 1.0})
    model = estimate_clicks([*drawn_log(RATES), useless, useful])
    assert held_out_gains(useless, model) == {1: 0, 2: 0, 3: 0}
    assert held_out_gains(useful, model) == {1: BEST_GRADE, 2: 0, 3: 0}


def test_the_same_clicks_are_graded_by_the_rates_of_their_log() -> None:
    one = on_top("query", {1: 30}, {1: 6.0})
    rarely, often = Attraction(0.01, 0.15, 0.1), Attraction(0.2, 0.9, 0.1)
    grades = [
        held_out_gains(one, estimate_clicks([*drawn_log(rates, lists=60, seed=2), one]))[1] for rates in (rarely, often)
    ]
    assert grades == [BEST_GRADE, 0]


def test_a_click_at_a_deep_position_is_worth_more_than_a_click_at_the_top() -> None:
    one = clicked("query", {1: {1: 100}, 2: {2: 100}, 3: {3: 100}}, {1: 20.0, 2: 20.0})
    assert held_out_gains(one, model_of(Attraction(0.05, 0.5, 0.1), 1.0, 0.4, 0.1)) == {1: 1, 2: BEST_GRADE, 3: 0}


def test_a_single_click_on_an_often_examined_document_gives_no_grade() -> None:
    one = on_top("query", {1: 100, 2: 100}, {1: 60.0, 2: 3.0})
    assert held_out_gains(one, model_of(RATES, 1.0)) == {1: BEST_GRADE, 2: 0}


def test_a_click_at_a_rarely_examined_position_is_weak_evidence() -> None:
    """Without LEAST_EXAMINATION an impression at the third position would count nothing, and its click be certain."""
    one = clicked("query", {1: {3: 40}, 2: {1: 2}}, {1: 1.0, 2: 2.0})
    grades = held_out_gains(one, model_of(RATES, 1.0, 0.1, 1e-6))
    assert grades[1] < 2 <= grades[2]


def test_judgments_are_rounded_and_empty_feedback_gives_no_grades() -> None:
    judged = Feedback("query", "query", VECTOR, {3: 0.3, 4: 0.0, 5: 2.6})
    assert held_out_gains(judged) == held_out_gains(judged, model_of(RATES, 1.0)) == {3: 1, 4: 0, 5: 3}
    assert held_out_gains(replace(judged, gains={}, shown={})) == {}
    assert held_out_gains(replace(judged, gains={}, shown={1: {1: 1}})) == {1: 0}


def test_without_a_log_clicks_are_graded_by_the_assumed_model() -> None:
    one = on_top("query", {1: 20, 2: 20}, {1: 12.0, 2: 1.0})
    assumed = ClickModel(Examination(ASSUMED_CURVE, "assumed", 0, 0, 0), ASSUMED_ATTRACTION)
    assert held_out_gains(one) == held_out_gains(one, assumed) == {1: BEST_GRADE, 2: 0}


def test_a_click_without_an_impression_counts_as_one_examination() -> None:
    one = replace(on_top("query", {1: 10}, {}), gains={9: 5.0})
    assert held_out_gains(one, model_of(RATES, 1.0)) == {1: 0, 9: BEST_GRADE}


# --- Clicks as judgments ---


def test_as_judged_does_not_change_judgments() -> None:
    judged = Feedback("query", "query", VECTOR, {3: 0.3, 4: 0.0})
    assert as_judged(judged, model_of(RATES, 1.0)) is judged


def test_as_judged_keeps_positive_grades_of_clicks_and_drops_their_lists() -> None:
    session = Solved({1: 1, 2: 2}, frozenset({1}))
    one = on_top("query", {1: 100, 2: 100, 3: 100}, {1: 60.0, 2: 3.0})
    one = replace(one, clicks={1: {1: 60}}, examined=frozenset({1, 2}), sessions=(session,))
    judged = as_judged(one, model_of(RATES, 1.0))
    assert judged.gains == {1: float(BEST_GRADE)}
    assert (judged.shown, judged.clicks, judged.examined) == (None, None, None)
    assert (judged.query_key, judged.text, judged.sessions) == (one.query_key, one.text, (session,))
