"""Recipes, trees, priors and second hop measure the likelihood of clicks on the same queries; NaN without clicks."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from index.generation.generation import Generation
from index.learning.boosting import Scored
from index.learning.click_likelihood import CLICKS, click_table, clicked, clicked_pairs, likelihoods
from index.learning.click_model import ClickModel, estimate_clicks, held_out_qrels
from index.learning.clicked_ranks import RANKS
from index.learning.config import Recipe
from index.learning.examples import FOLDS, Feedback
from index.learning.fit import _interpret
from index.learning.held_out import _hop_measures
from index.learning.model_selection import ClickInterpretations, Selection
from index.learning.prior_fit import candidate_logits
from index.learning.trainer import TrainingSplit, Trial, run_trial
from index.learning.validation_groups import measure_logits
from index.ranking.attention import AttentionHead
from tests.index.learning.test_click_likelihood import log
from tests.index.learning.test_clicked_ranks import compare_ranks
from tests.index.learning_fixtures import CONFIG, INITIAL, asked, collection_of, finished
from tests.index.ranking.attention_by_hand import only

HEAD = AttentionHead(INITIAL)
LOG = log(shifted=False)
JUDGED = asked(shifted=False, count=75)[60:]
QUERIES: Sequence[Feedback] = sorted([*LOG, *JUDGED], key=lambda one: one.query_key)
MODEL: ClickModel = estimate_clicks(LOG)
CURVE = MODEL.examination.curve


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Generation:
    return collection_of(Path(tmp_path_factory.mktemp("measured")))


@pytest.fixture(scope="module")
def interpretations(collection: Generation) -> ClickInterpretations:
    return finished(_interpret(collection, QUERIES, INITIAL, MODEL, CONFIG))[0]


def expected(collection: Generation, halves: bool) -> NDArray[np.float64]:
    """Return the likelihoods in the order of QUERIES; halves: g of a half is fitted on the other half."""
    found = {one.query_key: clicked(collection, HEAD, one, CURVE) for one in LOG}
    known = {key: one for key, one in found.items() if one is not None}
    assert len(known) == len(LOG)
    table = click_table({key: (one.log_propensity, one.clicks) for key, one in known.items()})
    own = likelihoods(known) if halves else table.likelihoods({key: one.logits for key, one in known.items()})
    return np.asarray([own.get(one.query_key, np.nan) for one in QUERIES])


def test_a_trial_measures_its_validation_queries(collection: Generation, interpretations: ClickInterpretations) -> None:
    data = TrainingSplit([], interpretations.examples["debiased"], interpretations.qrels, CURVE)
    trial = finished(run_trial(collection, data, INITIAL, Recipe("initial", weights=False), 1, CONFIG))[0]
    (measured,) = trial.clicks
    found = [measured.get(one.query_key, np.nan) for one in QUERIES]
    assert found == pytest.approx(expected(collection, halves=False), abs=1e-3, nan_ok=True)


def test_every_epoch_of_a_trial_has_its_likelihoods(
    collection: Generation, interpretations: ClickInterpretations
) -> None:
    examples = interpretations.examples["debiased"]
    data = TrainingSplit(examples[:40], examples[40:], interpretations.qrels, CURVE)
    trial = finished(run_trial(collection, data, INITIAL, Recipe("weights"), 2, CONFIG))[0]
    of_clicks = {one.feedback.query_key for one in examples[40:] if one.feedback.shown is not None}
    assert of_clicks
    assert [set(epoch) for epoch in trial.clicks] == [of_clicks] * len(trial.measures)


def test_trees_measure_the_documents_shown(collection: Generation, interpretations: ClickInterpretations) -> None:
    examples = interpretations.examples["graded"]
    scored = Scored.of(collection, HEAD, examples)
    logits = np.split(scored.logits, np.cumsum(scored.counts)[:-1])
    found = measure_logits(collection, examples, logits, interpretations)[CLICKS]
    assert found == pytest.approx(expected(collection, halves=False), abs=1e-3, nan_ok=True)


def test_priors_measure_the_documents_shown(collection: Generation, interpretations: ClickInterpretations) -> None:
    examples = interpretations.examples["debiased"]
    logits = candidate_logits(collection, HEAD, examples)
    found = measure_logits(collection, examples, logits, interpretations)
    assert found[CLICKS] == pytest.approx(expected(collection, halves=False), abs=1e-3, nan_ok=True)
    assert set(found[RANKS][~np.isnan(found[RANKS])].tolist()) == {0.0}


def test_trees_and_priors_measure_the_gain_of_ranks_that_the_gate_measures(
    collection: Generation, interpretations: ClickInterpretations
) -> None:
    examples = interpretations.examples["debiased"]
    worse = AttentionHead(replace(INITIAL, beta=only(words=1.0)))
    logits, before = (candidate_logits(collection, head, examples) for head in (HEAD, worse))
    found = measure_logits(collection, examples, logits, interpretations, before)[RANKS]
    expected = compare_ranks(*clicked_pairs(collection, worse, [(one, HEAD) for one in LOG], CURVE))
    assert (~np.isnan(found)).sum() == expected.queries == len(LOG)
    assert np.nanmean(found) == pytest.approx(expected.difference, abs=1e-5)
    assert expected.difference > 0


def test_the_second_hop_measures_the_heads_of_cross_validation(collection: Generation) -> None:
    trials = {fold: Trial(HEAD, 1, {}) for fold in range(FOLDS)}
    selection = Selection(Recipe("weights"), trials, {}, len(QUERIES), {}, ())
    found = _hop_measures(collection, selection, QUERIES, held_out_qrels(QUERIES, MODEL), CURVE)
    assert found[CLICKS] == pytest.approx(expected(collection, halves=True), abs=1e-3, nan_ok=True)
    assert np.isnan(found[CLICKS]).sum() == len(JUDGED)
