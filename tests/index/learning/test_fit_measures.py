"""Measures of training: held-out queries are searched in full, and the null slot is calibrated on searches."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.generation.generation import Generation
from index.learning.click_model import held_out_qrels
from index.learning.examples import Feedback, make_batch, make_examples
from index.learning.fit import calibrate_null
from index.learning.held_out import ranked_rows
from index.ranking.attention import AttentionHead
from index.ranking.retrieval import Query
from index.ranking.search import search
from index.records import Floats
from tests.index.fixtures import remembered
from tests.index.learning_fixtures import COUNT, INITIAL, asked, collection_of


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Generation:
    return collection_of(tmp_path_factory.mktemp("collection"))


# --- Held-out queries ---


def test_a_query_is_evaluated_without_its_own_memory(tmp_path: Path) -> None:
    one = asked(shifted=True)[0]
    (row,) = one.gains
    ranks = {}
    for query_key in ("nothing", one.query_key, "another query"):
        memory = [remembered(1, row, one.vector, query_key=query_key, weight=100.0)] if query_key != "nothing" else []
        generation = collection_of(tmp_path / query_key, memory)
        ranks[query_key] = ranked_rows(generation, AttentionHead(INITIAL), one).index(str(row))
    assert ranks[one.query_key] == ranks["nothing"] > ranks["another query"] == 0


def test_gains_become_grades_and_positive_gains_stay_positive() -> None:
    one = replace(asked(shifted=True)[0], gains={3: 0.2, 4: 0.0, 5: 2.6})
    assert held_out_qrels([one]) == {one.query_key: {"3": 1, "4": 0, "5": 3}}


# --- The null slot ---


def null_weights(
    collection: Generation, head: AttentionHead, feedback: Sequence[Feedback], with_answer: bool
) -> Floats:
    """Return the weight of the null slot for queries with or without their relevant document among the candidates."""
    examples = make_examples(collection, feedback, lambda vector: vector[None], 20)
    batch = make_batch(collection, examples)
    candidates = batch.candidates
    if not with_answer:
        candidates = replace(candidates, mask=candidates.mask & (batch.gains == 0))
    weights: Floats = head(batch.query, candidates).weights[:, -1]
    return weights


@pytest.mark.parametrize("born_with", [(-30.0, 1.0, 0.0), (12.0, 1.0, 0.0), (90.0, 0.2, 5.0)])
def test_the_calibrated_null_slot_separates_queries_with_and_without_an_answer(
    collection: Generation, born_with: tuple[float, float, float]
) -> None:
    feedback = asked(shifted=False, noise=0.1)
    head = AttentionHead(replace(INITIAL, null=born_with, inverse_temperature=30.0))
    examples = make_examples(collection, feedback[:70], lambda vector: vector[None], 20)
    calibrated = calibrate_null(collection, head, examples)
    answered, unanswered = (null_weights(collection, calibrated, feedback[70:], answer) for answer in (True, False))
    assert np.median(answered) < 0.25 < 0.75 < np.median(unanswered)


def test_a_null_slot_calibrated_on_clicks_holds_for_searches(collection: Generation) -> None:
    """Lists show ten documents and a search has more candidates; the null weight of searches must be calibrated."""
    random, head = np.random.default_rng(3), AttentionHead(INITIAL)
    clicked = [
        replace(
            one,
            shown={int(row): {position: 1} for position, row in enumerate([*one.gains, *random.choice(COUNT, 9)], 1)},
        )
        for one in asked(shifted=False, noise=0.1)
    ]
    examples = make_examples(collection, clicked[:70], lambda vector: vector[None], 20)
    calibrated = calibrate_null(collection, head, examples)
    nulls: dict[bool, list[float]] = {True: [], False: []}
    for one in clicked[70:]:
        for answer, allowed in ((True, None), (False, ~np.isin(collection.rows, list(one.gains)))):
            nulls[answer].append(search(collection, calibrated, Query("", one.vector, allowed=allowed)).null_weight)
    assert np.median(nulls[True]) < 0.5 < np.median(nulls[False])


def test_calibration_changes_no_ranking_and_no_other_parameter(collection: Generation) -> None:
    feedback, head = asked(shifted=False), AttentionHead(INITIAL)
    examples = make_examples(collection, feedback, lambda vector: vector[None], 20)
    before = copy.deepcopy(head)
    calibrated = calibrate_null(collection, head, examples)
    initial, now = before.parameters_by_name(), calibrated.parameters_by_name()
    assert {name for name in initial if not np.array_equal(initial[name], now[name])} == {"null"}
    assert (before.is_null_calibrated, calibrated.is_null_calibrated) == (False, True)
    one = feedback[0]
    assert ranked_rows(collection, before, one) == ranked_rows(collection, calibrated, one)


def test_without_examples_the_null_slot_is_unchanged(collection: Generation) -> None:
    assert calibrate_null(collection, AttentionHead(INITIAL), []).null.tolist() == list(INITIAL.null)
