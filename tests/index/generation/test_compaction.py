"""Compaction in the background: concurrent writes do not wait, and their changes are published."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import index.generation.store
from index.generation.appender import Appender
from index.generation.compaction import Compaction, compact
from index.generation.generation import Generation, IndexedDocument
from index.generation.store import GenerationStore
from index.storage.files import MANIFEST
from tests.index.fixtures import arrays_of, passages, random_vectors, remembered, store_of

VECTORS = random_vectors(400, 3, seed=1)
DOCUMENTS = [
    passages(row, f"word{row} cat", *VECTORS[row : row + 1 + row % 3]) for row in range(300)
]  # one to three keys each
QUERIES = random_vectors(20, 3, seed=2)


@dataclass
class Gate:
    """Replaces `compact`: it returns its copy when the test allows it."""

    copied: threading.Event
    let: threading.Event
    fails: bool = False

    def compact(self, state: Generation, appender: Appender) -> Compaction:
        compaction = compact(state, appender)
        self.copied.set()
        assert self.let.wait(30)
        if self.fails:
            raise OSError("no space left on device")
        return compaction


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than 100 keys are compacted in the background, once 30 % and at least 20 of them are removed."""
    for name, value in {"TAIL_KEYS": 20, "TAIL_MOST": 20, "INLINE_KEYS": 100, "LAST_CARRIED": 4}.items():
        monkeypatch.setattr(f"index.generation.store.{name}", value)
    monkeypatch.setattr("index.generation.compaction.LEAST_DEAD", 20)
    monkeypatch.setattr("index.generation.compaction.COPY_DOCUMENTS", 50)
    monkeypatch.setattr("index.candidates.build.PQ4_FROM", 150)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(small: None, folder: Path) -> Iterator[GenerationStore]:
    """A store of the first 200 documents."""
    store = store_of(folder, DOCUMENTS[:200], 3)
    yield store
    store.close()


@pytest.fixture
def gate(store: GenerationStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate(threading.Event(), threading.Event())
    monkeypatch.setattr(index.generation.store, "compact", gate.compact)
    yield gate
    gate.let.set()


def without_keys(row: int) -> IndexedDocument:
    return IndexedDocument(row, f"word{row}", ())


def found(generation: Generation) -> list[list[int]]:
    doc_indices = [generation.nearest(query[None], 10, generation.alive)[0] for query in QUERIES]
    return [generation.rows[one].tolist() for one in doc_indices]


def by_hand(documents: list[IndexedDocument]) -> list[list[int]]:
    def nearest(query: np.ndarray) -> list[int]:
        scored = [(-max(float(key.vector @ query) for key in document.keys), document.row) for document in documents]
        return [row for _, row in sorted(scored)[:10]]

    return [nearest(query) for query in QUERIES]


def key_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("keys-*"))


def assert_holds(generation: Generation, documents: list[IndexedDocument]) -> None:
    """Compare the stored data of documents with the documents."""
    assert generation.rows[generation.alive].tolist() == [document.row for document in documents]
    for doc_index, document in zip(np.flatnonzero(generation.alive), documents, strict=True):
        own = slice(generation.columns.first_key[doc_index], generation.columns.first_key[doc_index + 1])
        assert np.array_equal(generation.keys[own], [key.vector for key in document.keys])
        assert generation.columns.key_kind[own].tolist() == [key.kind for key in document.keys]
        assert generation.columns.key_start[own].tolist() == [key.start for key in document.keys]
        assert generation.columns.key_end[own].tolist() == [key.end for key in document.keys]
        scores, *_ = generation.match(generation.words.read(document.words).words, np.arange(len(generation.rows)))
        assert scores.sum(axis=1).argmax() == doc_index
    assert found(generation) == by_hand(documents)


def test_a_write_does_not_wait_for_the_compaction_that_it_starts(
    store: GenerationStore, gate: Gate, folder: Path
) -> None:
    before = key_files(folder)
    store.apply(2, [], removed=range(100))
    assert gate.copied.wait(30)
    store.apply(3, DOCUMENTS[200:205])
    assert before[0] in key_files(folder)
    assert_holds(store.current, DOCUMENTS[100:205])
    gate.let.set()
    store.settle()
    assert before[0] not in key_files(folder)
    assert (len(store.current.rows), store.current.watermark) == (105, 3)
    assert_holds(store.current, DOCUMENTS[100:205])


def test_documents_and_memory_changed_during_a_compaction_are_carried_over(store: GenerationStore, gate: Gate) -> None:
    store.apply(2, [], removed=range(100))
    assert gate.copied.wait(30)
    store.apply(3, DOCUMENTS[200:215], removed=[100, 150])  # copied documents
    store.apply(4, [passages(215, "")], removed=[203, 199])  # documents added since the copy
    memory = store.remember(5, [remembered(1, 120, VECTORS[0])]).memory
    gate.let.set()
    store.settle()
    left = [one for one in DOCUMENTS[101:215] if one.row not in (150, 199, 203)]
    generation = store.current
    assert (generation.watermark, generation.memory) == (5, memory)
    assert generation.rows[generation.alive][-1] == 215
    store.apply(6, [], removed=[215])
    assert_holds(store.current, left)


def test_a_background_compaction_gives_the_bits_of_a_store_built_without_the_removed_documents(
    store: GenerationStore, gate: Gate, tmp_path: Path
) -> None:
    store.apply(2, [], removed=range(100))
    assert gate.copied.wait(30)
    store.apply(3, DOCUMENTS[200:209])
    gate.let.set()
    store.settle()
    other = store_of(tmp_path / "other", DOCUMENTS[100:200], 3)
    other.apply(3, DOCUMENTS[200:209])
    fresh = arrays_of(other.current)
    for name, mine in arrays_of(store.current).items():
        assert (mine.tolist(), mine.dtype) == (fresh[name].tolist(), fresh[name].dtype), name
    assert 0 < store.current.sealed.count == other.current.sealed.count < len(other.current.keys)
    searched = [one.current.sealed.search(QUERIES, 50) for one in (store, other)]
    assert all(np.array_equal(one, another) for one, another in zip(*searched, strict=True))
    other.close()


def test_all_documents_may_be_removed_during_a_compaction(store: GenerationStore, gate: Gate) -> None:
    store.apply(2, [], removed=range(200))
    gate.let.set()
    store.settle()
    assert (len(store.current.rows), found(store.current)) == (0, [[]] * 20)
    store.apply(3, DOCUMENTS[200:203])
    assert_holds(store.current, DOCUMENTS[200:203])


def test_a_generation_held_by_a_search_answers_as_before(store: GenerationStore, gate: Gate) -> None:
    held = store.apply(2, [], removed=range(100))
    gate.let.set()
    store.settle()
    store.apply(3, DOCUMENTS[200:205], removed=[150])
    assert len(held.rows) == 200
    assert_holds(held, DOCUMENTS[100:200])


def test_a_write_waits_when_the_tail_is_too_long(store: GenerationStore, gate: Gate) -> None:
    store.apply(2, [], removed=range(100))
    assert gate.copied.wait(30)
    store.apply(3, DOCUMENTS[200:230])
    writing = threading.Thread(
        target=store.apply, args=(4, DOCUMENTS[230:250])
    )  # the tail is more than 4 times too long
    writing.start()
    writing.join(0.05)
    assert len(store.current.rows) == 230
    gate.let.set()
    writing.join()
    store.settle()
    assert_holds(store.current, DOCUMENTS[100:250])


# --- Files ---


def test_the_old_key_file_is_removed_when_the_compacted_files_are_published(
    store: GenerationStore, gate: Gate, folder: Path
) -> None:
    store.apply(2, [], removed=range(100))
    assert gate.copied.wait(30)
    assert key_files(folder) == ["keys-1.f32", "keys-2.f32"]
    gate.let.set()
    store.settle()
    assert key_files(folder) == ["keys-2.f32"]


def test_a_compaction_that_failed_leaves_no_file_and_is_tried_again_at_the_next_write(
    store: GenerationStore, gate: Gate, folder: Path
) -> None:
    gate.fails = True
    gate.let.set()
    store.apply(2, [], removed=range(100))
    with pytest.raises(OSError, match="no space"):
        store.settle()
    assert key_files(folder) == ["keys-1.f32"]
    assert_holds(store.current, DOCUMENTS[100:200])
    gate.fails = False
    store.apply(3, DOCUMENTS[200:201])
    store.settle()
    assert (len(store.current.rows), len(key_files(folder))) == (101, 1)
    assert_holds(store.current, DOCUMENTS[100:201])


def test_saving_waits_for_the_compaction_and_saves_the_compacted_state(
    store: GenerationStore, gate: Gate, folder: Path
) -> None:
    store.apply(2, [], removed=range(100))
    assert gate.copied.wait(30)
    saving = threading.Thread(target=store.save, args=("none", 2))
    saving.start()
    saving.join(0.05)
    assert not (folder / MANIFEST).exists()
    gate.let.set()
    saving.join()
    again = GenerationStore.open(folder, 3, "none", 2)
    assert len(again.current.rows) == 100
    assert_holds(again.current, DOCUMENTS[100:200])


def test_no_manifest_names_keys_that_a_compaction_has_moved(
    store: GenerationStore, gate: Gate, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.apply(2, [], removed=range(100))
    assert gate.copied.wait(30)
    with monkeypatch.context() as hurried:
        hurried.setattr(store, "settle", lambda: None)  # simulates a write between waiting and saving
        store.save("none", 2)
    assert (folder / MANIFEST).exists()
    gate.let.set()
    store.settle()
    assert not (folder / MANIFEST).exists()
    store.save("none", 2)
    assert_holds(GenerationStore.open(folder, 3, "none", 2).current, DOCUMENTS[100:200])


def test_closing_waits_for_the_compaction(store: GenerationStore, gate: Gate, folder: Path) -> None:
    store.apply(2, [], removed=range(100))
    assert gate.copied.wait(30)
    closing = threading.Thread(target=store.close)
    closing.start()
    gate.let.set()
    closing.join()
    assert key_files(folder) == ["keys-2.f32"]
    assert_holds(store.current, DOCUMENTS[100:200])


def test_removed_documents_without_keys_are_compacted(small: None, folder: Path) -> None:
    store = store_of(folder, [without_keys(row) for row in range(60)], 3)
    store.apply(2, [passages(60 + row, f"word{row}", VECTORS[row]) for row in range(10)], range(10))
    assert len(store.current.rows) == 70
    store.apply(3, [passages(70 + row, f"word{row}", VECTORS[row]) for row in range(40)], range(10, 50))
    store.settle()
    assert store.current.rows.tolist() == list(range(50, 110))
    store.close()
