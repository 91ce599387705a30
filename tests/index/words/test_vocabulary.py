"""Words of the vocabulary that are few edits away, against a slow search of all words."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.words import vocabulary as of_vocabulary
from index.words.bm25_index import WordIndex
from index.words.postings import Counted
from index.words.vocabulary import Counts, Vocabulary

WORDS = (
    "copper cooper coopers topper proper pepper paper papers steep step stop spot spots post naïve größe a an".split()
)


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vocabulary]:
    index = WordIndex(tmp_path_factory.mktemp("words") / "words", "english")
    documents = {row: " ".join(WORDS[row:]) for row in range(len(WORDS))}  # later words are in more documents
    index.replace(documents.keys(), documents.values())
    index.commit()
    yield index.searcher().vocabulary
    index.close()


def distance(one: str, other: str) -> int:
    """Return the optimal string alignment distance by its recurrence."""
    table = [[max(i, j) for j in range(len(other) + 1)] for i in range(len(one) + 1)]
    for i in range(1, len(one) + 1):
        for j in range(1, len(other) + 1):
            replaced = table[i - 1][j - 1] + (one[i - 1] != other[j - 1])
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, replaced)
            if i > 1 and j > 1 and one[i - 1] == other[j - 2] and one[i - 2] == other[j - 1]:
                table[i][j] = min(table[i][j], table[i - 2][j - 2] + 1)
    return table[-1][-1]


def slowly(vocabulary: Vocabulary, word: str, edits: int) -> list[tuple[int, str, int]]:
    near: set[tuple[int, str, int]] = set()
    for prefix, most in ((word[:1], edits), (word[1:2], 1), ("", 1)):
        found = {(distance(word, other), other, count) for other, count in vocabulary.beginning(prefix)}
        near |= {one for one in found if one[0] <= most}
        if near and min(near)[0] <= 1:
            break
    return sorted(near, key=lambda one: (one[0], one[1][:1] != word[:1], -one[2], one[1]))


@given(
    word=st.sampled_from(WORDS),
    edits=st.integers(1, 2),
    changes=st.lists(st.tuples(st.integers(0, 8), st.sampled_from(["", "p", "s", "xx"])), max_size=3),
)
def test_near_words_are_those_of_a_search_of_all_words(
    vocabulary: Vocabulary, word: str, edits: int, changes: list[tuple[int, str]]
) -> None:
    for at, inserted in changes:
        word = word[:at] + inserted + word[at + 1 :]
    assert vocabulary.near(word, edits) == slowly(vocabulary, word, edits)


@given(
    prefix=st.sampled_from([word[:length] for word in WORDS for length in (2, 4, 5)]),
    edits=st.integers(1, 2),
    change=st.tuples(st.integers(1, 5), st.sampled_from(["", "p", "s", "xx"])),
)
def test_near_beginnings_are_those_of_a_search_of_all_words(
    vocabulary: Vocabulary, prefix: str, edits: int, change: tuple[int, str]
) -> None:
    at, inserted = change
    prefix = prefix[:at] + inserted + prefix[at + 1 :]
    lengths = range(max(2, len(prefix) - edits), len(prefix) + edits + 1)
    best = {
        word: (min(distance(prefix, word[:length]) for length in lengths), word, count)
        for word, count in vocabulary.beginning(prefix[:1])
    }
    expected = sorted((one for one in best.values() if one[0] <= edits), key=lambda one: (one[0], -one[2], one[1]))
    assert vocabulary.near_prefix(prefix, edits) == expected


@pytest.mark.parametrize("word", ["", "x", "zzzzzzzzzzzzzzzzzzzzzzzz"])
def test_the_shortest_and_very_long_words_have_the_near_words_of_a_slow_search(
    vocabulary: Vocabulary, word: str
) -> None:
    assert vocabulary.near(word, 1) == slowly(vocabulary, word, 1)
    assert vocabulary.near("z" * 24, 1) == []


def test_a_word_with_another_first_letter_comes_before_words_two_edits_away(vocabulary: Vocabulary) -> None:
    assert [one[:2] for one in vocabulary.near("ppot", 2)] == [(1, "spot"), (2, "post")]


def test_counts_from_the_sorted_terms_are_those_of_living_documents(tmp_path: Path) -> None:
    index = WordIndex(tmp_path, "english")
    index.replace(range(50), [f"oak tree{row}" for row in range(50)])
    index.commit()
    index.remove([1, 2])
    index.replace([3, 60], ["elm", "oak elm"])
    vocabulary = index.commit().vocabulary
    terms = ("oak", "elm", "tree1", "tree4", "ash")
    assert vocabulary.listed_count("oak") is None
    counts = [vocabulary.of_reader(vocabulary._postings).term_count(term) for term in terms]
    vocabulary.ending("k")
    assert [vocabulary.listed_count(term) or 0 for term in terms] == counts == [48, 2, 0, 1, 0]
    assert [vocabulary.term_count(term) for term in terms] == counts
    index.close()


def test_a_view_of_one_reader_keeps_a_bounded_number_of_words(
    vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_vocabulary, "MOST_WORDS_OF_READER", 8)
    asked: list[str] = []

    class Noting:
        def __init__(self, counts: Counts) -> None:
            self._counts = counts

        def with_prefix(self, field: str, prefix: str) -> list[Counted]:
            asked.append(prefix)
            return self._counts.with_prefix(field, prefix)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._counts, name)

    view = vocabulary.of_reader(Noting(vocabulary._postings))
    for prefix in ("pap", "st", "st", "pep", "c", "st", "pap"):
        assert view.beginning(prefix) == vocabulary.beginning(prefix)
    assert asked == ["pap", "st", "pep", "c", "pap"], "c takes the place of pap, which was asked for first"
    assert view.beginning("") == vocabulary.beginning("")
    assert asked.count("") == 1
