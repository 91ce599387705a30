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
from service.models import actions
from service.runtime.model_registry import promote, register
from service.runtime.model_repository import champion_version
from tests.service.client import create, opened, runtime_of


def test_two_rollbacks_at_once_are_two_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2)

    def read_slowly(connection: Connection, collection_id: int) -> int:
        found = champion_version(connection, collection_id)
        with suppress(threading.BrokenBarrierError):  # only one reads at a time
            both.wait(0.3)
        return found

    facts: dict[str, dict[str, Any]] = {"lineage": {}, "report": {}, "decision": {}}
    with opened(tmp_path / "data") as client:
        wood = create(client, "wood")
        runtime = runtime_of(client)
        state = runtime.collection(wood.name)
        for version in (1, 2):
            files = head_files(AttentionHead(state.initial), {"kind": "by hand"})
            with state.lock, runtime.database.write() as connection:
                register(state, connection, files, version, facts)
            promote(runtime, state, version, "by hand")
        monkeypatch.setattr(actions, "champion_version", read_slowly)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: actions.roll_back(runtime, state), range(2)))
        assert state.serving.version == 0
