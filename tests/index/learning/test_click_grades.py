"""Grades from clicks: two click rates are estimated from the whole log, and documents are graded by them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from index.learning.attraction import (
    ASSUMED_ATTRACTION,
    PRIOR_EXAMINATIONS,
    Attraction,
    Outcomes,
    estimate_attraction,
)
from index.learning.click_model import (
    BEST_GRADE,
    ClickModel,
    Examination,
    as_judged,
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
    """Return queries of ten documents, each relevant with probability `share`, at most one click in each list."""
    random = np.random.default_rng(seed)
    log = []
    for query in range(queries):
        rate = np.where(random.random(10) < rates.share, rates.worth, rates.noise)
        drawn = random.binomial(lists, rate).tolist()
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


def test_without_queries_that_have_no_click_noise_is_overestimated() -> None:
    log = short_log()
    every = estimate_attraction(log, FLAT)
    conditioned = estimate_attraction([one for one in log if not one.is_silent], FLAT)
    assert abs(every.noise - 0.1) < 0.05
    assert conditioned.noise > 1.5 * every.noise
    clicked_twice = on_top("query", {0: 2, 1: 2}, {0: 2.0, 1: 1.0})
    for one in (every, conditioned):
        grades = held_out_gains(clicked_twice, model_of(one, 1.0))
        assert grades[0] > grades[1]


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


def drawn_at(position: int, examined: float, lists: int, queries: int = 300) -> list[Feedback]:
    """Return a log with `RATES` whose documents were all shown at one position, which so many searchers examine."""
    rates = Attraction(RATES.noise * examined, RATES.worth * examined, RATES.share)
    log = drawn_log(rates, queries, lists)
    return [replace(one, shown={row: {position: lists} for row in one.shown or {}}) for one in log]


def test_the_rates_do_not_depend_on_the_position_of_the_impressions() -> None:
    quarter = np.asarray([1.0, *[0.25] * (POSITIONS - 1)], np.float32)
    for log in (drawn_at(1, 1.0, 20), drawn_at(2, 0.25, 80)):
        found = estimate_attraction(log, quarter)
        assert [found.noise, found.worth] == pytest.approx([RATES.noise, RATES.worth], rel=0.1)


@pytest.mark.parametrize("lists", [3, 5])
def test_a_few_lists_tell_relevant_and_irrelevant_documents_apart(lists: int) -> None:
    """Read as Poisson counts, two clicks in two lists look like a rate above 1, and all clicks get the best grades."""
    found = estimate_attraction(drawn_log(Attraction(0.1, 0.7, 0.2), 1000, lists), FLAT)
    assert [found.noise, found.worth, found.share] == pytest.approx([0.1, 0.7, 0.2], rel=0.2)


@pytest.mark.parametrize(("share", "lists"), [(0.5, 10), (0.8, 10), (0.8, 30)])
def test_logs_whose_documents_are_mostly_relevant_have_their_rates(share: float, lists: int) -> None:
    rates = Attraction(0.05, 0.6, share)
    found = estimate_attraction(drawn_log(rates, 300, lists), FLAT)
    assert [found.noise, found.worth, found.share] == pytest.approx([0.05, 0.6, share], rel=0.15)


@pytest.mark.parametrize("lists", [1, 2])
def test_where_one_or_two_lists_cannot_tell_few_documents_are_taken_as_relevant(lists: int) -> None:
    assert estimate_attraction(drawn_log(Attraction(0.05, 0.6, 0.2), 500, lists), FLAT).share < 0.3
    assert estimate_attraction(drawn_log(Attraction(0.05, 0.05, 0.5), 500, lists), FLAT).share < 0.3


def log_posterior(log: Sequence[Feedback], rates: Attraction) -> float:
    """Return the log likelihood of all outcomes with the prior of the initial rates; every impression is examined."""
    total, clicks, looked = 0.0, 0.0, 0.0
    for one in log:
        for row, impressions in (one.shown or {}).items():
            c, e = one.gains.get(row, 0.0), float(sum(impressions.values()))
            relevant = rates.share * rates.worth**c * (1 - rates.worth) ** (e - c)
            total += np.log(relevant + (1 - rates.share) * rates.noise**c * (1 - rates.noise) ** (e - c))
            clicks, looked = clicks + c, looked + e
    mean = clicks / looked
    for rate, start in ((rates.worth, 3 * mean), (rates.noise, mean / 2)):
        total += PRIOR_EXAMINATIONS * (start * np.log(rate) + (1 - start) * np.log(1 - rate))
    return float(total)


def test_no_em_step_lowers_the_likelihood(monkeypatch: pytest.MonkeyPatch) -> None:
    log = drawn_log(Attraction(0.1, 0.4, 0.2), queries=20, lists=10)
    likelihoods = []
    for steps in range(25):
        monkeypatch.setattr("index.learning.attraction.MIXTURE_STEPS", steps)
        likelihoods.append(log_posterior(log, estimate_attraction(log, FLAT)))
    assert (np.diff(likelihoods) > -1e-9).all()
    assert likelihoods[-1] > likelihoods[0] + 10


def outcomes(clicks: Sequence[float], looked: Sequence[float]) -> Outcomes:
    """Return documents with so many clicks and examinations, all on top."""
    passed, pair = np.maximum(np.subtract(looked, clicks), 0), np.arange(len(clicks))
    own, examinations = np.asarray(clicks, np.float64), np.asarray(looked, np.float64)
    return Outcomes(own, examinations, pair, np.zeros_like(pair), passed, FLAT.astype(np.float64))


def test_the_posterior_is_bayes_rule_by_hand() -> None:
    """Four impressions on top with two clicks, and three that half of the searchers examine, with one click."""
    one = replace(clicked("query", {7: {1: 4, 2: 3}}, {7: 3.0}), clicks={7: {1: 2, 2: 1}})
    half = np.asarray([1.0, *[0.5] * (POSITIONS - 1)], np.float32)
    chances = [rate**2 * (1 - rate) ** 2 * (rate / 2) * (1 - rate / 2) ** 2 for rate in (0.6, 0.05)]
    found = RATES.posterior(Outcomes.of([one], half))
    assert found.tolist() == pytest.approx([0.1 * chances[0] / (0.1 * chances[0] + 0.9 * chances[1])])


def test_grades_of_clicks_count_as_so_many_clicks() -> None:
    """A click of grade .5 is half a click; a purchase of grade 3 leaves no impression of its position unclicked."""
    shown = {1: {1: 2, 4: 2}, 2: {1: 2, 4: 2}, 3: {1: 2, 4: 2}}
    one = replace(clicked("query", shown, {1: 0.5, 2: 3.0}), clicks={1: {4: 1}, 2: {4: 1}, 3: {4: 0}})
    found = Outcomes.of([one], FLAT)
    assert found.clicks.tolist() == [0.5, 3.0, 0.0]
    entries = zip(found.pair.tolist(), found.rank.tolist(), found.passed.tolist(), strict=True)
    assert list(entries) == [(0, 0, 2.0), (0, 3, 1.5), (1, 0, 2.0), (2, 0, 2.0), (2, 3, 2.0)]
    unknown = Outcomes.of([replace(one, clicks=None)], FLAT)
    assert unknown.passed.tolist() == [1.75, 1.75, 0.5, 0.5, 2.0, 2.0]


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


@pytest.mark.parametrize("rates", [RATES, ASSUMED_ATTRACTION, Attraction(0.3, 0.95, 0.001)])
def test_worth_rises_with_clicks_falls_with_examinations_and_is_between_0_and_1(rates: Attraction) -> None:
    looked, clicks = np.meshgrid(np.geomspace(0.05, 500, 60), np.arange(60.0))
    worth = rates.worth_of(outcomes(clicks.ravel(), looked.ravel())).reshape(clicks.shape)
    assert worth.min() >= 0.0
    assert worth.max() == 1.0
    assert (np.diff(worth, axis=0) >= 0).all()
    assert (np.diff(worth, axis=1) <= 0).all()
    assert worth[10, 0] > worth[1, 0] > worth[0, 0]


def test_few_examinations_are_weak_evidence() -> None:
    """2 clicks in 2 examinations and 20 in 20 are a rate of 1; both get 2 examinations at the noise rate."""
    worth = RATES.worth_of(outcomes([2.0, 20.0], [2.0, 20.0]))
    chance = RATES.posterior(outcomes([2.0, 20.0], [2.0, 20.0]))
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
    one = clicked("query", {1: {1: 100}, 2: {2: 100}, 3: {3: 100}}, {1: 22.0, 2: 22.0})
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
