"""The mean of heads that are trained on several readings of the same clicks, and the number of epochs of all folds."""

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from index.generation.generation import Generation
from index.learning.click_likelihood import CLICKS
from index.learning.config import AVERAGED, AVERAGED_OF, Recipe, Step
from index.learning.examples import Example, fold_of, make_examples
from index.learning.model_selection import (
    CLICK_COST,
    COST,
    GRADED_CLICK_COST,
    RECIPES,
    VALUES,
    ClickInterpretations,
    _chosen,
    _cost,
    _groups,
    _optimism,
    _RecipeSearch,
    _values,
    label,
    select,
)
from index.learning.optimism import Measured
from index.learning.trainer import TrainingSplit, Trial, _Validation, at_common_epoch, mean_head, run_trial
from index.learning.trial_cache import TrialCache
from index.ranking.attention import AttentionHead
from tests.index.learning_fixtures import CONFIG, COUNT, INITIAL, QUICK, asked, collection_of, finished

WEIGHTS = Recipe("weights", interpretation=AVERAGED)
Parameters = dict[str, list[float]]


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Generation:
    return collection_of(tmp_path_factory.mktemp("collection"))


def readings(collection: Generation) -> tuple[list[Example], list[Example]]:
    """Return examples that pull in two directions: shifted queries, and the same with other relevant documents."""
    one = make_examples(collection, asked(shifted=True), lambda vector: vector[None], COUNT)
    shown = [replace(each.feedback, shown={row: {1: 1} for row in each.feedback.gains}) for each in one]
    other = [
        replace(each, feedback=clicked, gains=np.roll(each.gains, 3)) for each, clicked in zip(one, shown, strict=True)
    ]
    return one, other


def interpretations(collection: Generation) -> ClickInterpretations:
    graded, debiased = readings(collection)
    qrels = {one.feedback.query_key: {str(row): 1 for row in one.feedback.gains} for one in graded}
    return ClickInterpretations({"graded": graded, "debiased": debiased, "naive": debiased}, qrels, None)


def parameters(head: AttentionHead) -> Parameters:
    return {name: np.ravel(value).tolist() for name, value in head.parameters_by_name().items()}


def trained(
    collection: Generation, train: Sequence[Example], beside: Sequence[Sequence[Example]] = (), epochs: int = 2
) -> AttentionHead:
    data = TrainingSplit(train, (), {}, beside=beside)
    return finished(run_trial(collection, data, INITIAL, WEIGHTS, epochs, CONFIG))[0].head


def test_the_mean_head_has_the_mean_of_every_parameter() -> None:
    first, second = AttentionHead(INITIAL), AttentionHead(INITIAL)
    second = second.changed(beta=second.beta + 2, null=second.null - 1)
    mean = mean_head([first, second])
    assert mean.config == first.config
    assert mean.beta.tolist() == pytest.approx((first.beta + 1).tolist())
    assert mean.null.tolist() == pytest.approx((first.null - 0.5).tolist())
    assert parameters(mean_head([first])) == parameters(first)


def test_a_trial_with_two_readings_is_the_mean_of_a_trial_of_each(collection: Generation) -> None:
    one, other = readings(collection)
    both = trained(collection, one, [other])
    alone = [trained(collection, one), trained(collection, other)]
    assert parameters(alone[0]) != parameters(alone[1])
    assert parameters(both) == parameters(mean_head(alone))


def test_the_mean_is_what_is_validated(collection: Generation) -> None:
    known = interpretations(collection)
    graded, debiased = known.examples["graded"], known.examples["debiased"]
    data = TrainingSplit(graded[20:], graded[:20], known.qrels, beside=[debiased[20:]])
    trial = finished(run_trial(collection, data, INITIAL, WEIGHTS, 2, CONFIG))[0]
    assert len(trial.history) == 2
    for epoch, measured in enumerate(trial.history, 1):
        mean = trained(collection, graded[20:], [debiased[20:]], epoch)
        assert parameters(trial.heads[epoch - 1]) == parameters(mean)
        assert _Validation(collection, data).measure(mean)[0] == measured


def test_an_averaged_recipe_trains_on_both_readings_without_the_fold(collection: Generation) -> None:
    known = interpretations(collection)
    group = frozenset([fold_of(known.examples["graded"][0].feedback.query_key)])
    split = known.split_for(WEIGHTS, (), group)
    assert len(split.beside) == len(AVERAGED_OF) - 1
    for examples in (split.train, *split.beside):
        assert 0 < len(examples) < len(known.examples["graded"])
        assert all(fold_of(one.feedback.query_key) not in group for one in examples)
    assert known.split_for(Recipe("weights", interpretation="naive")).beside == []


def test_a_reading_without_examples_is_left_out(collection: Generation) -> None:
    graded, _ = readings(collection)
    for examples in ({"graded": graded, "debiased": []}, {"graded": [], "debiased": graded}):
        split = ClickInterpretations(examples, {}, None).split_for(WEIGHTS)
        assert (split.train, split.beside) == (graded, [])


def test_without_clicks_recipes_are_graded(collection: Generation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("index.learning.model_selection.RECIPES", QUICK[:2])
    known = interpretations(collection)
    judged = replace(known, examples={"graded": known.examples["graded"]})
    for given, wanted in ((judged, "graded"), (known, AVERAGED)):
        selection, _ = finished(select(collection, given, INITIAL, CONFIG, TrialCache(None)))
        assert selection.as_dict()["reading"] == wanted


def test_examples_of_clicks_cost_less(collection: Generation) -> None:
    known = interpretations(collection)
    examples = len(known.examples["graded"])
    for recipe in RECIPES[1:]:
        once = COST[recipe.query_projection] * examples * CONFIG.epochs
        prices = {
            "graded": GRADED_CLICK_COST,
            "debiased": CLICK_COST,
            AVERAGED: GRADED_CLICK_COST + CLICK_COST,
        }
        found = {name: _cost(replace(recipe, interpretation=name), known, CONFIG) for name in prices}
        assert found == {name: pytest.approx(once * price) for name, price in prices.items()}


def test_judgments_beside_clicks_cost_what_they_cost_alone(collection: Generation) -> None:
    known = interpretations(collection)
    graded, debiased = known.examples["graded"], known.examples["debiased"]
    mixed = replace(known, examples={"graded": graded, "debiased": [*graded[:90], *debiased[90:]]})
    clicks = len(debiased[90:])
    examples = 2 * 90 + (GRADED_CLICK_COST + CLICK_COST) * clicks
    assert _cost(WEIGHTS, mixed, CONFIG) == pytest.approx(COST[False] * examples * CONFIG.epochs)


@pytest.mark.parametrize("afforded", range(6))
def test_clicks_are_validated_on_as_many_groups_as_the_budget_allows(collection: Generation, afforded: int) -> None:
    known = interpretations(collection)
    budget = (afforded + 0.5) * _cost(WEIGHTS, known, CONFIG)
    groups = _groups(known, [WEIGHTS], replace(CONFIG, cost_budget=budget))
    every = _groups(known, [WEIGHTS], replace(CONFIG, cross_validation_queries=1000))
    assert groups == every[: max(1, afforded)]
    assert len(every) == CONFIG.folds
    judged = replace(known, examples={"graded": known.examples["graded"]})
    assert [len(group) for group in _groups(judged, [WEIGHTS], CONFIG)] == [1]


def test_the_groups_leave_a_part_of_the_budget_to_the_second_hop(
    collection: Generation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("index.learning.model_selection.RECIPES", QUICK[:2])
    known = interpretations(collection)
    prices = [_cost(recipe, known, CONFIG) for recipe in (WEIGHTS, replace(WEIGHTS, name=VALUES, values=True))]
    config = replace(CONFIG, epochs=1, cost_budget=1.5 * sum(prices) / CONFIG.epochs)
    selection, _ = finished(select(collection, known, replace(INITIAL, value_rank=2), config, TrialCache(None)))
    assert "values, averaged" in selection.validation
    assert selection.skipped == ()


def test_a_budget_for_one_head_trains_the_graded_one(collection: Generation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("index.learning.model_selection.RECIPES", QUICK[:2])
    known = interpretations(collection)
    once = COST[False] * len(known.examples["graded"]) * CONFIG.epochs
    wanted = {0.7: ["initial, averaged", "weights"], 0.9: ["initial, averaged", "weights, averaged"]}
    for budget, tried in wanted.items():
        config = replace(CONFIG, cost_budget=budget * once)
        selection, _ = finished(select(collection, known, INITIAL, config, TrialCache(None)))
        assert list(selection.validation) == tried


def test_the_name_of_an_averaged_recipe_says_so() -> None:
    assert label(WEIGHTS, WEIGHTS.rank) == "weights, averaged"


# --- The value by which recipes are chosen ---


def found(ndcg: float, clicks: float | None, queries: int = 40) -> Measured:
    """Return equal measures of all queries; clicks: None for queries without clicks."""
    likelihoods = np.full(queries, np.nan if clicks is None else clicks)
    return Measured(np.full(queries, ndcg) + np.linspace(-0.1, 0.1, queries), likelihoods, [])


@pytest.mark.parametrize(
    ("better", "chosen"),
    [(found(0.49, -1.4), True), (found(0.51, -1.6), False), (found(0.51, None), True), (found(0.49, None), False)],
)
def test_a_recipe_is_chosen_by_ndcg_plus_the_likelihood_of_clicks(better: Measured, chosen: bool) -> None:
    base = Recipe("initial", weights=False)
    before = found(0.5, None if np.isnan(better.clicks).all() else -1.5)
    table = {base: before, WEIGHTS: better}
    assert (_chosen(_values(table), base, CONFIG) == WEIGHTS) == chosen


def test_a_query_without_clicks_counts_by_its_ndcg_alone() -> None:
    measures = found(0.5, -1.5, 4)
    measures.clicks[:2] = np.nan
    value = _values({WEIGHTS: measures})[WEIGHTS]
    assert value.tolist() == (measures.values + np.asarray([0, 0, -1.5, -1.5])).tolist()


def test_the_bootstrap_repeats_the_choice_by_the_same_value() -> None:
    base = Recipe("initial", weights=False)
    worse_by_ndcg = {base: found(0.5, -1.5), WEIGHTS: found(0.45, -1.2)}
    assert _optimism(worse_by_ndcg, base, WEIGHTS, CONFIG)[CLICKS] == pytest.approx(0, abs=1e-9)


# --- One number of epochs ---


def trial_of(*history: dict[str, float]) -> Trial:
    heads = tuple(AttentionHead(INITIAL).changed(hop=at) for at in range(1, len(history) + 1))
    best = max(range(len(history)), key=lambda at: sum(history[at].values()))
    return Trial(heads[best], best + 1, history[best], history, tuple({"a": -1.0} for _ in history), heads)


def test_all_folds_end_after_the_number_of_epochs_that_is_best_over_all_queries() -> None:
    one = trial_of({"a": 0.5}, {"a": 0.4}, {"a": 0.3})
    other = trial_of({"b": 0.1, "c": 0.1}, {"b": 0.4, "c": 0.5}, {"b": 0.2, "c": 0.3})
    ended = at_common_epoch({2: one, 3: other, 4: one})
    assert {fold: trial.epochs for fold, trial in ended.items()} == {2: 2, 3: 2, 4: 2}
    assert (ended[2].measured, ended[3].measured) == ({"a": 0.4}, {"b": 0.4, "c": 0.5})
    assert [float(ended[fold].head.hop) for fold in (2, 3)] == [2.0, 2.0]
    assert ended[2] is ended[4], "folds that share a trial share it afterwards"


def test_the_trials_of_a_recipe_end_after_one_number_of_epochs(
    collection: Generation, monkeypatch: pytest.MonkeyPatch
) -> None:
    histories: dict[int, list[dict[str, float]]] = {2: [{"a": 0.5}, {"a": 0.4}], 3: [{"b": 0.1}, {"b": 0.4}]}

    def known(_: Generation, data: TrainingSplit, *others: Any) -> Generator[Step, None, Trial]:
        yield Step("choose", 1, 1)
        return trial_of(*histories[data.fold])

    monkeypatch.setattr("index.learning.model_selection.run_trial", known)
    groups = [frozenset([fold]) for fold in histories]
    search = _RecipeSearch(collection, interpretations(collection), INITIAL, CONFIG, TrialCache(None), groups, 1e9)
    finished(search.attempt(WEIGHTS))
    assert {fold: trial.epochs for fold, trial in search.made[WEIGHTS].items()} == {2: 2, 3: 2}


def test_a_fold_that_stopped_before_keeps_its_last_epoch() -> None:
    ended = at_common_epoch({2: trial_of({"a": 0.5}, {"a": 0.4}), 3: trial_of({"b": 0.1}, {"b": 0.2}, {"b": 0.9})})
    assert {fold: trial.epochs for fold, trial in ended.items()} == {2: 2, 3: 3}


def test_of_equal_numbers_of_epochs_the_first_is_taken() -> None:
    ended = at_common_epoch({2: trial_of({"a": 0.5}, {"a": 0.5})})
    assert ended[2].epochs == 1


def test_trials_without_training_stay_as_they_are() -> None:
    untrained = Trial(AttentionHead(INITIAL), 0, {"a": 0.5})
    assert at_common_epoch({2: untrained}) == {2: untrained}
    assert at_common_epoch({}) == {}
