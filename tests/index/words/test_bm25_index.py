"""Scores are BM25, changes are visible after commit, and no character of a query is an operator."""

import errno
import math
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from index.words import word_reader
from index.words.analyzers import LANGUAGES, MAX_WORD_BYTES, analyzer_for
from index.words.bm25_index import WordIndex, reload_when_told
from index.words.query_words import number_words
from index.words.word_reader import OtherCommit, WordDescriber, WordReader
from index.words.word_search import WordSearcher

TEXTS = [
    "the cat sat on the mat",
    "a cat and another cat",
    "the dog ran",
    "copper",
]


def searcher_of(directory: Path, texts: list[str], language: str = "none") -> WordSearcher:
    index = WordIndex(directory, language)
    index.replace(range(len(texts)), texts)
    return index.commit()


@pytest.fixture
def words(tmp_path: Path) -> WordSearcher:
    return searcher_of(tmp_path, TEXTS)


def rows(searcher: WordSearcher, text: str, k: int = 10, allowed: list[int] | None = None) -> list[int]:
    return searcher.search(text, k, None if allowed is None else np.asarray(allowed, np.int64))[0].tolist()


def bm25_by_hand(query: str, row: int, texts: list[str], k1: float = 1.2, b: float = 0.75) -> float:
    """Robertson and Zaragoza 2009, with a positive idf; a repeated query word counts repeatedly."""
    documents = [text.split() for text in texts]
    mean_length = sum(map(len, documents)) / len(documents)
    score = 0.0
    for word in query.split():
        containing = sum(word in document for document in documents)
        idf = math.log(1 + (len(documents) - containing + 0.5) / (containing + 0.5))
        tf = documents[row].count(word)
        score += idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * len(documents[row]) / mean_length))
    return score


# --- Scores ---


@pytest.mark.parametrize("query", ["cat", "the cat", "cat cat mat", "the dog and the copper cat"])
def test_scores_are_bm25(words: WordSearcher, query: str) -> None:
    found, scores = words.search(query, 10)
    expected = {row: bm25_by_hand(query, row, TEXTS) for row in range(4)}
    assert dict(zip(found.tolist(), scores.tolist(), strict=True)) == pytest.approx(
        {row: score for row, score in expected.items() if score > 0}, rel=1e-5
    )


def test_the_best_document_comes_first(words: WordSearcher) -> None:
    found, scores = words.search("cat mat", 10)
    assert found.tolist() == sorted([0, 1], key=lambda row: -bm25_by_hand("cat mat", row, TEXTS)) == [0, 1]
    assert scores.tolist() == sorted(scores.tolist(), reverse=True)
    assert rows(words, "cat") == [1, 0]


def test_a_rare_word_counts_more_than_a_common_one(words: WordSearcher) -> None:
    assert rows(words, "the copper")[0] == 3


def test_at_most_k_documents_are_found(words: WordSearcher) -> None:
    assert rows(words, "cat", k=1) == [1]
    assert rows(words, "cat", k=0) == []


def test_a_reading_has_the_idf_of_each_word_in_query_order(words: WordSearcher) -> None:
    asked = words.read("the CAT, the unheard").words
    numbers, weight = asked.words[asked.of_query], asked.weight[asked.of_query]
    assert numbers.tolist() == number_words(["the", "cat", "the", "unheard"]).tolist()
    in_documents = [2, 2, 2, 0]
    expected = [math.log(1 + (4 - n + 0.5) / (n + 0.5)) for n in in_documents]
    assert weight.tolist() == pytest.approx(expected)
    assert [len(side) for side in words.read("").words[:7]] == [0] * 7


def test_documents_and_queries_have_the_same_word_numbers(tmp_path: Path) -> None:
    index = WordIndex(tmp_path, "english")
    assert index.number("Running cats").tolist() == index.commit().number("cat runs").tolist()[::-1]


# --- Ties ---


def test_ties_go_to_the_lower_row(tmp_path: Path) -> None:
    searcher = searcher_of(tmp_path, ["cat", "dog", "cat", "cat"])
    assert rows(searcher, "cat") == [0, 2, 3]
    assert rows(searcher, "cat", k=2) == [0, 2]


def test_ties_go_to_the_lower_row_after_many_commits_and_with_a_small_k(tmp_path: Path) -> None:
    index = WordIndex(tmp_path, "none")
    for row in range(24):
        index.replace([row], ["cat"])
        searcher = index.commit()
        assert rows(searcher, "cat", k=3) == list(range(min(row + 1, 3)))


class Counting:
    """Counts the searches of the library."""

    def __init__(self, searcher: Any) -> None:
        self._searcher = searcher
        self.searches = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._searcher, name)

    def search(self, *query: Any, **options: Any) -> Any:
        self.searches += 1
        return self._searcher.search(*query, **options)


def test_a_few_ties_need_no_further_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searcher = searcher_of(tmp_path, ["cat dog"] * 9 + ["cat cat"] * 10 + ["dog", "cat dog ran"] * 50)
    counting = Counting(searcher._searcher)
    monkeypatch.setattr(searcher, "_searcher", counting)
    assert rows(searcher, "cat", k=12) == [*range(9, 19), 0, 1]
    assert counting.searches == 1
    assert rows(searcher, "cat", k=20) == [*range(9, 19), *range(9), 20]
    assert counting.searches > 2


@pytest.mark.parametrize("seed", range(4))
def test_the_best_documents_are_the_best_of_all_documents_in_a_fixed_order(tmp_path: Path, seed: int) -> None:
    """Short texts of few words have few different scores. Ids decide where documents tie at the cut, else rows do."""
    draw = np.random.default_rng(seed)
    vocabulary = ["cat", "dog", "ran", "mat", "copper"]
    index = WordIndex(tmp_path, "none")
    for start in range(0, 600, 150):
        texts = [" ".join(draw.choice(vocabulary, draw.integers(1, 5))) for _ in range(150)]
        index.replace(range(start, start + 150), texts)
        searcher = index.commit()
    index.remove(draw.choice(600, 60, replace=False).tolist())
    index.replace([600, 601, 602], ["cat", "dog cat", "mat"])  # these wait in memory
    searcher = index.commit()
    ids = np.asarray([f"{number:03}".encode() for number in draw.permutation(603)])
    for text in ("cat", "cat dog", "mat ran cat", "copper copper mat"):
        reading = searcher.read(text)
        for allowed in (None, np.flatnonzero(draw.random(603) < 0.5)):
            every, scores = searcher.find(reading, 700, allowed)
            for k in (1, 7, 40, 200, len(every)):
                tied = k < len(every) and scores[k - 1] == scores[k]
                expected = np.lexsort((every, *((ids[every],) if tied else ()), -scores))[:k]
                found, found_scores = searcher.find(reading, k, allowed, id_order=lambda asked: ids[asked])
                assert found.tolist() == every[expected].tolist()
                assert found_scores.tolist() == scores[expected].tolist()


# --- Words ---


def test_english_words_are_found_in_all_their_forms(tmp_path: Path) -> None:
    searcher = searcher_of(tmp_path, ["Running shoes", "He runs", "ruin"], language="english")
    assert sorted(rows(searcher, "run")) == sorted(rows(searcher, "RUNNING")) == [0, 1]


def test_without_a_language_words_are_not_stemmed(tmp_path: Path) -> None:
    searcher = searcher_of(tmp_path, ["Running shoes", "He runs"], language="none")
    assert rows(searcher, "running") == [0]
    assert rows(searcher, "run") == []


def test_case_and_accents_do_not_matter(tmp_path: Path) -> None:
    searcher = searcher_of(tmp_path, ["Ein CAFÉ"])
    assert rows(searcher, "cafe") == rows(searcher, "Café") == [0]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_a_stemmer(language: str) -> None:
    assert analyzer_for(language).analyze("word")


def test_a_word_above_the_length_limit_is_left_out(tmp_path: Path) -> None:
    searcher = searcher_of(tmp_path, ["x" * (MAX_WORD_BYTES + 1) + " cat", "x" * 70_000 + " cat"])
    assert rows(searcher, "cat") == [0, 1]
    assert rows(searcher, "x" * (MAX_WORD_BYTES + 1)) == []


@pytest.mark.parametrize(
    "query",
    ["cat AND nowhere", "+cat -the", "NOT cat", "(cat", '"cat', "cat*", "c?t cat", "words:cat", "cat^9 cat", "cat~",
     "\\cat", "cat \0", "[cat TO dog]", "cat || /.*/"],
)  # fmt: skip
def test_no_character_of_a_query_is_an_operator(words: WordSearcher, query: str) -> None:
    plain = " ".join("".join(c if c.isalnum() else " " for c in query).lower().split())
    found, scores = words.search(query, 10)
    expected, expected_scores = words.search(plain, 10)
    assert {0, 1} <= set(found.tolist())
    assert found.tolist() == expected.tolist()
    assert scores.tolist() == expected_scores.tolist()


@pytest.mark.parametrize("query", ["", "  ", "!?", "row:1", "😀", "nowhere"])
def test_a_query_without_a_known_word_finds_nothing(words: WordSearcher, query: str) -> None:
    found, scores = words.search(query, 10)
    assert (len(found), len(scores)) == (0, 0)
    assert (found.dtype, scores.dtype) == (np.int64, np.float32)


# --- Rows ---


def test_only_allowed_rows_are_found_with_unchanged_scores(words: WordSearcher) -> None:
    assert rows(words, "the cat", allowed=[1, 3]) == [1]
    assert rows(words, "the cat", allowed=[]) == []
    everywhere = dict(zip(*(side.tolist() for side in words.search("the cat", 10)), strict=True))
    found, scores = words.search("the cat", 10, np.asarray([0, 2]))
    assert sorted(found.tolist()) == [0, 2]
    assert scores.tolist() == pytest.approx([everywhere[row] for row in found.tolist()])


def test_a_filter_does_not_reduce_the_number_of_results(tmp_path: Path) -> None:
    searcher = searcher_of(tmp_path, ["cat cat"] * 20 + ["cat dog"] * 5)
    assert rows(searcher, "cat", k=5, allowed=list(range(20, 25))) == [20, 21, 22, 23, 24]


def test_an_empty_index_finds_nothing(tmp_path: Path) -> None:
    searcher = WordIndex(tmp_path, "english").searcher()
    assert searcher.count == 0
    assert rows(searcher, "cat") == []


def test_replacing_a_row_removes_its_old_words(tmp_path: Path) -> None:
    index = WordIndex(tmp_path, "none")
    index.replace([0, 1], ["cat", "dog"])
    index.commit()
    index.replace([0], ["copper"])
    searcher = index.commit()
    assert (rows(searcher, "cat"), rows(searcher, "copper"), rows(searcher, "dog")) == ([], [0], [1])
    assert searcher.count == 2


def test_replacing_a_row_twice_between_commits_keeps_the_last_words(tmp_path: Path) -> None:
    index = WordIndex(tmp_path, "none")
    index.replace([0, 0], ["cat", "dog"])
    searcher = index.commit()
    assert (rows(searcher, "cat"), rows(searcher, "dog"), searcher.count) == ([], [0], 1)


def test_a_removed_row_is_not_found(tmp_path: Path) -> None:
    index = WordIndex(tmp_path, "none")
    index.replace([0, 1, 2], ["cat", "cat", "cat"])
    index.commit()
    index.remove([1, 99])
    assert rows(index.commit(), "cat") == [0, 2]


def test_rows_beyond_32_bit_keep_their_number(tmp_path: Path) -> None:
    index = WordIndex(tmp_path, "none")
    index.replace([2**40, 2**62], ["cat", "cat"])
    assert rows(index.commit(), "cat") == [2**40, 2**62]


# --- Searchers and commits ---


def test_a_searcher_keeps_the_state_of_its_commit(tmp_path: Path) -> None:
    index = WordIndex(tmp_path, "none")
    index.replace([0, 1], ["cat", "cat dog"])
    old = index.commit()
    before = old.search("cat dog", 10)
    index.replace([2, 0], ["cat", "copper"])
    index.remove([1])
    assert rows(old, "copper") == []
    new = index.commit()
    index.close()
    after = old.search("cat dog", 10)
    assert [side.tolist() for side in before] == [side.tolist() for side in after]
    assert (rows(old, "copper"), old.count) == ([], 2)
    assert (rows(new, "cat"), rows(new, "copper")) == ([2], [0])


def test_uncommitted_changes_are_invisible(tmp_path: Path) -> None:
    index = WordIndex(tmp_path, "none")
    index.replace([0], ["cat"])
    assert rows(index.searcher(), "cat") == []
    assert rows(index.commit(), "cat") == [0]


def test_an_index_can_be_opened_again_in_its_folder(tmp_path: Path) -> None:
    first = WordIndex(tmp_path, "english")
    first.replace([0], ["running cats"])
    first.commit()
    first.flush()
    first.close()
    again = WordIndex(tmp_path, "english")
    assert rows(again.searcher(), "cat run") == [0]
    again.replace([1], ["a cat"])
    assert sorted(rows(again.commit(), "cat")) == [0, 1]


def test_a_closed_index_can_be_written_to_again(tmp_path: Path) -> None:
    index = WordIndex(tmp_path, "none")
    for row in range(3):
        index.replace([row], ["cat"])
        index.commit()
        index.close()
        index.close()
    assert rows(index.searcher(), "cat") == [0, 1, 2]


def test_nothing_touches_the_folder_of_a_closed_index(tmp_path: Path) -> None:
    index = WordIndex(tmp_path, "none")
    reader = WordReader(tmp_path, "none")
    index.replace([0], ["cat"])
    index.commit()
    index.flush()
    index.close()
    (tmp_path / ".tantivy-meta.lock").unlink()  # made by each reading of a commit
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    time.sleep(1.2)  # the library looks for new commits every half second
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
    assert reader.read(WordDescriber().described(index.searcher())).count == 1


def test_a_folder_that_is_removed_while_it_is_opened_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "words"
    WordIndex(folder, "none").flush()

    def removed_first(index: Any) -> None:
        shutil.rmtree(folder)
        reload_when_told(index)

    monkeypatch.setattr(word_reader, "reload_when_told", removed_first)
    with pytest.raises(OtherCommit):
        WordReader(folder, "none")


def test_concurrent_searches_give_the_same_results(words: WordSearcher) -> None:
    queries = ["cat", "the cat", "dog ran", "copper mat", "nowhere"] * 20
    alone = [[side.tolist() for side in words.search(query, 3)] for query in queries]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda query: [side.tolist() for side in words.search(query, 3)], queries))
    assert together == alone


class FullWriter:
    """The writer of the library on a disk without space."""

    def delete_documents_by_query(self, _: Any) -> None:
        """Delete nothing."""

    def add_document(self, _: Any) -> None:
        """Keep nothing."""

    def commit(self) -> None:
        raise ValueError("An IO error occurred: 'No space left on device (os error 28)'")


def test_a_full_disk_is_an_os_error_and_the_documents_are_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = WordIndex(tmp_path / "words", "none")
    index.replace([1], ["copper wire"])
    index.commit()
    with monkeypatch.context() as full:
        full.setattr(index, "_writer", FullWriter())
        with pytest.raises(OSError, match="No space left") as raised:
            index.flush()
    assert raised.value.errno == errno.ENOSPC
    index.flush()
    index.close()
    assert WordIndex(tmp_path / "words", "none").searcher().count == 1
