"""Rollbacks that arrive together are steps of their own."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from index.ranking.attention import AttentionHead
from index.ranking.checkpoint import head_files
from service.http.problems import Problem
from service.models import actions
from service.models.repository import champion_before
from service.runtime.collection import CollectionState
from service.runtime.model_registry import promote, register
from service.runtime.runtime import Runtime
from tests.service.client import create, opened, runtime_of


def promote_two(runtime: Runtime, state: CollectionState) -> None:
    """Register the models 1 and 2, and promote one after the other."""
    facts: dict[str, dict[str, Any]] = {"lineage": {}, "report": {}, "decision": {}}
    for version in (1, 2):
        files = head_files(AttentionHead(state.initial), {"kind": "by hand"})
        with state.lock, runtime.database.write() as connection:
            register(state, connection, files, version, facts)
        promote(runtime, state, version, "by hand")


@pytest.mark.parametrize(
    ("promoted", "back"), [([], [1, 0]), ([1], [2, 1, 0]), ([0, 2], [0, 2, 1, 0])], ids=["two", "back", "again"]
)
def test_each_rollback_takes_back_one_more_promotion(tmp_path: Path, promoted: list[int], back: list[int]) -> None:
    with opened(tmp_path / "data") as client:
        wood = create(client, "wood")
        runtime = runtime_of(client)
        state = runtime.collection(wood.name)
        promote_two(runtime, state)
        for version in promoted:
            promote(runtime, state, version, "by hand")
        assert [actions.roll_back(runtime, state)["version"] for _ in back] == back
        with pytest.raises(Problem, match="no other model"):
            actions.roll_back(runtime, state)
        promote(runtime, state, 2, "by hand")
        assert actions.roll_back(runtime, state)["version"] == 0


def test_two_rollbacks_at_once_are_two_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2)

    def read_slowly(connection: Connection, collection_id: int) -> int | None:
        found = champion_before(connection, collection_id)
        with suppress(threading.BrokenBarrierError):  # only one reads at a time
            both.wait(0.3)
        return found

    with opened(tmp_path / "data") as client:
        wood = create(client, "wood")
        runtime = runtime_of(client)
        state = runtime.collection(wood.name)
        promote_two(runtime, state)
        monkeypatch.setattr(actions.repository, "champion_before", read_slowly)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: actions.roll_back(runtime, state), range(2)))
        assert state.serving.version == 0
