"""Training examples: their candidates, gains and propensities, and the memory that they must not see."""

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.generation.generation import Generation
from index.learning.examples import (
    FOLDS,
    SOLVED_UNCLICKED,
    TEST_FOLDS,
    Example,
    Feedback,
    Solved,
    expected_examinations,
    fold_of,
    half_of,
    make_batch,
    make_example,
    make_examples,
    split,
)
from index.memory.click_worth import EXAMINATION_DECAY
from index.ranking.attention import EVIDENCE, AttentionHead, HeadConfig
from index.ranking.retrieval import Query, retrieve
from index.records import LEXICAL, MemoryKey
from tests.index.fixtures import ENCODER, generation_of, remembered, vector_of, written

TEXTS = ["delete a folder", "copy a folder", "read a file", "sort a list", "match a pattern", "copper prices"]
DOCUMENTS = [written(row, text) for row, text in enumerate(TEXTS)]
JUDGED = Feedback("remove a folder", "remove a folder", vector_of("remove a folder"), {0: 1.0, 5: 2.0})
CLICKED = replace(JUDGED, gains={3: 1.0}, shown={1: {1: 1}, 3: {2: 1}, 4: {5: 1}})
HEAD = AttentionHead(HeadConfig(dim=ENCODER.dim, rank=1))
MEMORY = EVIDENCE.index("memory")


def generation_with(directory: Path, *memory: MemoryKey) -> Generation:
    return generation_of(directory, DOCUMENTS, memory)


@pytest.fixture
def generation(tmp_path: Path) -> Generation:
    return generation_with(tmp_path)


def example_of(generation: Generation, feedback: Feedback, count: int = 2) -> Example:
    return make_example(generation, feedback, feedback.vector[None], count)


def rows(generation: Generation, example: Example) -> list[int]:
    return generation.rows[example.candidates.doc_indices].tolist()


# --- Folds ---


def test_the_fold_of_a_query_is_the_same_on_every_machine() -> None:
    known = {"delete a folder": 7, "read a file": 8, "größe 😀": 4, "": 2}
    assert {query_key: fold_of(query_key) for query_key in known} == known


def test_all_spellings_of_some_words_are_learned_from_or_held_out_together() -> None:
    spellings = ("{}", "{}?", '"{}"', "({}).")
    feedback = [replace(JUDGED, query_key=one.format(f"tea {number}")) for number in range(50) for one in spellings]
    for part in split(feedback):
        words = [one.query_key.strip('"?().') for one in part]
        assert set(Counter(words).values()) == {len(spellings)}
    assert fold_of("c++") != fold_of("c"), "of other words"
    for number in range(50):
        assert len({fold_of(one.format(f"tea {number}")) for one in spellings}) == 1
        assert len({half_of(one.format(f"tea {number}")) for one in spellings}) == 1


def test_queries_spread_evenly_over_the_folds() -> None:
    counts = Counter(fold_of(f"query {number}") for number in range(5000))
    assert set(counts) == set(range(FOLDS))
    assert all(abs(count - 500) < 100 for count in counts.values())


def test_a_query_is_either_learned_from_or_held_out_in_any_order() -> None:
    feedback = [replace(JUDGED, query_key=f"query {number}") for number in range(300)]
    learn, test = split(feedback)
    assert {one.query_key for one in learn} | {one.query_key for one in test} == {one.query_key for one in feedback}
    assert len(learn) + len(test) == 300
    assert {fold_of(one.query_key) for one in test} == set(range(TEST_FOLDS))
    assert [[one.query_key for one in part] for part in split(feedback[::-1])] == [
        [one.query_key for one in part] for part in (learn, test)
    ]


# --- Judgments ---


def test_judged_documents_count_only_if_they_were_retrieved(generation: Generation) -> None:
    example = example_of(generation, JUDGED)
    found = rows(generation, example)
    assert found == rows(generation, example_of(generation, replace(JUDGED, gains={0: 1.0})))
    assert 0 in found
    assert len(found) < len(TEXTS)
    assert example.gains.tolist() == [{0: 1.0, 5: 2.0}.get(row, 0.0) for row in found]
    assert example.log_propensity.tolist() == [0.0] * len(found)


def test_a_removed_judged_document_is_left_out(generation: Generation) -> None:
    example = example_of(generation, replace(JUDGED, gains={0: 1.0, 99: 3.0}))
    assert example.gains.sum() == 1.0


def test_a_grade_below_0_is_no_gain(generation: Generation) -> None:
    found = example_of(generation, replace(JUDGED, gains={0: 1.0, 5: -3.0}), count=6)
    assert dict(zip(rows(generation, found), found.gains.tolist(), strict=True)) == {0: 1.0} | dict.fromkeys(
        range(1, 6), 0.0
    )
    rejected = replace(JUDGED, gains={5: -3.0})
    assert make_examples(generation, [rejected], lambda vector: vector[None], 6) == []


# --- Clicks ---


def test_an_example_from_clicks_has_only_documents_that_were_shown(generation: Generation) -> None:
    example = example_of(generation, CLICKED)
    assert rows(generation, example) == [1, 3, 4]
    assert example.gains.tolist() == [0.0, 1.0, 0.0]


def test_the_propensity_of_a_click_falls_with_its_position(generation: Generation) -> None:
    expected = [-EXAMINATION_DECAY * math.log(position) for position in (1, 2, 5)]
    assert example_of(generation, CLICKED).log_propensity.tolist() == pytest.approx(expected)


def test_impressions_of_several_lists_add_up_to_expected_examinations(generation: Generation) -> None:
    curve = np.asarray([1.0, 0.5, 0.2], np.float32)
    shown = {
        1: {1: 3, 2: 2},
        3: {2: 1, 3: 5},
        4: {9: 10},
    }  # 4 examinations, 1.5, and 10 impressions at the last position: 2
    example = make_example(generation, replace(CLICKED, shown=shown), CLICKED.vector[None], 2, curve)
    assert expected_examinations(shown[1], curve) == pytest.approx(4.0)
    expected = [math.log(one / 4) for one in (4.0, 1.5, 2.0)]
    assert example.log_propensity.tolist() == pytest.approx(expected, abs=1e-6)


def test_the_naive_interpretation_gives_all_examined_documents_the_same_propensity(generation: Generation) -> None:
    examined = replace(CLICKED, examined=frozenset({1, 3}))
    example = make_example(generation, examined, CLICKED.vector[None], 2, None)
    assert rows(generation, example) == [1, 3]
    assert example.log_propensity.tolist() == [0.0, 0.0]
    assert rows(generation, example_of(generation, examined)) == [1, 3, 4]
    naive = make_example(generation, CLICKED, CLICKED.vector[None], 2, None)
    assert rows(generation, naive) == [1, 3, 4]


def test_a_solved_session_credits_clicked_documents_and_a_little_the_examined_ones(
    generation: Generation,
) -> None:
    curve = np.asarray([1.0, 0.5], np.float32)
    first = Solved({1: 1, 3: 2}, frozenset({3}))
    second = Solved({1: 2, 4: 1}, frozenset())
    feedback = replace(CLICKED, sessions=(first, second))
    example = make_example(generation, feedback, CLICKED.vector[None], 2, curve)
    small = SOLVED_UNCLICKED
    assert rows(generation, example) == [1, 3, 4]
    assert example.solved.tolist() == pytest.approx([(small + small / 2) / 2, 1 / 2, small / 2])
    naive = make_example(generation, feedback, CLICKED.vector[None], 2, None)
    assert naive.solved.tolist() == pytest.approx([small, 1 / 2, small / 2])


def test_a_solved_session_without_a_click_is_an_example(generation: Generation) -> None:
    session = Solved({1: 1, 3: 2}, frozenset())
    one = replace(CLICKED, gains={}, shown={1: {1: 1}, 3: {2: 1}}, sessions=(session,))
    (example,) = make_examples(generation, [one], lambda vector: vector[None], 2)
    assert not example.gains.any()
    assert make_examples(generation, [replace(one, sessions=())], lambda vector: vector[None], 2) == []


def test_a_confirmed_document_that_was_not_shown_counts_as_examined(generation: Generation) -> None:
    example = example_of(generation, replace(CLICKED, gains={0: 1.0}))
    assert rows(generation, example) == [0, 1, 3, 4]
    assert example.gains.tolist() == [1.0, 0.0, 0.0, 0.0]
    assert float(example.log_propensity[0]) == 0.0


def test_an_example_from_clicks_has_the_same_word_evidence_as_a_search(generation: Generation) -> None:
    """Training on word evidence that differs from the evidence of searches would learn the wrong weight."""
    one = replace(CLICKED, text="delete a folder list", gains={3: 1.0}, shown={1: {1: 1}, 3: {2: 1}})
    served = retrieve(generation, Query(one.text, one.vector, count=len(TEXTS)), one.vector[None])
    example = example_of(generation, one)
    expected = served.words[np.searchsorted(served.doc_indices, example.candidates.doc_indices)]
    assert 0 < expected[1, LEXICAL.index("words")] < 1
    assert example.candidates.words == pytest.approx(expected)


# --- Memory ---


@pytest.mark.parametrize("feedback", [JUDGED, replace(CLICKED, gains={0: 1.0}, shown={0: {1: 1}, 1: {2: 1}})])
def test_an_example_excludes_its_own_memory(tmp_path: Path, feedback: Feedback) -> None:
    own = remembered(1, 0, feedback.vector, query_key=feedback.query_key)
    other = remembered(2, 1, feedback.vector, query_key="another query", weight=0.5)
    generation = generation_with(tmp_path, own, other)
    example = example_of(generation, feedback)
    batch = make_batch(generation, [example])
    parts = HEAD(batch.query, batch.candidates).parts[0, :, MEMORY]
    remembered_rows = [row for row, part in zip(rows(generation, example), parts.tolist(), strict=True) if part]
    assert remembered_rows == [1]


def test_own_memory_adds_no_candidate_to_an_example(tmp_path: Path) -> None:
    feedback = replace(JUDGED, gains={0: 1.0})
    generation = generation_with(tmp_path / "own", remembered(1, 5, feedback.vector, query_key=feedback.query_key))
    without = generation_with(tmp_path / "without")
    one, other = example_of(generation, feedback), example_of(without, feedback)
    assert rows(generation, one) == rows(without, other)
    assert 5 not in rows(generation, one)


def test_memory_of_documents_that_were_not_shown_is_left_out_and_the_rest_is_unchanged(tmp_path: Path) -> None:
    keys = [remembered(number, row, JUDGED.vector, query_key=f"s{number}") for number, row in enumerate([0, 4, 1, 4])]
    generation = generation_with(tmp_path, *keys)
    candidates = example_of(generation, CLICKED).candidates
    assert generation.rows[candidates.doc_indices].tolist() == [1, 3, 4]
    assert candidates.memory_key.tolist() == [1, 2, 3]
    assert candidates.memory_candidate.tolist() == [2, 0, 2]


# --- Examples and batches ---


def test_an_example_without_a_gain_or_a_second_candidate_is_left_out(generation: Generation) -> None:
    nothing = replace(JUDGED, query_key="no gain", gains={0: 0.0})
    alone = replace(CLICKED, query_key="alone", gains={3: 1.0}, shown={3: {1: 1}})
    gone = replace(CLICKED, query_key="gone", gains={99: 1.0})
    feedback = [nothing, JUDGED, alone, gone, CLICKED]
    examples = make_examples(generation, feedback, lambda vector: vector[None], 2)
    assert [example.feedback for example in examples] == [JUDGED, CLICKED]


def test_a_batch_has_one_row_per_example(generation: Generation) -> None:
    solved = replace(CLICKED, sessions=(Solved({1: 1}, frozenset({1})),))
    examples = [example_of(generation, one) for one in (JUDGED, solved)]
    batch = make_batch(generation, examples)
    width = max(len(example.gains) for example in examples)
    assert batch.query.shape == (2, ENCODER.dim)
    assert batch.gains.shape == batch.log_propensity.shape == batch.candidates.mask.shape == (2, width)
    for b, example in enumerate(examples):
        n = len(example.gains)
        assert np.array_equal(batch.query[b], example.feedback.vector)
        assert batch.candidates.mask[b].tolist() == [True] * n + [False] * (width - n)
        assert batch.gains[b].tolist() == example.gains.tolist() + [0.0] * (width - n)
        assert np.array_equal(batch.log_propensity[b, :n], example.log_propensity)
        assert not batch.log_propensity[b, n:].any()
        assert np.array_equal(batch.solved[b, :n], example.solved)
        assert not batch.solved[b, n:].any()
