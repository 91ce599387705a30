"""Few queries: cross-fitting proves a real gain, and noise changes nothing."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.evaluation.significance import compare
from index.generation.generation import Generation
from index.learning.config import FitConfig
from index.learning.examples import FOLDS, TEST_FOLDS, Feedback, fold_of, make_examples
from index.learning.model_selection import RECIPES, ClickInterpretations, select
from index.learning.trial_cache import TrialCache
from index.ranking.attention import AttentionHead
from index.ranking.checkpoint import head_bytes
from tests.index.fixtures import generation_of, passages, random_vectors
from tests.index.learning_fixtures import ALL_FOLDS, CONFIG, COUNT, INITIAL, QUICK, asked, collection_of, finished, run

CROSS = replace(CONFIG, cross_validation_queries=ALL_FOLDS)


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Generation:
    return collection_of(tmp_path_factory.mktemp("collection"))


def trained() -> AttentionHead:
    """Return a champion with trained parameters that ranks as an untrained head."""
    head = AttentionHead(INITIAL)
    return head.changed(log_inverse_temperature=head.log_inverse_temperature + 0.01)


# --- Cross-fitting ---


def test_few_queries_prove_a_gain_over_an_untrained_champion(collection: Generation) -> None:
    feedback = asked(shifted=True, count=60)
    test = sum(fold_of(one.query_key) < TEST_FOLDS for one in feedback)
    fitted, _ = run(collection, feedback, CROSS)
    asked_of = fitted.report["held_out_queries"]
    assert asked_of == {"test": test, "cross_fitted": 60 - test, "clicked": 0}
    assert fitted.report["held_out"]["nDCG@10"]["queries"] == 60
    assert fitted.decision.promote


def test_only_test_queries_are_compared_with_a_trained_champion(collection: Generation) -> None:
    """The champion may have learned from any training query."""
    feedback = asked(shifted=True, count=60)
    test = sum(fold_of(one.query_key) < TEST_FOLDS for one in feedback)
    fitted, _ = run(collection, feedback, CROSS, trained())
    assert fitted.report["held_out_queries"] == {"test": test, "cross_fitted": 0, "clicked": 0}
    assert fitted.report["held_out"]["nDCG@10"]["queries"] == test


def test_the_queries_of_a_single_validation_fold_are_compared(collection: Generation) -> None:
    feedback = asked(shifted=True)
    fitted, _ = run(collection, feedback, CONFIG)
    assert fitted.report["recipe"]["recipe"] != "initial"
    validated = sum(fold_of(one.query_key) == TEST_FOLDS for one in feedback)
    assert 0 < validated == fitted.report["held_out_queries"]["cross_fitted"]


def test_the_queries_that_the_only_head_was_trained_on_are_not_compared(collection: Generation) -> None:
    fitted, _ = run(collection, asked(shifted=True), CONFIG, trained())
    assert fitted.report["held_out_queries"]["cross_fitted"] == 0


def test_training_queries_are_not_compared_if_nothing_was_learned(collection: Generation) -> None:
    fitted, _ = run(collection, asked(shifted=False, noise=0.1), CROSS)
    assert fitted.report["recipe"]["recipe"] == "initial"
    assert fitted.report["held_out_queries"]["cross_fitted"] == 0


def test_a_cross_fitted_query_is_searched_by_a_head_that_did_not_learn_from_it(
    collection: Generation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("index.learning.model_selection.RECIPES", (QUICK[0], QUICK[2]))
    monkeypatch.setattr("index.learning.model_selection.VARIANTS", ())
    straight = make_examples(collection, asked(shifted=True), lambda vector: vector[None], COUNT)
    changed = [*straight]
    changed[5] = replace(straight[5], gains=np.roll(straight[5].gains, 7))
    query_key = straight[5].feedback.query_key
    config = replace(CROSS, epochs=1)  # a single epoch, so that validation does not select
    qrels = {one.feedback.query_key: {str(row): 1 for row in one.feedback.gains} for one in straight}
    choices = [
        finished(
            select(
                collection, ClickInterpretations({"graded": examples}, qrels, None), INITIAL, config, TrialCache(None)
            )
        )[0]
        for examples in (straight, changed)
    ]
    assert all(choice.recipe.query_projection for choice in choices)
    same = {
        fold: head_bytes(choices[0].trials[fold].head) == head_bytes(choices[1].trials[fold].head)
        for fold in choices[0].trials
    }
    assert len(same) == FOLDS
    assert same[fold_of(query_key)]
    assert sum(same.values()) == sum(
        choices[0].trials[fold] is choices[0].trials[fold_of(query_key)] for fold in choices[0].trials
    )
    assert choices[0].head_for(query_key) is choices[0].trials[fold_of(query_key)].head


def test_the_optimism_is_subtracted_for_cross_fitted_queries(
    collection: Generation, monkeypatch: pytest.MonkeyPatch
) -> None:
    feedback = asked(shifted=True, count=60)
    monkeypatch.setattr("index.learning.model_selection._optimism", lambda table, base, selected, config: {})
    plain = run(collection, feedback, CROSS)[0].report["held_out"]["nDCG@10"]
    monkeypatch.setattr(
        "index.learning.model_selection._optimism", lambda table, base, selected, config: {"nDCG@10": 0.1}
    )
    lowered = run(collection, feedback, CROSS)[0].report["held_out"]["nDCG@10"]
    joined = sum(fold_of(one.query_key) >= TEST_FOLDS for one in feedback) / len(feedback)
    for name in ("b", "difference", "low", "high"):
        assert plain[name] - lowered[name] == pytest.approx(0.1 * joined)
    assert plain["a"] == lowered["a"]


def test_a_lowered_comparison_is_lower_by_the_given_amount() -> None:
    before = compare("RR", {"x": 0.1, "y": 0.5, "z": 0.3}, {"x": 0.4, "y": 0.6, "z": 0.9})
    after = before.lowered(0.05)
    assert (before.b - after.b, before.difference - after.difference) == pytest.approx((0.05, 0.05))
    assert (before.low - after.low, before.high - after.high) == pytest.approx((0.05, 0.05))
    assert (after.a, after.queries, after.measure) == (before.a, before.queries, before.measure)


# --- Noise ---


def random_feedback(count: int, seed: int, rows: int, dim: int) -> list[Feedback]:
    """Return random queries, each with a random confirmed document."""
    random, vectors = np.random.default_rng(seed), random_vectors(count, dim, seed=100 + seed)
    return [
        Feedback(
            f"query {seed} {at}", f"word{int(random.integers(rows))}", vectors[at], {int(random.integers(rows)): 1.0}
        )
        for at in range(count)
    ]


@pytest.mark.parametrize(("count", "seed"), [(20, 0), (20, 1), (40, 2), (60, 0), (60, 1)])
def test_random_feedback_does_not_change_the_ranking(tmp_path: Path, count: int, seed: int) -> None:
    rows, dim = 120, 16
    vectors = random_vectors(rows, dim, seed=0)
    generation = generation_of(tmp_path, [passages(row, f"word{row}", vectors[row]) for row in range(rows)], dim=dim)
    champion = AttentionHead(replace(INITIAL, dim=dim, rank=16))
    config = FitConfig(seed=seed, min_queries=10)
    fitted, _ = run(generation, random_feedback(count, seed, rows, dim), config, champion, recipes=RECIPES)
    assert not fitted.decision.promote, fitted.decision.reasons


@pytest.mark.parametrize("count", [20, 60])
def test_initial_parameters_are_kept_if_the_search_is_already_right(collection: Generation, count: int) -> None:
    fitted, _ = run(collection, asked(shifted=False, count=count, noise=0.1), replace(FitConfig(), min_queries=10))
    assert fitted.report["recipe"]["recipe"] == "initial"
    assert not fitted.decision.promote
    for name, value in AttentionHead(INITIAL).parameters_by_name().items():
        if name != "null":
            assert np.array_equal(fitted.head.parameters_by_name()[name], value), name
