"""Training: it learns from feedback, keeps the initial head without a gain, and never reads held-out queries."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.errors import NotEnoughFeedback
from index.generation.generation import Generation
from index.learning.config import Step
from index.learning.examples import TEST_FOLDS, Feedback, fold_of
from index.learning.fit import Fitted, fit
from index.learning.judgment_likelihood import JUDGMENTS
from index.ranking.attention import EVIDENCE, AttentionHead
from index.records import Key, KeyKind
from tests.index.fixtures import IndexedDocument, arrays_of, generation_of, passages, random_vectors, remembered
from tests.index.learning_fixtures import (
    ALL_FOLDS,
    CONFIG,
    COUNT,
    DIM,
    INITIAL,
    QUICK,
    VECTORS,
    asked,
    collection_of,
    run,
)
from tests.index.ranking.attention_by_hand import only

Run = tuple[Fitted, list[Step]]


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Generation:
    return collection_of(tmp_path_factory.mktemp("collection"))


@pytest.fixture(scope="module")
def learned(collection: Generation) -> Run:
    """A fit to shifted queries, which most tests use."""
    return run(collection, asked(shifted=True))


def bits(head: AttentionHead) -> str:
    values = head.parameters_by_name().items()
    return hashlib.sha256(b"".join(name.encode() + value.tobytes() for name, value in values)).hexdigest()


def arrays(generation: Generation) -> str:
    memory = generation.memory
    parts = [*arrays_of(generation).values(), memory.vectors, memory.weights, memory.rows]
    return hashlib.sha256(b"|".join(part.tobytes() for part in parts)).hexdigest()


# --- Learning ---


def test_a_query_projection_is_learned_and_improves_held_out_queries(learned: Run) -> None:
    fitted, _ = learned
    held_out = fitted.report["held_out"]["nDCG@10"]
    assert fitted.report["recipe"]["recipe"] == "projection"
    assert held_out["a"] < 0.2
    assert held_out["b"] > 0.8
    assert fitted.decision.promote


def test_with_few_queries_every_fold_validates_once_and_the_head_is_fitted_to_all(collection: Generation) -> None:
    fitted, steps = run(collection, asked(shifted=True), replace(CONFIG, cross_validation_queries=ALL_FOLDS))
    choosing = [step.figures["fold"] for step in steps if step.phase == "choose"]
    assert sorted(set(choosing)) == list(range(TEST_FOLDS, TEST_FOLDS + CONFIG.folds))  # each group has two folds
    assert fitted.report["recipe"]["validation_queries"] == fitted.report["queries"]["train"]
    epochs = [step for step in steps if step.phase == "train"]
    assert len(epochs) == fitted.report["recipe"]["epochs"] > 0
    assert fitted.report["held_out"]["nDCG@10"]["b"] > 0.8


def test_the_loss_falls_from_epoch_to_epoch(learned: Run) -> None:
    _, steps = learned
    losses = [float(step.figures["loss"]) for step in steps if step.figures.get("recipe") == "projection"]
    assert len(losses) > 3
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0] / 4


def test_a_wrong_weight_between_titles_and_passages_is_corrected(tmp_path: Path) -> None:
    titles = random_vectors(COUNT, DIM, seed=9)
    documents = [
        IndexedDocument(row, "", [Key(KeyKind.TITLE, titles[row]), Key(KeyKind.PASSAGE, VECTORS[row])])
        for row in range(COUNT)
    ]
    generation = generation_of(tmp_path, documents, dim=DIM)
    champion = AttentionHead(replace(INITIAL, beta=only(title=0.8, passage=0.3)))
    fitted, _ = run(generation, asked(shifted=False, noise=0.8), champion=champion)
    beta = fitted.report["head"]["beta"]
    assert fitted.report["recipe"]["recipe"] != "initial"
    assert beta["passage"] > beta["title"]
    assert fitted.report["held_out"]["nDCG@10"]["difference"] > 0.05


@pytest.mark.parametrize("gain", [0.3, 1.0, 7.0])
def test_only_the_shares_of_the_gains_matter(learned: Run, collection: Generation, gain: float) -> None:
    feedback = [replace(one, gains=dict.fromkeys(one.gains, gain)) for one in asked(shifted=True)]
    fitted, _ = run(collection, feedback)
    assert fitted.report["recipe"] == learned[0].report["recipe"]
    assert fitted.report["held_out"]["nDCG@10"]["b"] > 0.8


@pytest.mark.parametrize("grade", [-0.9, -1.0, -4.0])
def test_grades_below_0_change_no_bit(learned: Run, collection: Generation, grade: float) -> None:
    feedback = [replace(one, gains={(min(one.gains) + 7) % COUNT: grade} | one.gains) for one in asked(shifted=True)]
    fitted, _ = run(collection, feedback)
    assert bits(fitted.head) == bits(learned[0].head)


# --- Where there is nothing to learn ---


def test_training_stops_when_validation_no_longer_improves(collection: Generation) -> None:
    feedback = asked(shifted=False, noise=0.1)  # the initial head finds all: no epoch is better than the first
    for patience in (1, 3):
        _, steps = run(collection, feedback, replace(CONFIG, patience=patience))
        assert [step.done for step in steps if step.figures.get("recipe") == "weights"] == list(range(1, patience + 2))


@pytest.mark.parametrize("mislabeled", [0.0, 0.3])
def test_initial_parameters_are_kept_if_they_already_rank_correctly(collection: Generation, mislabeled: float) -> None:
    random = np.random.default_rng(4)
    feedback = [
        replace(one, gains={int(random.integers(COUNT)): 1.0}) if random.random() < mislabeled else one
        for one in asked(shifted=False, noise=0.8)
    ]
    champion = AttentionHead(INITIAL)
    config = replace(CONFIG, cross_validation_queries=ALL_FOLDS, priors=())
    fitted, _ = run(collection, feedback, config, champion)
    assert fitted.report["recipe"]["recipe"] == "initial"
    assert not fitted.decision.promote
    assert fitted.report["held_out"]["nDCG@10"]["difference"] == 0.0
    for name, value in champion.parameters_by_name().items():
        if name != "null":
            assert np.array_equal(fitted.head.parameters_by_name()[name], value), name


def test_random_labels_validate_no_better_than_chance(tmp_path: Path) -> None:
    """A random ranking of 200 documents scores 0.02.

    A judged document that is a candidate only because of its judgment differs from the hard negatives. A head can learn
    this difference, and validation must not reward it, because a search does not have it.
    """
    vectors, queries = random_vectors(200, DIM, seed=5), random_vectors(120, DIM, seed=6)
    generation = generation_of(tmp_path, [passages(row, "", vectors[row]) for row in range(200)], dim=DIM)
    random = np.random.default_rng(7)
    feedback = [
        Feedback(f"query {number}", "", query, {int(random.integers(200)): 1.0}) for number, query in enumerate(queries)
    ]
    fitted, _ = run(generation, feedback, replace(CONFIG, cross_validation_queries=ALL_FOLDS, epochs=4))
    assert not fitted.decision.promote
    assert max(fitted.report["recipe"]["validation_ndcg"].values()) < 0.15


def test_decay_is_towards_the_initial_parameters_and_not_towards_zero(collection: Generation) -> None:
    all_the_way_back = [replace(recipe, learning_rate=0.01, decay=100.0) for recipe in QUICK]
    slow, champion = replace(CONFIG, scalar_learning_rate=0.01), AttentionHead(INITIAL)
    fitted, steps = run(collection, asked(shifted=True), slow, champion, recipes=all_the_way_back)
    losses = {step.figures["recipe"]: step.figures["loss"] for step in steps if step.phase == "choose"}
    assert losses["projection"] == pytest.approx(losses["weights"], rel=0.1)
    for name, value in champion.parameters_by_name().items():
        if name != "null":
            assert np.allclose(fitted.head.parameters_by_name()[name], value, atol=1e-6), name


@pytest.mark.parametrize("count", [0, 1, 19])
def test_too_little_feedback_is_an_error_that_names_the_required_number(collection: Generation, count: int) -> None:
    with pytest.raises(NotEnoughFeedback) as caught:
        run(collection, asked(shifted=True)[:count])
    assert (caught.value.have, caught.value.need) == (count, 20)


def test_feedback_without_a_confirmed_document_does_not_count(collection: Generation) -> None:
    feedback = [replace(one, gains=dict.fromkeys(one.gains, 0.0)) for one in asked(shifted=True)]
    with pytest.raises(NotEnoughFeedback) as caught:
        run(collection, feedback)
    assert caught.value.have == 0


@pytest.mark.parametrize("held_out", [True, False])
def test_without_queries_on_either_side_of_the_split_there_is_no_fit(collection: Generation, held_out: bool) -> None:
    feedback = [one for one in asked(shifted=True) if (fold_of(one.query_key) < TEST_FOLDS) == held_out]
    assert len(feedback) > 20
    missing = "training" if held_out else "held-out"
    with pytest.raises(NotEnoughFeedback, match=f"^0 {missing} queries with a confirmed document; .* needs 1$"):
        run(collection, feedback)


def test_feedback_on_removed_documents_changes_nothing(collection: Generation) -> None:
    feedback = [replace(one, gains={1000 + number: 1.0}) for number, one in enumerate(asked(shifted=True))]
    fitted, _ = run(collection, feedback)
    assert fitted.report["recipe"]["recipe"] == "initial"
    assert not fitted.decision.promote


# --- What training must not do ---


def test_the_same_feedback_and_seed_give_the_same_bits(learned: Run, collection: Generation) -> None:
    again, steps = run(collection, asked(shifted=True))
    assert bits(again.head) == bits(learned[0].head)
    assert [step.figures for step in steps] == [step.figures for step in learned[1]]
    assert again.report == learned[0].report


def test_the_order_of_the_feedback_does_not_matter(learned: Run, collection: Generation) -> None:
    assert bits(run(collection, asked(shifted=True)[::-1])[0].head) == bits(learned[0].head)


def test_another_seed_gives_other_bits(learned: Run, collection: Generation) -> None:
    assert bits(run(collection, asked(shifted=True), replace(CONFIG, seed=1))[0].head) != bits(learned[0].head)


def test_held_out_queries_never_enter_training(learned: Run, collection: Generation) -> None:
    poisoned = [
        replace(one, gains={(next(iter(one.gains)) + 7) % COUNT: 5.0}) if fold_of(one.query_key) < TEST_FOLDS else one
        for one in asked(shifted=True)
    ]
    fitted, _ = run(collection, poisoned)
    assert bits(fitted.head) == bits(learned[0].head)
    assert fitted.report["held_out"]["nDCG@10"]["b"] < 0.5 < learned[0].report["held_out"]["nDCG@10"]["b"]


def test_training_queries_enter_training(learned: Run, collection: Generation) -> None:
    feedback = asked(shifted=True)
    at = next(number for number, one in enumerate(feedback) if fold_of(one.query_key) >= TEST_FOLDS)
    feedback[at] = replace(feedback[at], gains={(next(iter(feedback[at].gains)) + 7) % COUNT: 1.0})
    assert bits(run(collection, feedback)[0].head) != bits(learned[0].head)


def test_training_changes_neither_keys_nor_the_champion(tmp_path: Path) -> None:
    feedback = asked(shifted=True)
    memory = [
        remembered(number, next(iter(one.gains)), one.vector, query_key=one.query_key)
        for number, one in enumerate(feedback)
    ]
    generation = collection_of(tmp_path, memory)
    champion = AttentionHead(INITIAL)
    before = arrays(generation), bits(champion)
    fitted, _ = run(generation, feedback, champion=champion)
    assert bits(fitted.head) != bits(champion)
    assert (arrays(generation), bits(champion)) == before


def test_weights_of_evidence_never_fall_below_zero(collection: Generation) -> None:
    away = []
    for one in asked(shifted=False):  # the farthest of ten examined documents is relevant
        order = np.argsort(VECTORS @ one.vector)
        shown = {int(row): {1: 10} for row in [order[0], *order[-9:]]}
        away.append(replace(one, gains={int(order[0]): 10.0}, shown=shown))
    fitted, _ = run(collection, away, replace(CONFIG, scalar_learning_rate=0.1), recipes=QUICK[:2])
    assert fitted.report["recipe"]["recipe"] == "weights"
    assert fitted.report["head"]["beta"]["passage"] == 0.0
    assert min(fitted.report["head"]["beta"].values()) == 0.0


# --- The report ---


def test_the_report_describes_the_run_and_its_result(learned: Run) -> None:
    fitted, _ = learned
    report = fitted.report
    test_queries = sum(fold_of(one.query_key) < TEST_FOLDS for one in asked(shifted=True))
    assert report["queries"] == {"train": 140 - test_queries, "test": test_queries}
    assert report["config"]["candidates"] == CONFIG.candidates
    pace = ", learning_rate 0.02"
    assert set(report["recipe"]["validation_ndcg"]) == {"initial", "weights", f"projection{pace}"}
    assert set(report["held_out"]) == {"nDCG@10", "R@100", JUDGMENTS}
    validated = report["held_out_queries"]["cross_fitted"]  # of the single validation fold
    assert validated > 0
    assert report["held_out"]["nDCG@10"]["queries"] == test_queries + validated
    assert tuple(report["head"]["beta"]) == EVIDENCE
    assert json.loads(json.dumps(report)) == report | {"config": json.loads(json.dumps(report["config"]))}


def test_steps_report_the_progress_of_a_run(learned: Run) -> None:
    _, steps = learned
    phases = ["examples", "choose", "hop", "trees", "priors", "evaluate"]
    assert list(dict.fromkeys(step.phase for step in steps)) == phases
    assert all(0 <= step.done <= step.total for step in steps)
    assert {step.figures["recipe"] for step in steps if step.phase == "choose"} == {recipe.name for recipe in QUICK[1:]}


def test_a_run_may_be_stopped_between_steps(collection: Generation) -> None:
    steps = fit(collection, asked(shifted=True), AttentionHead(INITIAL), CONFIG)
    next(steps)
    steps.close()
    assert list(steps) == []
