"""The signals that trees read agree with their definitions, on documents small enough to count by hand."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
import pytest

from index.records import SIGNALS
from index.words.document_signals import LARGEST_WEIGHT, LONG_DOCUMENT, document_signals
from index.words.query_words import Alternative, Phrase, QueryWords, Source
from index.words.term_matching import find_words

RED, SHOE, CHEAP, OTHER = 1, 2, 3, 9
WEIGHT = {RED: 1.0, SHOE: 2.0, CHEAP: 5.0}


FLAT, SCREEN, FLAT_SCREEN = 5, 6, 7
SYNONYM = (
    Alternative(0, FLAT_SCREEN, 1.0, 0.9, Source.EXACT),
    Alternative(0, FLAT, 1.0, 0.45, Source.EXACT, of_phrase=True),
    Alternative(0, SCREEN, 1.0, 0.45, Source.EXACT, of_phrase=True),
)


def signals(
    query: Sequence[int],
    documents: Sequence[tuple[list[int], list[int]]],
    alternatives: Sequence[Alternative] = (),
    phrases: tuple[Phrase, ...] = (),
) -> list[dict[str, float]]:
    """Return the signals by name of documents (title, text)."""
    texts = [title + text for title, text in documents]
    words, first = np.fromiter(chain(*texts), np.uint32), np.cumsum([0, *map(len, texts)])
    weights = np.asarray([WEIGHT[word] for word in query], np.float32)
    asked = QueryWords.of(np.asarray(query, np.uint32), weights, alternatives, phrases)
    titles = np.asarray([len(title) for title, _ in documents])
    found = find_words(asked, words, first, np.arange(len(documents)), titles)
    rows = document_signals(asked, found, titles, float(titles.mean()))
    return [dict(zip(SIGNALS, row, strict=True)) for row in rows.tolist()]


def test_words_of_the_title_count_apart_from_words_of_the_text() -> None:
    title, text = signals([RED, SHOE], [([RED, OTHER], [OTHER]), ([OTHER, OTHER], [RED])])
    assert title["title_coverage"] == pytest.approx(1 / 3)
    assert title["title_density"] == pytest.approx(1 / 2)
    assert title["title_bm25"] == pytest.approx(1 / 3)  # a title of mean length that has the word once: factor 1
    assert (text["title_coverage"], text["title_density"], text["title_bm25"]) == (0, 0, 0)


def test_the_rarest_word_counts_where_it_occurs_and_where_it_is_missing() -> None:
    having, lacking = signals([RED, CHEAP], [([], [CHEAP]), ([], [RED])])
    assert having["rarest"] == pytest.approx(5 / LARGEST_WEIGHT)
    assert having["missing"] == pytest.approx(1 / LARGEST_WEIGHT)
    assert having["best_match"] == 1
    assert lacking["rarest"] == 0
    assert lacking["missing"] == pytest.approx(5 / LARGEST_WEIGHT)
    assert lacking["best_match"] == pytest.approx(1 / 5)


def test_the_length_counts_all_words_of_the_document() -> None:
    (one,) = signals([RED], [([OTHER], [OTHER] * 6)])
    assert one["length"] == pytest.approx(np.log(8) / LONG_DOCUMENT)


def test_a_query_without_words_has_the_length_alone() -> None:
    (one,) = signals([], [([RED], [SHOE])])
    assert {name for name, value in one.items() if value} == {"length"}


def test_a_synonym_of_several_words_counts_as_often_as_it_occurs() -> None:
    documents = [
        ([FLAT, SCREEN, OTHER, OTHER], []),
        ([RED, OTHER, OTHER, OTHER], []),
        ([FLAT, SCREEN, FLAT, SCREEN], []),
        ([RED, OTHER, OTHER, RED], []),
        ([FLAT, SCREEN, OTHER, SCREEN], []),
    ]
    once, own, twice, own_twice, once_and_a_word = signals(
        [RED], documents, SYNONYM, (Phrase(FLAT_SCREEN, (FLAT, SCREEN)),)
    )
    assert once == own
    assert twice == own_twice
    assert once_and_a_word == own_twice, "a word outside the phrase counts, as before"
