"""Words of the vocabulary that are few edits away, against a slow search of all words."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.words.bm25_index import WordIndex
from index.words.vocabulary import Vocabulary

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


@pytest.mark.parametrize("word", ["", "x", "zzzzzzzzzzzzzzzzzzzzzzzz"])
def test_the_shortest_and_very_long_words_have_the_near_words_of_a_slow_search(
    vocabulary: Vocabulary, word: str
) -> None:
    assert vocabulary.near(word, 1) == slowly(vocabulary, word, 1)
    assert vocabulary.near("z" * 24, 1) == []


def test_a_word_with_another_first_letter_comes_before_words_two_edits_away(vocabulary: Vocabulary) -> None:
    assert [one[:2] for one in vocabulary.near("ppot", 2)] == [(1, "spot"), (2, "post")]
