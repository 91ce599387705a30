"""The overestimate by choices on the same queries: epochs, recipes, and the second hop."""

from dataclasses import replace

import numpy as np
import pytest

from index.learning.click_likelihood import CLICKS
from index.learning.clicked_ranks import RANKS
from index.learning.config import Recipe
from index.learning.held_out import Choices, HopChoice, HopMeasures, _chosen_hop, _chosen_hops, _hop_optimism
from index.learning.model_selection import Selection, _chosen_on, _optimism
from index.learning.optimism import (
    BOOTSTRAPS,
    Epochs,
    Measured,
    beats,
    means,
    measured,
    once,
    optimism,
    regression_slope,
)
from index.learning.ordered_choice import choose, overestimate
from index.learning.prior_selection import NO_PRIORS, PriorChoice
from index.learning.trainer import Trial
from index.learning.tree_selection import NO_TREES, TreeChoice
from index.ranking.attention import AttentionHead
from index.ranking.priors import no_priors
from index.ranking.trees import no_trees
from tests.index.learning_fixtures import CONFIG, INITIAL

BASE, WEIGHTS = Recipe("initial", weights=False), Recipe("weights")
QUERIES, FOLDS, EPOCHS = 60, 4, 8


def folds_of_noise(seed: int) -> dict[Recipe, Measured]:
    """Return an initial recipe and a recipe whose epochs are all as good; the best over all folds is kept."""
    random = np.random.default_rng(seed)
    start = random.uniform(0.2, 0.8, QUERIES)
    trials, untrained = [], []
    every = start + random.normal(0, 0.2, (EPOCHS, QUERIES))
    values = every[np.argmax(every.mean(axis=1))]
    for columns in np.array_split(np.arange(QUERIES), FOLDS):
        epochs = every[:, columns]
        trials.append(Epochs(columns, epochs, 2 * epochs))
        untrained.append(Epochs(columns, start[columns][None], 2 * start[columns][None]))
    return {BASE: Measured(start, 2 * start, untrained), WEIGHTS: Measured(values, 2 * values, trials)}


def test_the_optimism_removes_the_gain_of_a_choice_of_epochs_from_noise() -> None:
    gains, corrected = [], []
    for seed in range(30):
        table = folds_of_noise(seed)
        gain = float((table[WEIGHTS].values - table[BASE].values).mean())
        gains.append(gain)
        overestimate = _optimism(table, BASE, WEIGHTS, CONFIG)
        corrected.append(gain - overestimate["nDCG@10"])
        assert overestimate[CLICKS] == pytest.approx(2 * overestimate["nDCG@10"])
    assert np.mean(gains) > 0.02
    assert abs(np.mean(corrected)) < 0.25 * np.mean(gains)


def test_a_single_epoch_has_no_optimism_of_epochs() -> None:
    table = folds_of_noise(0)
    better = table[BASE].values + 0.3
    alone = Measured(better, better, [Epochs(np.arange(QUERIES), better[None], better[None])])
    assert _optimism({BASE: table[BASE], WEIGHTS: alone}, BASE, WEIGHTS, CONFIG)["nDCG@10"] < 0.01


def test_a_gain_in_clicks_that_the_choice_did_not_use_has_no_overestimate() -> None:
    random = np.random.default_rng(0)
    corrected = []
    for seed in range(20):
        table = folds_of_noise(seed)
        clicks = random.normal(0.1, 0.05, QUERIES)  # the gain of every epoch, whatever its nDCG@10
        clicks[::3] = np.nan
        trials = [
            replace(one, ndcg=one.ndcg + 0.1, clicks=np.tile(clicks[one.columns], (EPOCHS, 1)))
            for one in table[WEIGHTS].trials
        ]  # so much better in nDCG@10 that only the epochs are in doubt
        before = replace(table[BASE], clicks=np.zeros(QUERIES) + 0 * clicks)
        better = Measured(table[WEIGHTS].values + 0.1, clicks, trials)
        corrected.append(_optimism({BASE: before, WEIGHTS: better}, BASE, WEIGHTS, CONFIG)[CLICKS])
    assert np.mean(corrected) < 0.01


def test_on_all_queries_the_epochs_are_those_of_the_trials() -> None:
    histories = [
        ({"a": 0.1, "b": 0.2}, {"a": 0.5, "b": 0.1}, {"a": 0.3, "b": 0.3}),
        ({"c": 0.4},),
    ]
    head = AttentionHead(INITIAL)
    trials = [Trial(head, 2, histories[0][1], histories[0]), Trial(head, 0, histories[1][0])]
    found = measured(trials, ["a", "b", "c"])
    assert found.values.tolist() == [0.5, 0.1, 0.4]
    assert found.at(np.asarray([[1, 1, 1]])).values.tolist() == [[0.5, 0.1, 0.4]], "of equal epochs the first"
    assert found.at(np.asarray([[0, 2, 1]])).values.tolist() == [[0.3, 0.3, 0.4]]


def test_all_folds_have_one_number_of_epochs_on_a_sample() -> None:
    ndcg = (np.asarray([[0.1, 0.1], [0.2, 0.6]]), np.asarray([[0.5], [0.4], [0.8]]))
    trials = [Epochs(np.asarray([0, 1]), ndcg[0], ndcg[0]), Epochs(np.asarray([2]), ndcg[1], ndcg[1])]
    found = Measured(np.zeros(3), np.zeros(3), trials)
    assert found.at(np.asarray([[1, 1, 1]])).values.tolist() == [[0.2, 0.6, 0.8]], (
        "the shorter trial keeps its last epoch"
    )
    assert found.at(np.asarray([[3, 0, 0]])).values.tolist() == [[0.2, 0.6, 0.4]], (
        "the first of equal numbers of epochs"
    )
    assert found.at(np.asarray([[0, 0, 0]])).values.tolist() == [[0.1, 0.1, 0.5]]


def test_the_likelihood_of_clicks_follows_the_epoch_that_ndcg_chooses() -> None:
    history = ({"a": 0.1, "b": 0.2}, {"a": 0.5, "b": 0.1})
    trial = Trial(AttentionHead(INITIAL), 2, history[1], history, clicks=({"a": -3.0}, {"a": -2.0}))
    found = measured([trial], ["a", "b"])
    assert found.clicks[0] == -2.0
    assert np.isnan(found.clicks[1])
    assert found.at(np.asarray([[0, 2], [2, 0]])).clicks[:, 0].tolist() == [-3.0, -2.0]


def test_no_choice_and_a_single_query_have_no_optimism() -> None:
    constant = np.asarray([0.1, 0.1, 0.1])
    assert optimism({"a": constant}, lambda counts: {"a": constant}, 0) == pytest.approx({"a": 0}, abs=1e-12)
    assert optimism({"a": np.asarray([0.7])}, lambda counts: {"a": np.asarray([0.0])}, 0) == {"a": 0.0}


def test_each_measure_has_its_own_overestimate_over_the_same_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    chosen = {"a": random.normal(0.2, 0.1, 12), "b": random.normal(0.3, 0.1, 12), "one": np.full(12, np.nan)}
    chosen["b"][:4] = np.nan
    chosen["one"][0] = 1.0
    samples: list[np.ndarray] = []

    def repeated(counts: np.ndarray) -> dict[str, np.ndarray]:
        samples.append(counts)
        return {name: values - 0.1 for name, values in chosen.items()}

    found = optimism(chosen, repeated, 0)
    assert sum(map(len, samples)) == BOOTSTRAPS
    assert (np.concatenate(samples).sum(axis=1) == 12).all()
    assert found == {name: optimism({name: chosen[name]}, repeated, 0)[name] for name in chosen}
    assert found["a"] == pytest.approx(0.1, abs=0.01)
    assert found["b"] == pytest.approx(0.1, abs=0.01)
    assert found["one"] == 0.0
    every, samples[:] = samples[0], []
    monkeypatch.setattr("index.learning.optimism.SAMPLED", 100)
    assert optimism(chosen, repeated, 0) == pytest.approx(found)
    assert len(samples) == -(-BOOTSTRAPS // 8)
    assert np.array_equal(np.concatenate(samples), every), "the same samples, whatever their number at a time"


def test_a_sample_counts_a_query_as_often_as_it_was_drawn() -> None:
    random = np.random.default_rng(1)
    gains = random.normal(0.1, 0.4, 20)
    counts = np.stack([np.bincount(random.integers(20, size=20), minlength=20) for _ in range(200)])
    repeated = [np.repeat(gains, own) for own in counts]
    assert means(gains, counts) == pytest.approx([own.mean() for own in repeated])
    assert means(np.tile(gains, (200, 1)), counts) == pytest.approx(means(gains, counts))
    expected = [own.mean() > 0.5 * own.std(ddof=1) / 20**0.5 for own in repeated]
    assert beats(gains, counts, 0.5).tolist() == expected
    assert 0 < sum(expected) < 200
    assert beats(gains[:1], once(1), 0.5).tolist() == [False], "one query has no standard error"
    assert not beats(np.zeros(5), once(5), 0.5)[0]


def drawn(queries: int, samples: int = 60) -> np.ndarray:
    random = np.random.default_rng(7)
    return np.stack([np.bincount(random.integers(queries, size=queries), minlength=queries) for _ in range(samples)])


def better(gains: np.ndarray) -> bool:
    """The rule of `beats` for values (queries,) in which a query of a sample is repeated."""
    return bool(gains.mean() > CONFIG.error_share * gains.std(ddof=1) / len(gains) ** 0.5)


def test_recipes_are_chosen_on_each_sample_as_one_after_the_other() -> None:
    random, start = np.random.default_rng(3), np.linspace(0.2, 0.6, 24)
    values = {BASE: start}
    for name in ("weights", "projection"):
        for interpretation in ("graded", "debiased", "averaged"):
            recipe = Recipe(name, query_projection=name == "projection", interpretation=interpretation)
            values[recipe] = start + random.normal(0.02, 0.15, 24)
    recipes, counts, expected = list(values), drawn(24), []
    values[recipes[4]] = values[recipes[3]]  # equal means: the climb that left the initial recipe first is selected
    for sample in counts:
        sampled = {recipe: np.repeat(of, sample) for recipe, of in values.items()}
        climbs: dict[str, Recipe] = {}
        for recipe in recipes[1:]:
            if better(sampled[recipe] - sampled[climbs.get(recipe.interpretation, BASE)]):
                climbs[recipe.interpretation] = recipe
        best = max(climbs.values(), key=lambda one: sampled[one].mean(), default=BASE)
        expected.append(recipes.index(best))
    assert _chosen_on(values, counts, BASE, CONFIG).tolist() == expected
    assert len(set(expected)) > 4


def test_of_equal_interpretations_the_first_that_left_the_initial_recipe_is_selected() -> None:
    start = np.linspace(0.2, 0.6, 24)
    first, averaged = Recipe("weights"), Recipe("weights", interpretation="averaged")
    richer = Recipe("projection", query_projection=True)
    values = {BASE: start, first: start, averaged: start + 0.1, richer: start + 0.1}
    assert list(values)[_chosen_on(values, once(24), BASE, CONFIG)[0]] == averaged


def test_trees_and_priors_are_chosen_on_each_sample_as_one_after_the_other() -> None:
    random, start, expected = np.random.default_rng(4), np.linspace(0.2, 0.6, 24), []
    measures = {count: start + (random.normal(0.03, 0.15, 24) if count else 0) for count in (0, 40, 100)}
    for sample in drawn(24):
        chosen = 0
        for count in (40, 100):
            if better(np.repeat(measures[count] - measures[chosen], sample)):
                chosen = count
        expected.append(list(measures).index(chosen))
    assert choose(list(measures.values()), drawn(24), CONFIG.error_share).tolist() == expected
    assert len(set(expected)) == 3


# --- The second hop ---


def hops(seed: int, gain: float = 0.0) -> dict[float, HopMeasures]:
    """Return the measures of g = 0 and of two better values; both measures have the same noise."""
    random = np.random.default_rng(seed)
    start = random.uniform(0.2, 0.8, (2, QUERIES))
    noise = np.zeros((3, 2, QUERIES))
    noise[1:] = gain + random.normal(0, 0.15, (2, 1, QUERIES))
    return {
        hop: {"nDCG@10": start[0] + noise[at, 0], "R@100": start[1] + noise[at, 1]}
        for at, hop in enumerate((0.0, 0.3, 0.8))
    }


def test_the_optimism_removes_the_gain_of_a_second_hop_from_noise() -> None:
    gains, corrected = [], []
    for seed in range(40):
        tried = hops(seed)
        chosen, _ = _chosen_hop(tried, CONFIG)
        choice = HopChoice(chosen, QUERIES, tried, _hop_optimism(tried, chosen, CONFIG))
        if chosen:
            gain = float((tried[chosen]["nDCG@10"] - tried[0.0]["nDCG@10"]).mean())
            gains.append(gain)
            corrected.append(gain - choice.optimism["nDCG@10"])
            assert min(choice.optimism.values()) >= 0
    assert len(gains) > 5
    assert np.mean(gains) > 0.01
    assert abs(np.mean(corrected)) < 0.4 * np.mean(gains)


def test_a_second_hop_that_helps_has_little_optimism() -> None:
    tried = hops(0, gain=0.3)
    chosen, _ = _chosen_hop(tried, CONFIG)
    assert chosen > 0
    assert _hop_optimism(tried, chosen, CONFIG)["nDCG@10"] < 0.03


def test_a_hop_that_lowers_the_quality_ends_the_search() -> None:
    tried = hops(0)
    tried[0.3] = {"nDCG@10": tried[0.0]["nDCG@10"] - 0.1, "R@100": tried[0.0]["R@100"] + 0.1}
    assert _chosen_hop(tried, CONFIG) == (0.0, True)
    full = {0.0: {"nDCG@10": np.full(5, 0.4), "R@100": np.ones(5)}}
    assert _chosen_hop(full, CONFIG) == (0.0, True)
    assert _hop_optimism(full, 0.0, CONFIG) == {"nDCG@10": 0.0, "R@100": 0.0}


def test_the_second_hop_is_chosen_on_each_sample_as_one_g_after_the_other() -> None:
    tried, expected = hops(5), []
    tried[0.8]["nDCG@10"] = tried[0.8]["nDCG@10"] + 0.02
    for sample in drawn(QUERIES):
        chosen, ended = 0.0, False
        for hop in (0.3, 0.8):
            after, before = ({name: np.repeat(of, sample) for name, of in tried[g].items()} for g in (hop, chosen))
            ended = ended or after["nDCG@10"].mean() < before["nDCG@10"].mean()
            if not ended and better(after["R@100"] - before["R@100"]):
                chosen = hop
        expected.append((list(tried).index(chosen), ended))
    found, ended_too = _chosen_hops(tried, drawn(QUERIES), CONFIG)
    assert list(zip(found.tolist(), ended_too.tolist(), strict=True)) == expected
    assert {place for place, _ in expected} == {0, 1, 2}


# --- Trees and priors ---


def test_the_choice_of_trees_has_an_overestimate_for_each_measure() -> None:
    random = np.random.default_rng(0)
    start = random.uniform(0.2, 0.8, QUERIES)
    values = [start, *(start + random.normal(0.01, 0.1, QUERIES) for _ in range(2))]
    found = overestimate(values, {"nDCG@10": values, CLICKS: [2 * own for own in values]}, 1, CONFIG)
    assert found["nDCG@10"] > 0
    assert found[CLICKS] == pytest.approx(2 * found["nDCG@10"])
    unrelated = [np.where(np.arange(QUERIES) % 3, gain, np.nan) for gain in (0.0, 0.1, 0.1)]
    assert overestimate(values, {CLICKS: unrelated}, 1, CONFIG)[CLICKS] < 0.1
    assert overestimate(values, {"nDCG@10": values, CLICKS: values}, 0, CONFIG) == {"nDCG@10": 0.0, CLICKS: 0.0}


def test_the_slope_is_that_of_the_queries_with_both_gains() -> None:
    gains = {"a": 0.0, "b": 0.2, "c": 0.4, "without a click": 9.0}
    others = {"a": 0.1, "b": 0.2, "c": 0.3, "without a judgment": -9.0}
    assert regression_slope(gains, others) == pytest.approx(0.5)
    assert regression_slope(gains, {key: -value for key, value in others.items()}) == 0
    assert regression_slope(gains, {key: 9 * value for key, value in others.items()}) == pytest.approx(4.5)
    assert regression_slope({"a": 0.1, "b": 0.1}, others) == regression_slope({}, others) == 1


def test_an_overestimate_by_noise_is_the_slope_times_that_of_the_measure_that_decides() -> None:
    """Of 20 equal options the best by noisy gains is chosen; another measure has a part of the noise."""
    random, found = np.random.default_rng(0), []
    for _ in range(300):
        gains = random.normal(size=(20, 100))
        others = 0.3 * gains + 0.2 * random.normal(size=gains.shape)
        best = int(np.argmax(gains.mean(axis=1)))
        keyed = ({str(at): float(value) for at, value in enumerate(of[best])} for of in (gains, others))
        found.append((gains[best].mean(), others[best].mean(), regression_slope(*keyed)))
    overestimate, of_other, slope = np.mean(found, axis=0)
    assert of_other == pytest.approx(slope * overestimate, rel=0.1)
    assert of_other > 0.05


def test_all_choices_are_subtracted() -> None:
    selection = Selection(WEIGHTS, {}, {}, QUERIES, {"nDCG@10": 0.01, CLICKS: 0.02}, skipped=())
    hop = HopChoice(0.3, QUERIES, hops(1), {"nDCG@10": 0.002, "R@100": 0.004})
    grown = TreeChoice(no_trees(40), {}, {}, 40, {"nDCG@10": 0.003, CLICKS: 0.01})
    preferring = PriorChoice(no_priors(), {}, {}, 1.0, {"nDCG@10": 0.004, CLICKS: 0.03, RANKS: 0.001})
    choices = Choices(selection, hop, grown, preferring)
    assert choices.optimism("nDCG@10") == pytest.approx(0.019)
    assert choices.optimism("R@100") == pytest.approx(0.004)
    assert choices.optimism(CLICKS) == pytest.approx(0.06)
    # a choice that does not measure it overestimates it by the slope times its overestimate of nDCG@10
    assert choices.optimism(RANKS, slope=0.5) == pytest.approx(0.001 + 0.5 * (0.01 + 0.002 + 0.003))
    assert choices.optimism(RANKS, slope=1.0) == pytest.approx(0.016)
    assert (
        Choices(replace(selection, optimism={}), replace(hop, optimism={}), NO_TREES, NO_PRIORS).optimism(CLICKS) == 0
    )
