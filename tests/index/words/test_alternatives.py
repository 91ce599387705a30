"""Words that stand for words of a query: a document takes the best of them, and the score is split by source."""

import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest

from index.words import term_matching
from index.words.query_words import Alternative, Phrase, QueryWords, Source
from index.words.term_matching import (
    bm25,
    documents_with,
    documents_with_phrase,
    documents_with_phrases,
    find_words,
    match,
)

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


def test_thousands_of_completions_take_no_memory_for_each_document() -> None:
    many = [Alternative(1, number, 1.0, 0.8, Source.COMPLETED) for number in range(10, 5010)]
    words = np.arange(10, 5010, dtype=np.uint32)
    found = find_words(query(*many), words, np.arange(5001), np.arange(5000))
    tracemalloc.start()
    every = bm25(query(*many), found, 1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(np.unique(every[:, Source.COMPLETED])) == 1
    assert peak < 20_000_000, "a number for each document and completion has 200 MB"


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
    having = [np.asarray([word], np.uint32) for word in phrase]
    assert documents_with_phrase(words, first, titles, having).tolist() == expected


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ([[1], [2, 3]], [True, False, True]),
        ([[1, 9], [2]], [True, True, False]),
        ([[1, 2], [3, 1]], [False, True, True]),
        ([[3, 9]], [False, True, True]),
        ([[7, 8], [1]], [False] * 3),
    ],
)
def test_several_words_may_have_a_word_of_a_phrase(phrase: list[list[int]], expected: list[bool]) -> None:
    first, words = np.asarray([0, 2, 5, 7]), np.asarray([1, 2, 9, 2, 1, 1, 3], np.uint32)
    having = [np.asarray(one, np.uint32) for one in phrase]
    assert documents_with_phrase(words, first, np.zeros(3, np.int64), having).tolist() == expected


FLAT, SCREEN, FLAT_SCREEN = 11, 12, 13
PHRASE = Phrase(FLAT_SCREEN, (FLAT, SCREEN))
STANDING = (
    Alternative(0, FLAT_SCREEN, 1.5, 0.9, Source.EXACT),
    Alternative(0, FLAT, 1.0, 0.45, Source.EXACT, of_phrase=True),
    Alternative(0, SCREEN, 2.0, 0.45, Source.EXACT, of_phrase=True),
)


def with_phrase(words: Sequence[int] = (CAT, DOG)) -> QueryWords:
    idf = np.asarray([1.5] * len(words), np.float32)
    return QueryWords.of(np.asarray(words, np.uint32), idf, STANDING, (PHRASE,))


def test_a_phrase_counts_as_its_words_together() -> None:
    documents = [FLAT, SCREEN], [SCREEN, 9], [FLAT, 9], [SCREEN, FLAT], [CAT, 9]
    (whole, second, first, other_order, own), matches = scores(with_phrase(), *documents)
    assert whole[Source.EXACT] == pytest.approx(first[Source.EXACT] + second[Source.EXACT])
    assert whole[Source.EXACT] == pytest.approx(0.9 * own[Source.EXACT])
    assert other_order[Source.EXACT] == pytest.approx(second[Source.EXACT])
    assert [row[0] for row in matches] == pytest.approx([0.45, 0.225, 0.225, 0.225, 0.5])
    assert [row[1] for row in matches] == pytest.approx([row[0] for row in matches])


def test_a_phrase_that_occurs_twice_counts_as_a_word_that_occurs_twice() -> None:
    documents = [FLAT, SCREEN, FLAT, SCREEN], [CAT, CAT, 9, 9], [FLAT, FLAT, SCREEN, 9]
    (twice, own, once), _ = scores(with_phrase(), *documents)
    assert twice[Source.EXACT] == pytest.approx(0.9 * own[Source.EXACT])
    assert once[Source.EXACT] < twice[Source.EXACT]


def test_both_ends_of_a_phrase_are_adjacent_to_other_words() -> None:
    documents = [FLAT, SCREEN, DOG], [SCREEN, DOG, 9]
    assert [row[2] for row in scores(with_phrase(), *documents)[1]] == pytest.approx([0.9, 0.45])
    documents = [DOG, FLAT, SCREEN], [DOG, FLAT, 9]
    shares = scores(query_with_phrase_last(), *documents)[1]
    assert [row[2] for row in shares] == pytest.approx([0.9, 0.45])


def query_with_phrase_last() -> QueryWords:
    moved = [one._replace(position=1) for one in STANDING]
    return QueryWords.of(np.asarray([DOG, CAT], np.uint32), np.asarray([1.5, 1.5], np.float32), moved, (PHRASE,))


def test_a_phrase_is_in_one_field_of_one_document() -> None:
    words, first = (
        np.asarray([FLAT, SCREEN, 9, FLAT, SCREEN, 9, 9, FLAT, SCREEN], np.uint32),
        np.asarray([0, 3, 6, 8, 9]),
    )
    asked, doc_indices = with_phrase(), np.asarray([0, 1, 2, 3])
    phrase = int(np.flatnonzero(asked.words == FLAT_SCREEN)[0])

    def documents(title_words: Sequence[int]) -> set[int]:
        found = find_words(asked, words, first, doc_indices, np.asarray(title_words))
        return set(found.document[found.word == phrase].tolist())

    assert documents([0, 0, 0, 0]) == {0, 1}
    assert documents([1, 2, 0, 0]) == {1}, "the title ends within the phrase of the first document"


def test_the_words_of_a_query_may_be_words_of_a_phrase_too() -> None:
    asked = with_phrase((CAT, FLAT))
    (whole, *_), _ = scores(asked, [FLAT, SCREEN], [FLAT, 9])
    alone = scores(query(words=(FLAT,)), [FLAT, SCREEN])[0][0]
    assert whole[Source.EXACT] > alone[Source.EXACT]


def test_many_phrases_are_found_as_a_loop_over_phrases_and_places_finds_them() -> None:
    rng = np.random.default_rng(7)
    words = rng.integers(1, 6, 400).astype(np.uint32)
    first = np.concatenate([[0], np.sort(rng.integers(0, 400, 59)), [400]])
    titles = np.minimum(rng.integers(0, 4, 60), np.diff(first))
    parts = {tuple(rng.integers(1, 6, size).tolist()) for size in (2, 2, 3, 3, 4, 5) for _ in range(6)}
    phrases = tuple(Phrase(100 + at, part) for at, part in enumerate(sorted(parts)))
    slots = [(at, phrase) for at, phrase in enumerate(phrases) for _ in range(2)]
    standing = [Alternative((at + n) % 2, one.number, 1.0, 0.9, Source.EXACT) for n, (at, one) in enumerate(slots)]
    asked = QueryWords.of(np.asarray([50, 51], np.uint32), np.ones(2, np.float32), standing, phrases)
    chosen = np.asarray([3, 10, 11, 40, 58])
    found = find_words(asked, words, first, chosen, titles)
    expected = []
    for document, doc_index in enumerate(chosen):
        text, title = words[first[doc_index] : first[doc_index + 1]].tolist(), titles[doc_index]
        for phrase in phrases:
            size = len(phrase.words)
            for at in range(len(text) - size + 1):
                if tuple(text[at : at + size]) == phrase.words and not at < title < at + size:
                    expected += [(document, at + n, phrase.number) for n in range(size)] * 2
    hits = zip(found.document.tolist(), found.within.tolist(), asked.words[found.word].tolist(), strict=True)
    assert sorted(hits) == sorted(expected)
    assert expected
    for few in (phrases, phrases[:1], phrases[-1:]):
        each = [
            documents_with_phrase(words, first, titles, [np.asarray([word], np.uint32) for word in phrase.words])
            for phrase in few
        ]
        assert np.array_equal(documents_with_phrases(words, first, titles, few), np.any(each, axis=0))


def test_phrases_are_looked_for_together(monkeypatch: pytest.MonkeyPatch) -> None:
    scans = []
    scan = term_matching.positions_of
    monkeypatch.setattr(term_matching, "positions_of", lambda wanted, words: scans.append(1) or scan(wanted, words))
    phrases = tuple(Phrase(100 + at, (at, at + 1)) for at in range(1, 50))
    words, first = np.arange(1, 60).astype(np.uint32), np.asarray([0, 30, 59])
    assert documents_with_phrases(words, first, np.zeros(2, np.int64), phrases).all()
    assert len(scans) == 1
