"""A mirrored generation finds what the generation of the writing process finds, after any changes."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from index.generation.generation import Generation
from index.generation.mirroring import Files, GenerationFeed, GenerationMirror
from index.generation.store import GenerationStore
from index.records import MemoryKey
from index.storage.frames import frame, frames
from index.words.reading_options import EXACTLY
from tests.index.fixtures import ENCODER, arrays_of, random_vectors, remembered, vector_of, written

WORDS = ("copy", "folder", "list", "sort", "merge", "path", "file", "read")
QUERIES = ("copy a folder", "sort list", "read file path", "merge", "nothing", "paths?", "(paths)")


class Pair:
    """A store, and a mirror of it that sees only frames and files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = GenerationStore(directory / "store", ENCODER.dim, "english")
        self.vectors: object = None
        self.feed: GenerationFeed | None = None
        self.mirror: GenerationMirror | None = None
        self.feeds = 0

    def publish(self, writes_sealed: bool = True) -> Generation | None:
        """Send what is new to the mirror, and return its generation."""
        generation = self.store.current
        if self.feed is None or generation.files != self.vectors:
            keys, values = (None, None) if generation.files is None else generation.files
            self.feeds += 1
            files = Files(keys, values, self.store.words_folder, "english")
            self.feed = GenerationFeed(self.directory / f"feed-{self.feeds}", files, generation)
            self.vectors = generation.files
            head, arrays = self.feed.base()
        else:
            if writes_sealed and not self.feed.has_sealed(generation.sealed):
                self.feed.write_sealed(generation.sealed)
            head, arrays = self.feed.change(generation)
        return self.send(head, arrays)

    def send(self, head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Generation | None:
        for sent, received in frames(frame(head, arrays)):
            if "files" in sent:
                self.mirror = GenerationMirror(sent)
            assert self.mirror is not None
            self.mirror.apply(sent, received, EXACTLY)
        assert self.mirror is not None
        return self.mirror.current


def assert_same(mirrored: Generation | None, generation: Generation) -> None:
    """Assert that searches in both find the same."""
    assert mirrored is not None
    assert mirrored.watermark == generation.watermark
    for name, array in arrays_of(generation).items():
        np.testing.assert_array_equal(arrays_of(mirrored)[name], array, err_msg=name)
    assert mirrored.words.count == generation.words.count
    for query in QUERIES:
        for found, expected in zip(mirrored.words.search(query, 5), generation.words.search(query, 5), strict=True):
            np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(best_scores(mirrored, query), best_scores(generation, query))
        assert near(mirrored, query) == near(generation, query)
        for found, expected in zip(mirrored.memory.exact_of(query), generation.memory.exact_of(query), strict=True):
            np.testing.assert_array_equal(found, expected)
        assert mirrored.memory.same_words(query) == generation.memory.same_words(query)
    assert mirrored.memory.count == generation.memory.count
    found, known = mirrored.words.vocabulary, generation.words.vocabulary
    assert [found.term_count(word) for word in WORDS] == [known.term_count(word) for word in WORDS]


def best_scores(generation: Generation, query: str) -> NDArray[np.float32]:
    """Return the scores of all documents, found by their keys. Which few are the nearest depends on what is sealed."""
    vector = vector_of(query)
    found = generation.nearest(vector[None], 1000, generation.alive)[0]
    keys = [generation.columns.key_positions(one[None]) for one in found]
    return np.asarray([(generation.key_vectors(positions) @ vector).max() for positions in keys], np.float32)


def near(generation: Generation, query: str) -> list[tuple[Any, ...]]:
    memory = generation.memory
    keys, cosines = memory.near(vector_of(query), 0.2)
    return [
        (memory.query_key_of(int(key)), int(memory.rows[key]), float(memory.weights[key]), float(cosine))
        for key, cosine in zip(keys, cosines, strict=True)
    ]


CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), max_size=5)),
        st.tuples(st.just("remove"), st.integers(0, 40)),
        st.tuples(st.just("replace"), st.integers(0, 40)),
        st.tuples(st.just("revise"), st.dictionaries(st.sampled_from(QUERIES), st.integers(-1, 3), max_size=3)),
        st.tuples(st.just("remember"), st.lists(st.sampled_from(QUERIES), max_size=3, unique=True)),
        st.tuples(st.just("save"), st.none()),
        st.tuples(st.just("keep"), st.none()),
    ),
    max_size=14,
)


@pytest.fixture(scope="module", autouse=True)
def small() -> Any:
    """Few documents are sealed, compacted and written to the files of the words; memory is repacked early."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"TAIL_KEYS": 5, "TAIL_MOST": 5}.items():
            patch.setattr(f"index.generation.store.{name}", value)
        patch.setattr("index.generation.compaction.LEAST_DEAD", 3)
        patch.setattr("index.words.bm25_index.RECENT_DOCUMENTS", 4)
        patch.setattr("index.memory.memory.MOST_FORGOTTEN", 1)
        patch.setattr("index.memory.memory.MOST_REPLACED", 2)
        yield


@settings(max_examples=25, deadline=None)
@given(changes=CHANGES)
def test_a_mirror_finds_the_same_after_any_changes(
    changes: list[tuple[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    pair = Pair(tmp_path_factory.mktemp("pair"))
    assert_same(pair.publish(), pair.store.current)
    row = 0
    for watermark, (kind, argument) in enumerate(changes, 1):
        rows = [int(one) for one in pair.store.current.rows[pair.store.current.alive]]
        some = [rows[argument % len(rows)]] if kind in ("remove", "replace") and rows else []
        if kind == "add":
            documents = [written(row + at, " ".join(words)) for at, words in enumerate(argument)]
            row += len(documents)
            pair.store.apply(watermark, documents)
        elif kind == "replace":
            pair.store.apply(watermark, [written(row, "copy file")], some)
            row += 1
        elif kind == "remove":
            pair.store.apply(watermark, [], some)
        elif kind == "revise":
            pair.store.revise(watermark, {query: memory_keys(query, number) for query, number in argument.items()})
        elif kind == "remember":
            pair.store.remember(watermark, [key for query in argument for key in memory_keys(query, 2)])
        elif kind == "save":
            pair.store.save("english", watermark)
        if kind != "keep":
            assert_same(pair.publish(writes_sealed=watermark % 2 == 0), pair.store.current)
    pair.store.hide([int(one) for one in pair.store.current.rows[:2]])
    assert_same(pair.publish(), pair.store.current)
    pair.store.close()


def memory_keys(query: str, number: int) -> list[MemoryKey]:
    """Return `number` memory keys of a query; none forgets it."""
    return [remembered(0, row, query, weight=1.0 + row) for row in range(number)]


def test_a_past_query_that_was_forgotten_before_its_first_change_was_sent_is_not_found(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.store.apply(1, [written(0, "copy folder")])
    pair.publish()
    pair.store.revise(2, {QUERIES[0]: memory_keys(QUERIES[0], 1)})
    pair.store.revise(3, {QUERIES[0]: []})
    assert len(pair.store.current.memory.vectors) == 1
    current = pair.publish()
    assert_same(current, pair.store.current)
    assert near(pair.store.current, QUERIES[0]) == []


@pytest.mark.parametrize("known", [0, 3], ids=["a new feed", "a later change"])
def test_names_and_vectors_of_forgotten_past_queries_are_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: int
) -> None:
    monkeypatch.setattr("index.memory.memory.MOST_FORGOTTEN", 10)
    monkeypatch.setattr("index.memory.mirroring.WRITTEN_AT_ONCE", 2)
    pair = Pair(tmp_path)
    pair.store.apply(1, [written(0, "copy folder")])
    if known:
        pair.store.revise(2, {f"known {number}": memory_keys(f"known {number}", 1) for number in range(known)})
        pair.publish()
    pair.store.revise(3, {query: memory_keys(query, 1) for query in QUERIES})
    pair.store.revise(4, {QUERIES[0]: [], QUERIES[3]: []})
    assert len(pair.store.current.memory.vectors) == known + len(QUERIES)
    keys, values = pair.store.current.files or (None, None)
    files = Files(keys, values, pair.store.words_folder, "english")
    feed = pair.feed or GenerationFeed(tmp_path / "feed", files, pair.store.current)
    head, arrays = feed.change(pair.store.current) if known else feed.base()
    sent = frame(head, arrays) + b"".join(path.read_bytes() for path in feed.folder.glob("memory-*"))
    for at, query in enumerate(QUERIES):
        is_forgotten = at in (0, 3)
        assert (query.encode() in sent) != is_forgotten
        assert (vector_of(query).tobytes() in sent) != is_forgotten
    assert_same(pair.send(head, arrays), pair.store.current)
    pair.store.revise(5, {QUERIES[0]: memory_keys(QUERIES[0], 2)})
    if pair.feed:
        assert_same(pair.publish(), pair.store.current)


def test_files_that_were_written_again_make_the_mirror_wait_for_the_next_change(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.store.apply(1, [written(row, "copy folder") for row in range(3)])
    pair.publish()
    assert pair.feed is not None
    pair.store.apply(2, [written(row, "sort list") for row in range(3, 9)])
    late = pair.feed.change(pair.store.current)
    pair.store.apply(3, [written(row, "merge path") for row in range(9, 15)], [0])
    assert pair.send(*late) is None, "the words are of a commit that is not described yet"
    assert_same(pair.publish(), pair.store.current)


def test_a_mirror_that_begins_late_follows_all_changes(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    sent: list[tuple[Any, Any]] = []
    send = pair.send

    def keep(head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Generation | None:
        sent.append((head, arrays))
        return None

    pair.send = keep  # type: ignore[method-assign]
    pair.store.apply(1, [written(0, "copy folder")])
    for watermark in range(2, 12):
        pair.store.apply(watermark, [written(watermark, "sort list")], [watermark - 1] if watermark > 3 else [])
        pair.store.revise(watermark, {QUERIES[watermark % 3]: memory_keys(QUERIES[watermark % 3], watermark % 2 + 1)})
        pair.publish()
    begins = max(at for at, (head, _) in enumerate(sent) if "files" in head)
    for head, arrays in sent[begins:]:
        current = send(head, arrays)
    assert_same(current, pair.store.current)


def test_vectors_are_mapped_and_not_copied(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.store.apply(1, [replace(written(row, "copy folder"), metadata={"shelf": row}) for row in range(50)])
    pair.store.remember(
        2, [MemoryKey(0, vector, 1.0, str(at), 1) for at, vector in enumerate(random_vectors(9, 32, 1))]
    )
    mirrored = pair.publish()
    assert mirrored is not None
    for array in (mirrored.keys, mirrored.values, mirrored.memory.vectors, *mirrored.columns.by_name().values()):
        base = array
        while isinstance(base.base, np.ndarray):
            base = base.base
        assert not base.flags.owndata
        assert not array.flags.writeable


def test_a_damaged_vector_is_noticed(tmp_path: Path) -> None:
    from index.errors import DamagedKeys

    pair = Pair(tmp_path)
    pair.store.apply(1, [written(row, "copy folder") for row in range(5)])
    mirrored = pair.publish()
    assert mirrored is not None
    assert pair.feed is not None
    assert pair.feed.files.keys is not None
    with pair.feed.files.keys.open("r+b") as file:
        file.seek(2 * 4 * ENCODER.dim)
        file.write(b"\x01\x02\x03\x04")
    with pytest.raises(DamagedKeys):
        mirrored.key_vectors(np.arange(5))
