"""The selection of a recipe: better by a share of the error, within the cost budget, with its optimism."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from index.generation.generation import Generation
from index.learning.config import AVERAGED, FitConfig, Recipe
from index.learning.examples import Example, Feedback, fold_of, make_example, make_examples
from index.learning.model_selection import (
    COST,
    RECIPES,
    VARIANTS,
    ClickInterpretations,
    Table,
    _chosen,
    _optimism,
    _RecipeSearch,
    _values,
    label,
    select,
)
from index.learning.optimism import Epochs, Measured, beats, once
from index.learning.torch_head import as_arrays, trainable_head
from index.learning.trainer import TrainingSplit, _Batches
from index.learning.trial_cache import TrialCache
from index.ranking.search import project
from index.records import Floats
from tests.index.learning_fixtures import (
    ALL_FOLDS,
    CONFIG,
    COUNT,
    DIM,
    INITIAL,
    QUICK,
    asked,
    collection_of,
    finished,
    run,
)

SHORT = replace(CONFIG, epochs=2, patience=2)
BASE = Recipe("initial", weights=False)


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Generation:
    return collection_of(tmp_path_factory.mktemp("collection"))


def examples_of(collection: Generation, feedback: Sequence[Feedback], count: int = COUNT) -> list[Example]:
    return make_examples(collection, feedback, lambda vector: vector[None], count)


# --- Better by a share of the error ---


@pytest.mark.parametrize("share", [0.0, 0.5, 2.0])
def test_a_gain_counts_above_a_share_of_its_standard_error(share: float) -> None:
    gains = [0.3, -0.1, 0.2, 0.0, 0.1]
    mean = sum(gains) / 5
    error = math.sqrt(sum((gain - mean) ** 2 for gain in gains) / 4) / math.sqrt(5)
    assert beats(np.asarray(gains), once(5), share)[0] == (mean > share * error)
    just = np.asarray(gains) - mean + share * error
    assert beats(just + 1e-9, once(5), share)[0]
    assert not beats(just - 1e-9, once(5), share)[0]


@pytest.mark.parametrize("gains", [[], [0.5], [0.0, 0.0, 0.0]])
def test_no_gain_or_a_single_query_is_not_better(gains: list[float]) -> None:
    assert not beats(np.asarray(gains, np.float64), once(len(gains)), 0.5)[0]


@pytest.mark.parametrize(("share", "chosen"), [(0.5, "projection"), (1e6, "initial")])
def test_a_richer_recipe_must_be_better_by_a_share_of_the_standard_error(
    collection: Generation, share: float, chosen: str
) -> None:
    recipes = [QUICK[0], QUICK[2]]
    fitted, _ = run(collection, asked(shifted=True), replace(CONFIG, error_share=share), recipes=recipes)
    assert fitted.report["recipe"]["recipe"] == chosen


# --- The budget ---


def price_of(recipe: Recipe, examples: int, config: FitConfig) -> float:
    return COST[recipe.query_projection] * examples * config.epochs * config.folds if recipe.weights else 0.0


@pytest.mark.parametrize("afforded", range(3))
def test_recipes_above_the_cost_budget_are_skipped_at_any_speed(collection: Generation, afforded: int) -> None:
    examples = examples_of(collection, asked(shifted=True)[:40])
    config = replace(SHORT, cross_validation_queries=ALL_FOLDS)
    budget = sum(price_of(recipe, len(examples), config) for recipe in RECIPES[: afforded + 1])
    config = replace(config, cost_budget=budget * (1 + 1e-9))
    qrels = {one.feedback.query_key: {str(row): 1 for row in one.feedback.gains} for one in examples}
    selection, _ = finished(
        select(collection, ClickInterpretations({"graded": examples}, qrels, None), INITIAL, config, TrialCache(None))
    )
    assert list(selection.validation) == [recipe.name for recipe in RECIPES[: afforded + 1]]
    left_out = [recipe.name for recipe in RECIPES[afforded + 1 :]]
    assert list(selection.skipped)[: len(left_out)] == left_out


def test_without_any_budget_the_initial_parameters_are_kept(collection: Generation) -> None:
    fitted, _ = run(collection, asked(shifted=True), replace(CONFIG, cost_budget=0.0))
    assert fitted.report["recipe"]["recipe"] == "initial"
    assert len(fitted.report["recipe"]["skipped"]) == len(QUICK) - 1


def test_variants_are_tried_after_a_query_projection_while_the_budget_lasts(
    collection: Generation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("index.learning.model_selection.RECIPES", (QUICK[0], QUICK[2]))
    monkeypatch.setattr("index.learning.model_selection.VARIANTS", ({"learning_rate": 3e-2}, {"rank": 2}))
    examples = examples_of(collection, asked(shifted=True))
    qrels = {one.feedback.query_key: {str(row): 1 for row in one.feedback.gains} for one in examples}
    interpretations = ClickInterpretations({"graded": examples}, qrels, None)
    selection, _ = finished(
        select(collection, interpretations, INITIAL, replace(CONFIG, cost_budget=1e6), TrialCache(None))
    )
    assert selection.recipe.query_projection
    assert list(selection.validation)[:3] == [
        "initial",
        "projection, learning_rate 0.02",
        "projection, learning_rate 0.03",
    ]
    assert "rank 2" in list(selection.validation)[3]
    assert selection.skipped == ()
    assert all(trial.head.config.rank == selection.recipe.rank for trial in selection.trials.values())


def test_every_variant_changes_the_recipe() -> None:
    for change in VARIANTS:
        assert replace(QUICK[2], **change) != QUICK[2]  # type: ignore[arg-type]
        assert label(replace(RECIPES[2], **change), RECIPES[2].rank) != label(RECIPES[2], RECIPES[2].rank)  # type: ignore[arg-type]


# --- Optimism ---


def at_one_epoch(values: NDArray[np.float64]) -> Measured:
    """Return the measures of trials that had no choice of epochs."""
    return Measured(values, values, [Epochs(np.arange(len(values)), values[None], values[None])])


def noise(recipes: int, queries: int, seed: int) -> dict[Recipe, Measured]:
    """Return measures of equally good recipes: an initial one and others, each richer than the one before it."""
    drawn = np.random.default_rng(seed).normal(0.5, 0.2, (recipes, queries))
    return {BASE if not at else Recipe("weights", rank=at): at_one_epoch(row) for at, row in enumerate(drawn)}


def chosen_gain(table: Table) -> tuple[Recipe, float]:
    """Return the selected recipe and its gain over the initial one, overestimate included."""
    chosen = _chosen(_values(table), BASE, CONFIG)
    return chosen, float((table[chosen].values - table[BASE].values).mean())


def test_without_a_selection_there_is_no_optimism() -> None:
    table = noise(1, 40, seed=0)
    assert _optimism(table, BASE, BASE, CONFIG) == {}
    assert _optimism({**table, Recipe("weights"): table[BASE]}, BASE, BASE, CONFIG)["nDCG@10"] == 0.0
    alone = {BASE: at_one_epoch(np.asarray([0.5])), Recipe("weights"): at_one_epoch(np.asarray([0.9]))}
    assert _optimism(alone, BASE, Recipe("weights"), CONFIG)["nDCG@10"] == 0.0


def test_the_optimism_removes_the_gain_of_a_selection_from_noise() -> None:
    seen, corrected = [], []
    for seed in range(12):
        table = noise(12, 30, seed)
        chosen, gain = chosen_gain(table)
        optimism = _optimism(table, BASE, chosen, CONFIG)["nDCG@10"]
        seen.append(gain)
        corrected.append(gain - optimism)
        assert optimism >= 0
    assert np.mean(seen) > 0.05
    assert abs(np.mean(corrected)) < 0.25 * np.mean(seen)


def test_the_optimism_of_a_choice_among_interpretations_is_counted() -> None:
    seen, corrected = [], []
    for seed in range(12):
        drawn = noise(10, 30, seed)
        names = ("graded", "debiased", "naive")
        table = {BASE: drawn[BASE]} | {
            replace(recipe, interpretation=names[recipe.rank % 3]): row
            for recipe, row in drawn.items()
            if recipe != BASE
        }
        chosen, gain = chosen_gain(table)
        seen.append(gain)
        corrected.append(gain - _optimism(table, BASE, chosen, CONFIG)["nDCG@10"])
    assert np.mean(seen) > 0.05
    assert abs(np.mean(corrected)) < 0.25 * np.mean(seen)


def test_the_optimism_of_a_real_gain_is_small() -> None:
    table = noise(1, 60, seed=0)
    richer = Recipe("weights")
    better = at_one_epoch(table[BASE].values + 0.3)
    assert _optimism({**table, richer: better}, BASE, richer, CONFIG)["nDCG@10"] < 0.02


def test_the_optimism_has_the_same_bits_twice() -> None:
    table = noise(6, 30, seed=3)
    chosen, _ = chosen_gain(table)
    assert _optimism(table, BASE, chosen, CONFIG)["nDCG@10"] == _optimism(table, BASE, chosen, CONFIG)["nDCG@10"]


def test_each_interpretation_climbs_from_the_initial_recipe_and_the_best_mean_is_selected() -> None:
    start = np.linspace(0.2, 0.6, 40)
    weights = {name: Recipe("weights", interpretation=name) for name in ("graded", "debiased", "naive")}
    gains = {"graded": 0.05, "debiased": 0.09, "naive": -0.02}
    table = {BASE: start} | {recipe: start + gains[name] for name, recipe in weights.items()}
    assert _chosen(table, BASE, CONFIG) == weights["debiased"]
    worse = Recipe("projection", query_projection=True, interpretation="debiased")
    richer = Recipe("projection", query_projection=True, interpretation="naive")
    assert _chosen({**table, worse: start + 0.08, richer: start + 0.1}, BASE, CONFIG) == richer
    assert _chosen({BASE: start, weights["naive"]: start - 0.02}, BASE, CONFIG) == BASE


# --- Hard negatives ---


@pytest.mark.parametrize("refresh", [0, 2])
def test_hard_negatives_are_retrieved_again_with_the_current_head(collection: Generation, refresh: int) -> None:
    examples = examples_of(collection, asked(shifted=True), count=20)
    head = trainable_head(INITIAL)
    config = replace(CONFIG, candidates=20, refresh=refresh)
    batches = _Batches(
        collection, TrainingSplit(examples, (), {}), head, Recipe("projection", query_projection=True), config
    )
    list(batches.epoch())
    assert [one.candidates for one in batches._examples] == [one.candidates for one in examples]
    query_projection = torch.roll(torch.eye(DIM), -1, 0) - torch.eye(DIM)  # W_q = 1 + U V^T shifts the axes back
    head.score.up[0], head.score.down[0] = query_projection, torch.eye(DIM)
    list(batches.epoch())
    changed = 0
    for before, after in zip(examples, batches._examples, strict=True):
        fresh = make_example(collection, before.feedback, project(as_arrays(head), before.feedback.vector), 20)
        assert after is before or after.candidates.doc_indices.tolist() == fresh.candidates.doc_indices.tolist()
        changed += after.candidates.doc_indices.tolist() != before.candidates.doc_indices.tolist()
    assert changed > len(examples) // 4 if refresh else changed == 0


def test_the_candidates_of_clicks_stay_the_documents_shown(collection: Generation) -> None:
    clicked = [
        replace(
            one,
            shown={
                row: {position: 1} for position, row in enumerate([*one.gains, (next(iter(one.gains)) + 1) % COUNT], 1)
            },
        )
        for one in asked(shifted=True)
    ]
    examples = examples_of(collection, clicked)
    head = trainable_head(INITIAL)
    split = TrainingSplit(examples, (), {})
    batches = _Batches(collection, split, head, Recipe("projection", query_projection=True), replace(CONFIG, refresh=1))
    head.score.up.add_(0.5)
    for _ in range(2):
        list(batches.epoch())
    assert all(one is other for one, other in zip(examples, batches._examples, strict=True))


# --- Interpretations of clicks ---


def read_with(
    collection: Generation, feedback: Sequence[Feedback], curve: Floats
) -> tuple[dict[str, list[Example]], dict[str, dict[str, int]]]:
    """Return the examples per interpretation, and the relevant documents."""
    judged = [replace(one, shown=None, clicks=None, examined=None) for one in feedback]
    interpretation = {
        "graded": make_examples(collection, judged, lambda vector: vector[None], COUNT, curve),
        "debiased": make_examples(collection, feedback, lambda vector: vector[None], COUNT, curve),
        "naive": make_examples(collection, feedback, lambda vector: vector[None], COUNT, None),
    }
    return interpretation, {one.query_key: {str(row): 1 for row in one.gains} for one in feedback}


def shown_first(one: Feedback, others: Sequence[int]) -> Feedback:
    """Return the clicks of a user who examined the whole list, with the relevant document on top."""
    (row,) = one.gains
    rows = list(dict.fromkeys([row, *others]))
    return replace(one, shown={other: {position: 1} for position, other in enumerate(rows, 1)})


def test_the_naive_interpretation_is_selected_if_all_was_examined_and_the_curve_is_wrong(
    collection: Generation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("index.learning.model_selection.RECIPES", (QUICK[0], QUICK[2]))
    monkeypatch.setattr("index.learning.model_selection.VARIANTS", ())
    random = np.random.default_rng(5)
    clicked = [shown_first(one, random.choice(COUNT, 30).tolist()) for one in asked(shifted=True)]
    steep = (np.arange(1, 101) ** -4.0).astype(np.float32)  # the top position explains nearly every click
    interpretations, wanted = read_with(collection, clicked, steep)
    config = replace(CONFIG, interpretations=("debiased", "naive"))
    selection, _ = finished(
        select(collection, ClickInterpretations(interpretations, wanted, steep), INITIAL, config, TrialCache(None))
    )
    assert selection.recipe.interpretation == "naive"
    name = label(selection.recipe, INITIAL.rank)
    assert name.endswith("naive")
    assert selection.validation[name] > selection.validation[name.removesuffix("naive") + "debiased"]


def test_all_interpretations_are_validated_on_the_documents_shown(collection: Generation) -> None:
    """The naive interpretation leaves out documents without clicks; validation without them overestimates any head."""
    clicked = [
        replace(one, examined=frozenset(one.gains))
        for one in (shown_first(one, range(number % 40, number % 40 + 20)) for number, one in enumerate(asked(True)))
    ]
    clicked = [replace(one, examined=frozenset([*one.gains, *list(one.shown or {})[1:3]])) for one in clicked]
    interpretations, wanted = read_with(collection, clicked, np.ones(100, np.float32))
    assert len(interpretations["naive"][0].gains) < len(interpretations["debiased"][0].gains)
    group = frozenset([fold_of(clicked[0].query_key)])
    search = _RecipeSearch(
        collection,
        ClickInterpretations(interpretations, wanted, None),
        INITIAL,
        CONFIG,
        TrialCache(None),
        [group],
        1.0,
    )
    graded, debiased, naive, averaged = (
        search._split(Recipe("weights", interpretation=one), group) for one in ("graded", "debiased", "naive", AVERAGED)
    )
    assert graded.validation == debiased.validation == naive.validation == averaged.validation
    assert all(len(one.gains) == len(one.feedback.shown or {}) < COUNT for one in graded.validation)
    assert all(len(one.gains) == COUNT for one in graded.train)
    assert [len(one.gains) for one in naive.train] != [len(one.gains) for one in debiased.train]


def test_the_naive_interpretation_is_not_selected_if_it_is_no_better(
    collection: Generation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("index.learning.model_selection.RECIPES", (QUICK[0], QUICK[2]))
    monkeypatch.setattr("index.learning.model_selection.VARIANTS", ())
    graded = examples_of(collection, asked(shifted=True))
    scrambled = [replace(one, gains=np.roll(one.gains, 7)) for one in graded]
    qrels = {one.feedback.query_key: {str(row): 1 for row in one.feedback.gains} for one in graded}
    interpretations = ClickInterpretations({"graded": graded, "naive": scrambled}, qrels, None)
    config = replace(CONFIG, interpretations=("graded", "naive"))
    selection, _ = finished(select(collection, interpretations, INITIAL, config, TrialCache(None)))
    assert selection.recipe.interpretation == "graded"
    pace = ", learning_rate 0.02"
    assert list(selection.validation) == [
        "initial",
        f"projection{pace}",
        f"projection{pace}, naive",
    ]


def test_interpretations_compete_as_equals(collection: Generation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("index.learning.model_selection.RECIPES", (QUICK[0], QUICK[2]))
    monkeypatch.setattr("index.learning.model_selection.VARIANTS", ())
    right = examples_of(collection, asked(shifted=True))
    scrambled = [replace(one, gains=np.roll(one.gains, 7)) for one in right]
    qrels = {one.feedback.query_key: {str(row): 1 for row in one.feedback.gains} for one in right}
    interpretations = ClickInterpretations({"graded": scrambled, "naive": right}, qrels, None)
    config = replace(CONFIG, interpretations=("graded", "naive"))
    selection, _ = finished(select(collection, interpretations, INITIAL, config, TrialCache(None)))
    assert (selection.recipe.name, selection.recipe.interpretation) == ("projection", "naive")
    pace = ", learning_rate 0.02"
    assert list(selection.validation) == ["initial", f"projection{pace}", f"projection{pace}, naive"]


@pytest.mark.parametrize("interpretation", ["debiased", "naive"])
def test_recipes_are_tried_with_the_first_interpretation(
    collection: Generation, monkeypatch: pytest.MonkeyPatch, interpretation: str
) -> None:
    monkeypatch.setattr("index.learning.model_selection.RECIPES", (QUICK[0], QUICK[2]))
    monkeypatch.setattr("index.learning.model_selection.VARIANTS", ())
    clicked = [shown_first(one, range(at % 40, at % 40 + 10)) for at, one in enumerate(asked(shifted=True))]
    interpretations, wanted = read_with(collection, clicked, np.ones(100, np.float32))
    config = replace(SHORT, interpretations=(interpretation,))
    selection, _ = finished(
        select(collection, ClickInterpretations(interpretations, wanted, None), INITIAL, config, TrialCache(None))
    )
    assert list(selection.validation) == [
        f"initial, {interpretation}",
        f"projection, learning_rate 0.02, {interpretation}",
    ]
    assert selection.as_dict()["reading"] == interpretation
