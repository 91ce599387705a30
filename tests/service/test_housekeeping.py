"""A step of the housekeeping that fails, or a collection that fails in it, does not stop the rest."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from fastapi.testclient import TestClient

from index.errors import DamagedKeys
from service.documents.indexing import resume_interrupted
from service.erasures.actions import retry_erasures
from service.operations import housekeeping
from service.operations.housekeeping import Housekeeping
from service.runtime.collection import CollectionState
from service.runtime.runtime import Runtime
from tests.service.client import CollectionClient, create, opened, runtime_of


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with opened(tmp_path / "data") as client:
        for collection in (CollectionClient(client), create(client, "other")):
            collection.add({"id": "a", "text": "copper wire"})
        yield client


def test_a_service_starts_its_housekeeping_with_the_steps_of_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.app.Housekeeping", Held)
    Held.given.clear()
    with opened(tmp_path / "own", keeps_house=True):
        ((runtime, trains, hourly, often),) = Held.given
    assert (type(runtime), trains) == (Runtime, True)
    assert (hourly, often) == ({"erasures": retry_erasures}, {"resume_documents": resume_interrupted})


class Held:
    """In the place of a housekeeping thread: keeps what it is started with."""

    given: ClassVar[list[tuple[Any, ...]]] = []

    def __init__(self, *arguments: Any) -> None:
        self.given.append(arguments)

    def stop(self) -> None:
        """End nothing."""


def test_every_step_of_a_round_is_tried(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def failing(name: str) -> Any:
        def step(*_: Any) -> None:
            tried.append(name)
            raise RuntimeError(name)

        return step

    names = ["heal_indexes", "forget_old_feedback", "age_memory", "weigh_memory", "store_last_uses", "save_paused"]
    names += ["start_scheduled_runs", "make_due_snapshot", "give_back_free_memory"]
    for name in names:
        monkeypatch.setattr(housekeeping, name, failing(name))
    Housekeeping(runtime_of(client), hourly={"erasures": failing("erasures")}).stop()
    assert tried == [*names[:2], "erasures", *names[2:]]


@pytest.mark.parametrize("step", ["forget_old_feedback", "age_memory", "heal_indexes"])
def test_a_collection_that_fails_does_not_stop_the_others(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    seen: list[str] = []

    class Seen:
        """Settings that cannot be read."""

        def __init__(self, name: str) -> None:
            self.name = name

        def __getattr__(self, _: str) -> Any:
            seen.append(self.name)
            raise RuntimeError(self.name)

    runtime = runtime_of(client)
    for name, state in runtime.collections.items():
        monkeypatch.setattr(state, "settings", Seen(name))
        monkeypatch.setattr(state, "heal", lambda name=name: Seen(name).heal)
    with pytest.raises(ExceptionGroup):
        getattr(housekeeping, step)(runtime)
    assert seen == ["default", "other"]
    monkeypatch.undo()


def test_a_damaged_index_is_rebuilt_before_it_is_saved(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, save = runtime_of(client), CollectionState.save
    state = runtime.collections["default"]
    damaged = state.generation.key_guard

    def refuse(state: CollectionState) -> None:
        if state.generation.key_guard is damaged:
            raise DamagedKeys("a key differs from its checksum")
        save(state)

    monkeypatch.setattr(CollectionState, "save", refuse)
    seen = {one.id: one.documents_watermark for one in runtime.collections.values()}
    housekeeping.save_paused(runtime, seen)
    assert state.saved_watermark == state.documents_watermark
    assert CollectionClient(client).ids("copper") == ["a"]
