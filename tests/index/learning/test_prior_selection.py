"""Priors learn which documents people choose on many queries, and are left out where there are none."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.generation.columns import id_order
from index.generation.generation import Generation
from index.learning.config import FitConfig, Recipe
from index.learning.examples import TEST_FOLDS, Example, Feedback, fold_of, make_examples
from index.learning.field_effects import LEAST
from index.learning.fit import Fitted, fit
from index.learning.model_selection import ClickInterpretations, Selection
from index.learning.prior_fit import LEAST_SHARPNESS, Residuals, candidate_logits, fit_priors, minimum
from index.learning.prior_selection import NO_PRIORS, PriorChoice, _cross_fitted, select_priors
from index.learning.trainer import Trial
from index.memory.click_worth import ASSUMED_CURVE
from index.memory.query_key import anonymous_key
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.priors import LARGEST, bounded, document_hashes, no_priors
from index.ranking.search import project
from tests.index.fixtures import ENCODER, generation_of, remembered, vector_of, written
from tests.index.learning_fixtures import finished
from tests.index.ranking.attention_by_hand import only

KINDS, MAKERS, COUNT = 12, 5, 96
CONFIG = FitConfig(recipes=("initial",), hops=(), trees=(), cross_validation_queries=1000, error_share=1.0)
HEAD = AttentionHead(HeadConfig(dim=ENCODER.dim, beta=only(words=1.0), inverse_temperature=3.0))
"""A head that puts the documents of a kind before all others, all alike."""
PENALTY = 1.0
REMEMBERING = AttentionHead(HeadConfig(dim=ENCODER.dim, beta=only(words=1.0, memory=1.0)))


def collection(directory: Path, memory: tuple[tuple[str, int], ...] = ()) -> Generation:
    """Return, for each kind, a document of each maker. memory: pairs of a query key and a confirmed row."""
    documents = [
        replace(written(kind * MAKERS + maker, f"kind{kind} thing"), id=f"{kind}-{maker}")
        for kind in range(KINDS)
        for maker in range(MAKERS)
    ]
    keys = [
        remembered(at, row, vector_of(f"kind{row // MAKERS}"), query_key=key) for at, (key, row) in enumerate(memory)
    ]
    return generation_of(directory, documents, keys)


def feedback(chance: bool) -> list[Feedback]:
    """Return queries for a kind, each in other words. People choose its popular document, or one by chance."""
    random = np.random.default_rng(0)
    popular = random.integers(0, MAKERS, KINDS)
    asked = []
    for at in range(COUNT):
        kind, text = at % KINDS, f"kind{at % KINDS} ask{at}"
        maker = random.integers(MAKERS) if chance else popular[kind]
        asked.append(Feedback(text, text, vector_of(text), {kind * MAKERS + int(maker): 3.0}))
    return asked


def as_clicks(one: Feedback) -> Feedback:
    """Return the feedback as twenty clicks in lists that showed all documents of the kind at each of five positions."""
    ((row, _),) = one.gains.items()
    first = row // MAKERS * MAKERS
    each = dict.fromkeys(range(1, MAKERS + 1), 8)
    clicks = dict.fromkeys(each, 4)
    return replace(one, gains={row: 20.0}, shown={first + maker: each for maker in range(MAKERS)}, clicks={row: clicks})


def fitted(directory: Path, asked: list[Feedback], config: FitConfig = CONFIG) -> Fitted:
    return finished(fit(collection(directory), asked, HEAD, config))[0]


def chosen_document(one: Feedback) -> np.ndarray:
    ((row, _),) = one.gains.items()
    return document_hashes(id_order([f"{row // MAKERS}-{row % MAKERS}"]))


@pytest.mark.parametrize("reading", ["judgments", "averaged", "debiased"])
def test_popular_documents_get_a_prior_and_come_first_for_new_queries(tmp_path: Path, reading: str) -> None:
    asked, config = feedback(chance=False), CONFIG
    if reading != "judgments":
        asked, config = [as_clicks(one) for one in asked], replace(CONFIG, interpretations=(reading,))
    found = fitted(tmp_path, asked, config)
    assert found.report["priors"]["chosen"] in CONFIG.priors
    assert found.report["priors"]["documents"] == len(found.head.priors) == found.report["head"]["priors"]
    held_out = [one for one in asked if fold_of(one.query_key) < TEST_FOLDS]
    assert all(found.head.priors.of(chosen_document(one))[0] > 0.3 for one in held_out)
    assert found.report["held_out"]["nDCG@10"]["b"] == pytest.approx(1.0, abs=0.01)
    assert found.decision.promote, found.decision.reasons


@pytest.mark.parametrize("clicks", [False, True])
def test_there_are_no_priors_where_chance_decides(tmp_path: Path, clicks: bool) -> None:
    asked = feedback(chance=True)
    found = fitted(tmp_path, [as_clicks(one) for one in asked] if clicks else asked)
    assert found.report["priors"]["chosen"] is None
    assert not len(found.head.priors)
    assert not found.decision.promote


@pytest.mark.parametrize("change", [{"priors": ()}, {"interpretations": ("naive",)}])
def test_priors_are_not_tried_without_penalties_or_for_naive_clicks(tmp_path: Path, change: dict[str, object]) -> None:
    asked = [as_clicks(one) for one in feedback(chance=False)]
    found = fitted(tmp_path, asked, replace(CONFIG, **change))  # type: ignore[arg-type]
    assert found.report["priors"] == NO_PRIORS.as_dict()


def test_a_run_from_a_champion_with_priors_starts_without_them(tmp_path: Path) -> None:
    champion = fitted(tmp_path / "first", feedback(chance=False)).head
    again, _ = finished(fit(collection(tmp_path / "second"), feedback(chance=False), champion, CONFIG))
    assert again.head.config == champion.config
    assert again.report["held_out"]["nDCG@10"]["difference"] == pytest.approx(0, abs=1e-6)


def test_priors_are_fitted_without_the_memory_of_the_queries_that_measure_them(tmp_path: Path) -> None:
    """With it, a document that was chosen by chance there would seem to be refused by the other queries."""
    asked = feedback(chance=False)
    trials = dict.fromkeys(range(TEST_FOLDS, 10), Trial(REMEMBERING, 1, {}))
    selection, folds = Selection(Recipe("initial"), trials, {}, 0, {}, ()), frozenset({0, 1, 2, 3})
    named = [(fold_of(one.query_key) in folds, one.text, next(iter(one.gains))) for one in asked]
    of_folds, of_others = ([(text, row) for inside, text, row in named if inside is wanted] for wanted in (True, False))
    anonymous = [(anonymous_key(text), row) for text, row in of_others]

    def logits(name: str, memory: list[tuple[str, int]], without: frozenset[int]) -> list[bytes]:
        generation = collection(tmp_path / name, tuple(memory))
        found = _cross_fitted(generation, selection, REMEMBERING, learned(generation, asked), without)
        return [own.tobytes() for own in found]

    forgetful = logits("forgetful", [], folds)
    assert logits("of these folds", of_folds, folds) == forgetful
    assert logits("anonymous", anonymous, folds) == forgetful
    assert logits("of others", of_others, folds) != forgetful
    assert logits("kept", of_folds, frozenset()) != forgetful


def selected(directory: Path, memory: Sequence[tuple[str, int]], clicks: bool = False) -> tuple[PriorChoice, Residuals]:
    """Return a choice of priors with a single penalty, which is always taken, and the residuals of fold 2.

    The residuals are those of the queries of the other folds, without any memory.
    """
    asked = [
        as_clicks(one) if clicks else one for one in feedback(chance=False) if fold_of(one.query_key) >= TEST_FOLDS
    ]
    generation = collection(directory, tuple(memory))
    readings = {"graded": learned(generation, asked)} | ({"debiased": learned(generation, asked)} if clicks else {})
    qrels = {one.query_key: {str(row): 1 for row in one.gains} for one in asked}
    trials = {fold: Trial(head_of(fold), 1, {}) for fold in range(TEST_FOLDS, 10)}
    config = replace(CONFIG, priors=(PENALTY,), error_share=-1e9)
    selection = Selection(Recipe("initial"), trials, {}, 0, {}, ())
    choice, _ = finished(select_priors(generation, selection, ClickInterpretations(readings, qrels, None), config))
    plain = collection(directory / "plain")
    others = [one for one in learned(plain, asked) if fold_of(one.feedback.query_key) != 2]
    logits = [candidate_logits(plain, head_of(fold_of(one.feedback.query_key)), [one])[0] for one in others]
    return choice, Residuals.of(plain, others, logits)


def head_of(fold: int) -> AttentionHead:
    """Return the head of a fold: each has another temperature."""
    return REMEMBERING.changed(log_inverse_temperature=np.log(2.0 + 0.1 * fold))


@pytest.mark.parametrize("clicks", [False, True])
def test_the_heads_of_cross_validation_have_priors_of_other_folds_without_the_memory_of_their_own(
    tmp_path: Path, clicks: bool
) -> None:
    own = [(one.text, next(iter(one.gains))) for one in feedback(chance=False) if fold_of(one.query_key) in (0, 1, 2)]
    for name, memory in (("without", []), ("with", own)):
        choice, residuals = selected(tmp_path / name, memory, clicks)
        expected = fit_priors(residuals, PENALTY)
        assert choice.penalty == PENALTY
        assert choice.by_fold[2].documents.tobytes() == expected.documents.tobytes()
        assert choice.by_fold[2].values == pytest.approx(expected.values, abs=1e-4)
        everywhere = [priors.values.tobytes() for priors in (*choice.by_fold.values(), choice.priors)]
        assert len(set(everywhere)) == len(everywhere)


def test_the_final_priors_are_fitted_to_all_folds_without_the_memory_of_the_test_folds(tmp_path: Path) -> None:
    held_out = [one for one in feedback(chance=False) if fold_of(one.query_key) < TEST_FOLDS]
    memory = [(one.text, next(iter(one.gains))) for one in held_out]
    with_memory, _ = selected(tmp_path / "with", memory)
    without, residuals = selected(tmp_path / "without", [])
    assert memory
    assert with_memory.priors.values.tobytes() == without.priors.values.tobytes()
    assert np.abs(without.priors.values).mean() > np.abs(fit_priors(residuals, PENALTY).values).mean()


def test_a_document_that_is_clicked_because_it_was_shown_first_has_no_prior(tmp_path: Path) -> None:
    generation = collection(tmp_path)
    asked = []
    for one in feedback(chance=False):
        first = next(iter(one.gains)) // MAKERS * MAKERS
        clicks = {first + at: {at + 1: round(1000 * ASSUMED_CURVE[at])} for at in range(MAKERS)}
        gains = {row: float(sum(of.values())) for row, of in clicks.items()}
        shown = {first + at: {at + 1: 1000} for at in range(MAKERS)}
        asked.append(replace(one, gains=gains, shown=shown, clicks=clicks))
    examples = learned(generation, asked)
    priors = fit_priors(Residuals.of(generation, examples, candidate_logits(generation, HEAD, examples)), 0.1)
    assert np.abs(priors.values).max(initial=0.0) < 0.02


def learned(generation: Generation, asked: list[Feedback]) -> list[Example]:
    return make_examples(generation, asked, lambda vector: project(HEAD, vector), COUNT)


def test_the_priors_are_the_minimum_of_their_loss(tmp_path: Path) -> None:
    generation = collection(tmp_path)
    examples = learned(generation, feedback(chance=False)[:30])
    residuals = Residuals.of(generation, examples, candidate_logits(generation, HEAD, examples))
    found = minimum(residuals, penalty=0.7)
    known = residuals.is_known
    at = np.searchsorted(found.documents, residuals.documents[known])
    logits = found.sharpness * residuals.logits + found.examination * residuals.propensities
    logits[known] += found.biases[at]
    query = np.repeat(np.arange(len(residuals.counts)), residuals.counts)
    scores = np.exp(logits)
    chances = scores / np.bincount(query, scores)[query]
    pull = residuals.weights[query] * (residuals.shares - chances)
    assert 0.7 * found.biases == pytest.approx(np.bincount(at, pull[known], len(found.documents)), abs=0.02)
    assert pull @ residuals.logits == pytest.approx(0, abs=0.02)
    assert pull @ residuals.propensities == pytest.approx(0, abs=0.02)  # the gradient is 0
    priors, served = fit_priors(residuals, 0.7), bounded(found.biases / min(1, found.sharpness))
    assert priors.of(found.documents) == pytest.approx(np.where(np.abs(served) >= LEAST, served, 0))
    assert 0 < np.abs(priors.values).max() < LARGEST


def test_priors_are_of_the_size_of_the_logits_that_they_add_to(tmp_path: Path) -> None:
    generation = collection(tmp_path)
    examples = learned(generation, feedback(chance=False))
    logits = candidate_logits(generation, HEAD, examples)
    random = np.random.default_rng(0)
    evidence = [random.normal(size=len(own)).astype(np.float32) for own in logits]
    shares = [np.exp(own / 2 + (one.gains > 0)) for own, one in zip(evidence, examples, strict=True)]
    asked = [replace(one, gains=own.astype(np.float32)) for own, one in zip(shares, examples, strict=True)]
    found = [fit_priors(Residuals.of(generation, asked, [sharp * own for own in evidence]), 0.3) for sharp in (1, 2)]
    assert found[1].values == pytest.approx(2 * found[0].values, rel=0.05, abs=0.02)


def test_logits_that_say_nothing_have_the_least_sharpness(tmp_path: Path) -> None:
    generation = collection(tmp_path)
    examples = learned(generation, feedback(chance=False))
    random = np.random.default_rng(0)
    logits = [-4 * (one.gains > 0) + random.normal(size=len(one.gains)) for one in examples]
    found = minimum(Residuals.of(generation, examples, [own.astype(np.float32) for own in logits]), 0.3)
    assert found.sharpness == LEAST_SHARPNESS


def test_a_document_that_was_neither_chosen_nor_shown_has_no_prior(tmp_path: Path) -> None:
    generation = collection(tmp_path)
    asked = feedback(chance=False)[:KINDS]
    confirmed = np.concatenate([chosen_document(one) for one in asked])
    graded = [replace(one, gains=dict.fromkeys(range(KINDS * MAKERS), 0.0) | one.gains) for one in asked]
    for feedback_of, documents in (
        (asked, KINDS),
        (graded, KINDS),
        ([as_clicks(one) for one in asked], KINDS * MAKERS),
    ):
        examples = learned(generation, feedback_of)
        logits = candidate_logits(generation, HEAD, examples)
        priors = fit_priors(Residuals.of(generation, examples, logits), 0.1)
        assert len(priors) == documents
        assert (priors.of(confirmed) > 0).all()


def test_few_clicks_weigh_less_and_a_prior_is_bounded(tmp_path: Path) -> None:
    generation = collection(tmp_path)
    asked = [as_clicks(one) for one in feedback(chance=False)]
    few = [replace(one, gains=dict.fromkeys(one.gains, 1.0)) for one in asked]
    weights = [Residuals.of(generation, own, candidate_logits(generation, HEAD, own)).weights for own in
               (learned(generation, asked), learned(generation, few))]  # fmt: skip
    assert weights[0] == pytest.approx(0.8)
    assert weights[1] == pytest.approx(1 / 6)
    examples = learned(generation, asked * 5)
    priors = fit_priors(Residuals.of(generation, examples, candidate_logits(generation, HEAD, examples)), penalty=1e-3)
    assert 0.95 * LARGEST < np.abs(priors.values).max() <= LARGEST


def test_without_examples_there_are_no_priors(tmp_path: Path) -> None:
    assert len(fit_priors(Residuals.of(collection(tmp_path), [], []), 1.0)) == 0


def test_folds_that_share_a_trial_share_it_with_priors() -> None:
    trials = [Trial(HEAD, 1, {}) for _ in range(4)]
    selection = Selection(Recipe("weights"), {fold: trials[fold % 4] for fold in range(8)}, {}, 0, {}, ())
    changed = PriorChoice(no_priors(3), dict.fromkeys(range(8), no_priors(3)), {}, 1.0, {}).applied(selection)
    assert len({id(trial) for trial in changed.trials.values()}) == 4
    assert all(trial.head.config.priors == 3 for trial in changed.trials.values())
