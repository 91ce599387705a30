"""Sealing in the background: neither searches nor writes wait for it, and results are the same."""

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import index.generation.store
from index.candidates.base import SealedIndex
from index.candidates.build import seal
from index.candidates.pq4 import PQ4Index
from index.generation.generation import IndexedDocument
from index.generation.store import GenerationStore
from index.storage.background import Background
from tests.index.fixtures import passages, random_vectors, store_of

VECTORS = random_vectors(400, 3, seed=1)
DOCUMENTS = [passages(row, f"word{row}", vector) for row, vector in enumerate(VECTORS)]


def seal_no_more(*_: object) -> SealedIndex:
    raise MemoryError("no room for an index")


@dataclass
class Gate:
    """Replaces `seal`: it ends when the test allows it."""

    began: threading.Event
    let: threading.Event

    def seal(self, *arguments: Any) -> SealedIndex:
        self.began.set()
        assert self.let.wait(30)
        return seal(*arguments)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tails of 20 keys are sealed in the background once there are more than 100."""
    for name, value in {"TAIL_KEYS": 20, "TAIL_MOST": 20, "INLINE_KEYS": 100}.items():
        monkeypatch.setattr(f"index.generation.store.{name}", value)
    monkeypatch.setattr("index.candidates.build.PQ4_FROM", 150)


@pytest.fixture
def store(small: None, tmp_path: Path) -> Iterator[GenerationStore]:
    """A store of 200 documents, all sealed."""
    store = store_of(tmp_path / "store", DOCUMENTS[:200], 3)
    assert store.current.sealed.count == 200
    yield store
    store.close()


@pytest.fixture
def gate(store: GenerationStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate(threading.Event(), threading.Event())
    monkeypatch.setattr(index.generation.store, "seal", gate.seal)
    yield gate
    gate.let.set()


def found(store: GenerationStore) -> list[list[int]]:
    generation = store.current
    doc_indices = [generation.nearest(query[None], 10, generation.alive)[0] for query in VECTORS[:20]]
    return [generation.rows[one].tolist() for one in doc_indices]


def by_hand(documents: list[IndexedDocument]) -> list[list[int]]:
    keys = np.asarray([document.keys[0].vector for document in documents])
    return [[documents[at].row for at in np.argsort(-(keys @ query))[:10]] for query in VECTORS[:20]]


def test_a_write_does_not_wait_for_the_sealing_that_it_starts(store: GenerationStore, gate: Gate) -> None:
    store.apply(2, DOCUMENTS[200:230])
    assert gate.began.wait(30)
    store.apply(3, DOCUMENTS[230:235], removed=[7])
    assert store.current.sealed.count == 200
    left = [document for document in DOCUMENTS[:235] if document.row != 7]
    assert found(store) == by_hand(left)
    gate.let.set()
    store.settle()
    generation = store.current
    assert (generation.sealed.count, len(generation.keys), generation.watermark) == (230, 235, 3)
    assert found(store) == by_hand(left)


def test_a_write_does_not_wait_while_all_keys_are_sealed_before_saving(store: GenerationStore, gate: Gate) -> None:
    store.apply(2, DOCUMENTS[200:205])
    saving = threading.Thread(target=store.seal_tail)
    saving.start()
    assert gate.began.wait(30)
    store.apply(3, DOCUMENTS[205:210])
    assert (store.current.sealed.count, len(store.current.keys)) == (200, 210)
    gate.let.set()
    saving.join()
    assert (store.current.sealed.count, len(store.current.keys)) == (205, 210)
    assert found(store) == by_hand(DOCUMENTS[:210])


def test_memory_that_changes_during_sealing_is_kept(store: GenerationStore, gate: Gate) -> None:
    store.apply(2, DOCUMENTS[200:230])
    memory = store.remember(9, []).memory
    gate.let.set()
    store.settle()
    assert (store.current.watermark, store.current.memory, store.current.sealed.count) == (9, memory, 230)


def test_a_write_waits_for_sealing_when_the_tail_is_too_long(store: GenerationStore, gate: Gate) -> None:
    store.apply(2, DOCUMENTS[200:270])
    assert gate.began.wait(30)  # sealing has the keys of this moment
    store.apply(3, DOCUMENTS[270:280])
    assert store.current.sealed.count == 200
    writing = threading.Thread(
        target=store.apply, args=(4, DOCUMENTS[280:281])
    )  # the tail is more than 4 times too long
    writing.start()
    writing.join(0.05)
    assert len(store.current.keys) == 280
    gate.let.set()
    writing.join()
    assert store.current.sealed.count == 270
    assert found(store) == by_hand(DOCUMENTS[:281])


def test_a_write_with_too_many_keys_seals_them_itself(store: GenerationStore) -> None:
    generation = store.apply(2, DOCUMENTS[200:290])
    assert (generation.sealed.count, len(generation.keys)) == (290, 290)


def test_the_saved_state_does_not_depend_on_the_duration_of_sealing(
    store: GenerationStore, gate: Gate, tmp_path: Path
) -> None:
    store.apply(2, DOCUMENTS[200:230])
    saving = threading.Thread(target=store.save, args=("none", 2))
    saving.start()
    gate.let.set()
    saving.join()
    again = GenerationStore.open(tmp_path / "store", 3, "none", 2)
    assert again.current.sealed.count == 230
    assert isinstance(again.current.sealed, PQ4Index)
    assert found(again) == by_hand(DOCUMENTS[:230])


def test_a_failed_sealing_is_tried_again_at_the_next_write(
    store: GenerationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index.generation.store, "seal", seal_no_more)
    store.apply(2, DOCUMENTS[200:230])
    with pytest.raises(MemoryError):
        store.settle()
    assert found(store) == by_hand(DOCUMENTS[:230])
    monkeypatch.setattr(index.generation.store, "seal", seal)
    store.apply(3, DOCUMENTS[230:231])
    store.settle()
    assert store.current.sealed.count == 231


def test_an_index_that_was_replaced_is_not_kept_in_memory(store: GenerationStore) -> None:
    store.apply(2, DOCUMENTS[200:230])
    store.settle()
    before = weakref.ref(store.current.sealed)
    assert isinstance(before(), PQ4Index)
    store.apply(3, DOCUMENTS[230:255])
    store.settle()
    assert store.current.sealed.count == 255
    store.remember(4, [])
    gc.collect()
    assert before() is None


def test_one_background_task_runs_at_a_time_and_closing_waits_for_it() -> None:
    background, let, done = Background(), threading.Event(), []

    def work(name: str) -> Callable[[], None]:
        return lambda: done.append(name) if let.wait(30) else None

    background.settle()
    background.start(work("first"))
    background.start(work("second"))
    let.set()
    background.settle()
    background.start(work("third"))
    background.close()
    assert done == ["first", "third"]
