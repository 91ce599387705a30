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
from index.learning.held_out import is_untrained, ranked_rows
from index.learning.null_calibration import null_evidence
from index.learning.null_slot import calibrate_null, labelled_evidence
from index.ranking.attention import AttentionHead
from index.ranking.retrieval import Query
from index.ranking.search import search
from index.records import Floats
from tests.index.fixtures import generation_of, passages, remembered
from tests.index.learning_fixtures import COUNT, INITIAL, VECTORS, asked, collection_of
from tests.index.ranking.attention_by_hand import only


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
    calibrated = calibrate_null(collection, head, feedback[:70])
    answered, unanswered = (null_weights(collection, calibrated, feedback[70:], answer) for answer in (True, False))
    assert np.median(answered) < 0.25 < 0.5 < np.median(unanswered)
    assert (answered >= 0.5).mean() <= 0.1


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
    calibrated = calibrate_null(collection, head, clicked[:70])
    nulls: dict[bool, list[float]] = {True: [], False: []}
    for one in clicked[70:]:
        for answer, allowed in ((True, None), (False, ~np.isin(collection.rows, list(one.gains)))):
            nulls[answer].append(search(collection, calibrated, Query("", one.vector, allowed=allowed)).null_weight)
    assert np.median(nulls[True]) < 0.5 < np.median(nulls[False])


def test_calibration_changes_no_ranking_and_no_other_parameter(collection: Generation) -> None:
    feedback, head = asked(shifted=False), AttentionHead(INITIAL)
    before = copy.deepcopy(head)
    calibrated = calibrate_null(collection, head, feedback)
    initial, now = before.parameters_by_name(), calibrated.parameters_by_name()
    assert {name for name in initial if not np.array_equal(initial[name], now[name])} == {"null"}
    assert (before.is_null_calibrated, calibrated.is_null_calibrated) == (False, True)
    one = feedback[0]
    assert ranked_rows(collection, before, one) == ranked_rows(collection, calibrated, one)


def test_a_calibrated_null_slot_is_in_the_configuration_and_leaves_a_head_untrained(collection: Generation) -> None:
    calibrated = calibrate_null(collection, AttentionHead(INITIAL), asked(shifted=False))
    from_config = AttentionHead(calibrated.config)
    assert from_config.null.tolist() == calibrated.null.tolist() != list(INITIAL.null)
    assert from_config.is_null_calibrated
    assert is_untrained(calibrated)
    assert is_untrained(AttentionHead(INITIAL).changed(null=(1.0, 2.0, 3.0)))


def test_the_null_slot_is_calibrated_by_heads_that_did_not_train_on_the_query(collection: Generation) -> None:
    """A head finds more evidence for the queries that it trained on, so its threshold is too high for new queries."""
    feedback, seen_by = asked(shifted=False), AttentionHead(replace(INITIAL, inverse_temperature=30.0))
    others = AttentionHead(INITIAL)
    own = calibrate_null(collection, seen_by, feedback)
    crossed = calibrate_null(collection, seen_by, feedback, lambda query_key: others)
    assert crossed.null[0] < own.null[0]
    assert crossed.null.tolist() == calibrate_null(collection, others, feedback).null.tolist()
    assert not calibrate_null(collection, seen_by, feedback, lambda query_key: None).is_null_calibrated


def test_the_unanswered_search_of_the_calibration_is_a_search_without_the_documents(tmp_path: Path) -> None:
    """The best of the other documents has all of the BM25 share there, as in a real search that has no answer."""
    words = ["alpha beta gamma delta", "alpha beta other", "alpha more words here", *["nothing in common"] * 5]
    generation = generation_of(
        tmp_path, [passages(row, text, VECTORS[row]) for row, text in enumerate(words)], (), VECTORS.shape[1]
    )
    head = AttentionHead(replace(INITIAL, beta=only(words=1.0)))
    one = Feedback("q", "alpha beta gamma delta", VECTORS[0], {0: 1.0})
    found = labelled_evidence(generation, head, [one])
    logits = search(generation, head, Query(one.text, one.vector, allowed=np.arange(len(words)) != 0)).logits
    assert found.unanswered[0] == pytest.approx(null_evidence(logits))
    hidden = search(generation, head, Query(one.text, one.vector))
    assert null_evidence(hidden.logits[hidden.doc_indices != 0])[0] < found.unanswered[0][0]


def test_with_few_queries_the_null_slot_is_unchanged_and_not_calibrated(collection: Generation) -> None:
    for feedback in ([], asked(shifted=False)[:10]):
        left = calibrate_null(collection, AttentionHead(INITIAL), feedback)
        assert left.null.tolist() == list(INITIAL.null)
        assert not left.is_null_calibrated
