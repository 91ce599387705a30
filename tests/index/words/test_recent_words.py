"""A small commit stays in memory and changes no file; searches count and score its documents beside the files'."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from index.words import bm25_index
from index.words.bm25_index import RECENT_CHARACTERS, RECENT_DOCUMENTS, WordIndex
from index.words.reading_options import ReadingOptions
from index.words.word_search import WordSearcher
from tests.index.words.test_bm25_index import TEXTS, bm25_by_hand

WORDS = ("copper", "cop", "iron", "wire", "tin")
READING = ReadingOptions(typos=True, prefix=True)
CHANGES = st.lists(
    st.tuples(st.sampled_from(("add", "remove", "flush")), st.lists(st.sampled_from(WORDS), min_size=1, max_size=4)),
    max_size=12,
)


def files(folder: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of every file."""
    return {path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.iterdir()}


def rows(searcher: WordSearcher, text: str, k: int = 1000) -> list[int]:
    return sorted(searcher.search(text, k)[0].tolist())


def test_small_commits_change_no_file_until_there_are_many_documents(tmp_path: Path) -> None:
    index = WordIndex(tmp_path, "none")
    before = files(tmp_path)
    for row in range(RECENT_DOCUMENTS):
        index.replace([row], ["copper wire"])
        searcher = index.commit()
        assert searcher.count == row + 1
    index.remove([0])
    assert rows(index.commit(), "copper") == list(range(1, RECENT_DOCUMENTS))
    assert files(tmp_path) == before
    index.replace([RECENT_DOCUMENTS], ["copper wire"])
    assert rows(index.commit(), "copper") == list(range(1, RECENT_DOCUMENTS + 1))
    assert files(tmp_path) != before
    index.close()
    assert WordIndex(tmp_path, "none").searcher().count == RECENT_DOCUMENTS


def test_long_texts_and_many_removed_rows_are_written_at_once(tmp_path: Path) -> None:
    index = WordIndex(tmp_path, "none")
    index.replace([0], ["cat " * (RECENT_CHARACTERS // 4 + 1)])
    index.commit()
    index.replace(range(1, 400), ["dog"] * 399)
    index.commit()
    assert WordIndex(tmp_path, "none").searcher().count == 400
    index.remove(range(RECENT_DOCUMENTS))
    index.commit()
    assert WordIndex(tmp_path, "none").searcher().count == 400
    index.remove([399])
    index.commit()
    assert WordIndex(tmp_path, "none").searcher().count == 399 - RECENT_DOCUMENTS


@pytest.mark.parametrize("in_files", [1, 2, 3])
def test_scores_of_recent_documents_are_bm25_over_all_documents(tmp_path: Path, in_files: int) -> None:
    mean_length = sum(len(text.split()) for text in TEXTS) / len(TEXTS)
    index = WordIndex(tmp_path, "none")
    index.replace(range(in_files), TEXTS[:in_files])
    index.commit()
    index.flush()
    index.replace(range(in_files, 4), TEXTS[in_files:])
    searcher = index.commit(mean_length)
    for query in ("cat", "the cat", "cat cat mat", "the dog and the copper cat"):
        found = dict(zip(*(side.tolist() for side in searcher.search(query, 10)), strict=True))
        wanted = {row: bm25_by_hand(query, row, TEXTS) for row in range(4)}
        assert set(found) == {row for row, score in wanted.items() if score > 0}
        recent = {row: score for row, score in found.items() if row >= in_files}
        assert recent == pytest.approx({row: wanted[row] for row in recent}, rel=1e-5)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=CHANGES)
def test_every_history_of_commits_counts_and_finds_as_written_files_do(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, list[str]]]
) -> None:
    folder = tmp_path_factory.mktemp("words")
    lived, content = WordIndex(folder / "lived", "english"), {}
    for row, (kind, words) in enumerate(changes):
        if kind == "add":
            content[row] = " ".join(words)
            lived.replace([row], [content[row]])
        elif kind == "remove" and content:
            gone = sorted(content)[len(words) % len(content)]
            del content[gone]
            lived.remove([gone])
        lived.commit()
        if kind == "flush":
            lived.flush()
    fresh = WordIndex(folder / "fresh", "english")
    fresh.replace(content.keys(), content.values())
    fresh.commit()
    found, wanted = lived.searcher(), fresh.flush()
    assert found.count == wanted.count == len(content)
    for word in (*WORDS, "coper", "absent"):
        one, other = found.vocabulary, wanted.vocabulary
        assert (one.count(word), one.term_count(word)) == (other.count(word), other.term_count(word))
        assert list(one.beginning(word[:2])) == list(other.beginning(word[:2]))
        assert one.near(word, 1) == other.near(word, 1)
        assert one.ending(word[-2:]) == other.ending(word[-2:])
        assert rows(found, word) == rows(wanted, word)
        for allowed in ([], [0, 1, 2, 3]):
            only = np.asarray(allowed, np.int64)
            both = (side.search(f"{word} wire", 9, only, READING)[0].tolist() for side in (found, wanted))
            assert len({tuple(sorted(side)) for side in both}) == 1
    for index in (lived, fresh):
        index.close()


def test_a_corrected_word_matches_recent_documents_only_where_it_may(tmp_path: Path) -> None:
    index = WordIndex(tmp_path, "none")
    index.replace([0, 1, 2], ["tin", "copper", "copper"])
    searcher = index.commit()
    reading = searcher.read("tin coper", ReadingOptions(typos=True, uncorrected_fields=frozenset({"title"})))
    assert dict(reading.corrected_terms)
    assert sorted(searcher.find(reading, 9)[0].tolist()) == [0]
    assert sorted(searcher.find(reading, 9, corrected=np.asarray([2]))[0].tolist()) == [0, 2]


def test_a_searcher_does_not_see_what_is_added_to_its_log_later(tmp_path: Path) -> None:
    index = WordIndex(tmp_path, "none")
    index.replace([0, 1], ["copper", "copper wire"])
    old = index.commit()
    index.replace([2], ["copper tin"])
    index.remove([0])
    new = index.commit()
    assert (rows(old, "copper"), old.vocabulary.count("tin"), old.vocabulary.count("copper")) == ([0, 1], 0, 2)
    assert (rows(new, "copper"), new.vocabulary.count("tin"), new.vocabulary.count("copper")) == ([1, 2], 1, 2)
    assert [word for word, _ in old.vocabulary.beginning("")] == ["copper", "wire"]


def test_searches_run_while_documents_are_added(tmp_path: Path) -> None:
    index = WordIndex(tmp_path, "none")
    index.replace([0], ["copper"])
    seen = [index.commit()]

    def search(_: int) -> None:
        searcher = seen[-1]
        count = searcher.count
        assert len(rows(searcher, "copper")) == count == searcher.vocabulary.count("copper")
        assert ("copper", count) in searcher.vocabulary.beginning("co")

    with ThreadPoolExecutor(2) as pool:
        searches = []
        for row in range(1, RECENT_DOCUMENTS):
            index.replace([row], [f"copper cod{row} col{row}"])
            seen.append(index.commit())
            searches.append(pool.submit(search, row))
        for one in searches:
            one.result()


def test_a_write_that_fails_keeps_the_recent_documents_and_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bm25_index, "RECENT_DOCUMENTS", 2)
    index = WordIndex(tmp_path, "none")
    index.replace([0, 1], ["copper", "copper"])
    index.commit()
    with monkeypatch.context() as full:
        full.setattr(WordIndex, "_write", lambda *_: (_ for _ in ()).throw(ValueError("No space left on device")))
        index.replace([2], ["copper"])
        with pytest.raises(ValueError, match="No space"):
            index.commit()
        index.roll_back()
        assert rows(index.searcher(), "copper") == [0, 1]
    index.replace([2], ["copper"])
    assert rows(index.commit(), "copper") == [0, 1, 2]
    assert rows(WordIndex(tmp_path, "none").searcher(), "copper") == [0, 1, 2]


def test_a_writer_that_failed_is_not_used_again(tmp_path: Path) -> None:
    class Full:
        """A writer on a full disk."""

        def __getattr__(self, name: str) -> Any:
            raise ValueError("No space left on device")

    index = WordIndex(tmp_path, "none")
    index.replace([0], ["copper"])
    index.commit()
    index._writer = Full()  # type: ignore[assignment]
    with pytest.raises(OSError, match="No space"):
        index.flush()
    index.flush()
    assert rows(WordIndex(tmp_path, "none").searcher(), "copper") == [0]
