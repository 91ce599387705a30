"""Words that stand for words of a query: a document takes the best of them, and the score is split by source."""

from collections.abc import Sequence

import numpy as np
import pytest

from index.words.query_words import Alternative, QueryWords, Source
from index.words.term_matching import bm25, documents_with, documents_with_phrase, find_words, match

CAT, DOG, KAT, DOGS, DOGGY = 1, 2, 3, 4, 5


def query(*alternatives: Alternative, words: Sequence[int] = (CAT, DOG)) -> QueryWords:
    idf = np.asarray([2.0 + 0.5 * at for at in range(len(words))], np.float32)
    return QueryWords.of(np.asarray(words, np.uint32), idf, alternatives)


def scores(asked: QueryWords, *documents: Sequence[int]) -> tuple[list[list[float]], list[list[float]]]:
    """Return BM25 by source, and coverage, proximity and phrase, for each document."""
    first = np.cumsum([0, *map(len, documents)])
    words = np.asarray([word for document in documents for word in document], np.uint32)
    found = find_words(asked, words, first, np.arange(len(documents)))
    return bm25(asked, found, 2.0).tolist(), np.stack(match(asked, found), axis=1).tolist()


CORRECTED = Alternative(0, KAT, 1.5, 0.5, Source.CORRECTED)
COMPLETED = (Alternative(1, DOGS, 1.0, 0.8, Source.COMPLETED), Alternative(1, DOGGY, 1.0, 0.8, Source.COMPLETED))


def test_a_query_without_alternatives_is_exact() -> None:
    assert query().exact
    assert query(Alternative(0, DOG, 1.0, 0.5, Source.CORRECTED)).exact  # the query has that word itself
    assert not query(CORRECTED).exact


def test_repeated_words_share_a_slot() -> None:
    idf = np.asarray([3.0, 1.0, 3.0, 2.0], np.float32)
    asked = QueryWords.of(np.asarray([DOG, CAT, DOG, KAT], np.uint32), idf)
    assert asked.words.tolist() == [CAT, DOG, KAT]
    assert asked.words.dtype == np.uint32
    assert asked.of_query.tolist() == [1, 0, 1, 2]
    assert asked.weight.tolist() == [1.0, 3.0, 2.0]
    nothing = QueryWords.of(np.empty(0, np.uint32), np.empty(0, np.float32))
    assert nothing.exact
    assert len(nothing.words) == len(nothing.of_query) == len(nothing.weight) == 0


def test_the_score_of_a_corrected_word_is_its_own_source_and_smaller() -> None:
    (exact, corrected, both, neither), _ = scores(query(CORRECTED), [CAT, 9], [KAT, 9], [CAT, KAT], [8, 9])
    assert exact[Source.EXACT] > corrected[Source.CORRECTED] > 0
    assert exact[Source.CORRECTED] == corrected[Source.EXACT] == 0
    assert both == exact  # the best of the words that stand for one word
    assert neither == [0, 0, 0]


def test_completions_count_together() -> None:
    (one, two, four), _ = scores(query(*COMPLETED), [DOGS, 9, 9, 9], [DOGS, DOGGY, 9, 9], [DOGS, DOGS, DOGS, DOGGY])
    assert 0 < one[Source.COMPLETED] < two[Source.COMPLETED] < four[Source.COMPLETED]
    (twice,), _ = scores(query(*COMPLETED), [DOGS, DOGS, 9, 9])
    assert two == pytest.approx(twice)


def test_an_unfinished_word_weighs_as_its_completions_do() -> None:
    asked = query(*COMPLETED)
    assert asked.weight.tolist() == [2.0, 1.0]
    assert query(Alternative(1, DOGS, 9.0, 0.8, Source.COMPLETED)).weight.tolist() == [2.0, 2.5]


def test_coverage_proximity_and_phrase_take_the_factor() -> None:
    asked = query(CORRECTED)  # the weights are 1.5 and 2.5
    _, (exact, corrected, reverse) = scores(asked, [CAT, DOG], [KAT, DOG], [DOG, KAT])
    assert exact == [1.0, 1.0, 1.0]
    share = (0.5 * 1.5 + 2.5) / 4
    assert corrected == pytest.approx([share, share, 0.5])  # a pair takes the smaller factor
    assert reverse == pytest.approx([share, share, 0.0])


def test_a_word_may_stand_for_several_words() -> None:
    both = (Alternative(0, KAT, 1.0, 0.5, Source.EXACT), Alternative(1, KAT, 1.0, 0.5, Source.EXACT))
    _, ((coverage, _, _),) = scores(query(*both), [KAT])
    assert coverage == pytest.approx(0.5)


def test_documents_with_words_and_phrases_are_found() -> None:
    first, words = np.asarray([0, 3, 3, 5, 7]), np.asarray([1, 2, 3, 2, 1, 9, 1], np.uint32)
    assert documents_with(words, first, np.asarray([3, 9, 9], np.uint32)).tolist() == [True, False, False, True]
    assert documents_with(words, first, np.empty(0, np.uint32)).tolist() == [False] * 4


@pytest.mark.parametrize(
    ("phrase", "title_words", "expected"),
    [
        ([1, 2], 0, [True, False, False, False]),
        ([3, 2], 0, [False] * 4),  # two documents
        ([9, 1, 1], 0, [False] * 4),
        ([1, 2], 1, [False] * 4),  # the title ends between them
        ([2, 3], 1, [True, False, False, False]),
        ([1, 2], 2, [True, False, False, False]),
        ([1], 1, [True, False, True, True]),
    ],
)
def test_documents_with_a_phrase_in_one_field_are_found(
    phrase: list[int], title_words: int, expected: list[bool]
) -> None:
    first, words = np.asarray([0, 3, 3, 5, 7]), np.asarray([1, 2, 3, 2, 1, 9, 1], np.uint32)
    titles = np.minimum(title_words, np.diff(first))
    assert documents_with_phrase(words, first, titles, np.asarray(phrase, np.uint32)).tolist() == expected
