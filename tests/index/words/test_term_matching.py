"""Coverage, proximity and phrase agree with a loop over words, windows and pairs."""

import zlib
from collections.abc import Sequence
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.words.query_words import QueryWords, number_words
from index.words.term_matching import BLOCK_WORDS, bm25, find_words, match
from tests.index.words.term_matching_by_hand import bm25_by_hand, matches_by_hand

WORDS = st.integers(1, 6)
DOCUMENT = st.lists(WORDS, max_size=80)
COLLECTION = st.lists(DOCUMENT, min_size=1, max_size=5)
QUERY = st.lists(WORDS, max_size=6)
FILLER = 99
WEIGHT = {word: 0.5 + word for word in range(1, 200)}


def matched(query: Sequence[int], documents: Sequence[Sequence[int]], doc_indices: Sequence[int] | None = None) -> list:
    """Return rows of coverage, proximity and phrase, one for each of doc_indices."""
    first = np.cumsum([0, *map(len, documents)])
    words = np.fromiter(chain(*documents), np.uint32)
    wanted = np.arange(len(documents)) if doc_indices is None else np.asarray(doc_indices, np.int64)
    asked = query_words(query)
    return np.stack(match(asked, find_words(asked, words, first, wanted)), axis=1).tolist()


def query_words(query: Sequence[int]) -> QueryWords:
    """Return a query of these words with WEIGHT as idf."""
    return QueryWords.of(np.asarray(query, np.uint32), np.asarray([WEIGHT[word] for word in query], np.float32))


@given(query=QUERY, documents=COLLECTION)
def test_matches_agree_with_a_loop_over_words_windows_and_pairs(query: list[int], documents: list[list[int]]) -> None:
    found = matched(query, documents)
    for row, document in zip(found, documents, strict=True):
        assert row == pytest.approx(matches_by_hand(query, WEIGHT, document), abs=1e-6)


@given(query=QUERY, documents=COLLECTION)
def test_bm25_agrees_with_its_formula_word_by_word(query: list[int], documents: list[list[int]]) -> None:
    first, words = np.cumsum([0, *map(len, documents)]), np.fromiter(chain(*documents), np.uint32)
    asked = query_words(query)
    found = find_words(asked, words, first, np.arange(len(documents)))
    mean = max(1.0, sum(map(len, documents)) / max(1, len(documents)))
    expected = [bm25_by_hand(query, WEIGHT, document, mean) for document in documents]
    assert bm25(asked, found, mean)[:, 0].tolist() == pytest.approx(expected, rel=1e-5)


@given(query=QUERY, documents=COLLECTION)
def test_matches_are_shares_and_proximity_never_exceeds_coverage(query: list[int], documents: list[list[int]]) -> None:
    for coverage, proximity, phrase in matched(query, documents):
        assert 0 <= proximity <= coverage + 1e-6 <= 1 + 2e-6
        assert 0 <= phrase <= 1 + 1e-6
        if phrase:
            assert coverage


@given(query=QUERY, document=st.lists(WORDS, max_size=BLOCK_WORDS), order=st.randoms(use_true_random=False))
def test_within_one_block_the_order_of_words_affects_only_the_phrase(
    query: list[int], document: list[int], order
) -> None:
    shuffled = list(document)
    order.shuffle(shuffled)
    (one,), (other,) = matched(query, [document]), matched(query, [shuffled])
    assert one[:2] == other[:2]


@given(query=QUERY, order=st.randoms(use_true_random=False), documents=COLLECTION)
def test_the_order_of_the_query_affects_only_the_phrase(query: list[int], order, documents: list[list[int]]) -> None:
    shuffled = list(query)
    order.shuffle(shuffled)
    for one, other in zip(matched(query, documents), matched(shuffled, documents), strict=True):
        assert one[:2] == other[:2]


@given(query=QUERY, documents=COLLECTION, others=COLLECTION)
def test_documents_outside_doc_indices_change_nothing(
    query: list[int], documents: list[list[int]], others: list[list[int]]
) -> None:
    mixed = [*others, *documents, *others]
    doc_indices = range(len(others), len(others) + len(documents))
    assert matched(query, mixed, doc_indices) == matched(query, documents)


@given(query=QUERY, documents=COLLECTION)
def test_matches_follow_the_order_of_doc_indices(query: list[int], documents: list[list[int]]) -> None:
    backwards = list(range(len(documents)))[::-1]
    assert matched(query, documents, backwards) == matched(query, documents)[::-1]


@given(query=QUERY, documents=COLLECTION)
def test_a_repeated_document_has_the_same_coverage_and_no_smaller_phrase(
    query: list[int], documents: list[list[int]]
) -> None:
    twice = [document * 2 for document in documents]
    for once, again in zip(matched(query, documents), matched(query, twice), strict=True):
        assert again[0] == once[0]
        assert again[2] >= once[2]


def test_a_phrase_counts_only_adjacent_words_in_query_order() -> None:
    documents = [[1, 2], [2, 1], [1, FILLER, 2], [FILLER, 1, 2, FILLER]]
    assert [row[2] for row in matched([1, 2], documents)] == [1.0, 0.0, 0.0, 1.0]
    assert [row[0] for row in matched([1, 2], documents)] == [1.0] * 4


def test_words_of_different_documents_are_never_adjacent() -> None:
    assert [row[2] for row in matched([1, 2], [[1], [2], [1, 2]])] == [0.0, 0.0, 1.0]


def test_adjacent_words_have_a_higher_proximity_than_distant_words() -> None:
    near, far = [1, *[FILLER] * 10, 2, *[FILLER] * 50], [1, *[FILLER] * 60, 2]
    (_, close, _), (_, distant, _) = matched([1, 2], [near, far])
    assert close == 1.0
    assert distant == pytest.approx(WEIGHT[2] / (WEIGHT[1] + WEIGHT[2]))


@pytest.mark.parametrize("gap", [0, 3, 15])
@pytest.mark.parametrize("start", [0, 7, 15, 16, 40])
def test_words_at_most_a_block_apart_always_share_a_window(start: int, gap: int) -> None:
    document = [*[FILLER] * start, 1, *[FILLER] * gap, 2, *[FILLER] * 20]
    assert matched([1, 2], [document])[0][1] == 1.0


def test_a_rare_word_counts_for_more_than_a_common_one() -> None:
    (common, *_), (rare, *_) = matched([1, 9], [[1], [9]])
    assert common < rare
    assert common + rare == pytest.approx(1.0)


@pytest.mark.parametrize(("query", "documents"), [([], [[1, 2], []]), ([1, 2], [[], []]), ([3], [[1], [2, 2]])])
def test_without_common_words_all_matches_are_zero(query: list[int], documents: list[list[int]]) -> None:
    assert matched(query, documents) == [[0.0, 0.0, 0.0]] * 2


def test_no_documents_give_no_matches() -> None:
    assert matched([1, 2], [[1, 2]], []) == []


def test_word_numbers_are_fixed() -> None:
    assert number_words(["cat", "Größe", "cat", "\ud800"]).tolist() == [
        2656977832,
        zlib.crc32("Größe".encode()),
        2656977832,
        zlib.crc32(b"?"),
    ]
