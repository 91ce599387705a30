"""The connection to PostgreSQL breaks after the server has committed, and before the reply to COMMIT arrives."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from fastapi.testclient import TestClient

from benchmarks.postgres import PostgresServer
from service.cli.operating import StopSignal
from service.storage import postgres_database
from service.storage.database import MemoryOutdated
from tests.service.authorised import Keys, bearer
from tests.service.client import CollectionClient, good, opened, problem, runtime_of

ELM = {"text": "a young elm"}


class Line:
    """The connections of this process to the server."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.breaks_at: str | None = None
        """`reply`: the next COMMIT is done, and its reply is lost. `commit`: it does not reach the server."""
        self.is_down = False
        self.stays_down = False
        connect, commit = postgres_database.connected, psycopg.Connection.commit
        line = self

        class Broken(psycopg.Connection[Any]):
            def commit(self) -> None:
                moment, line.breaks_at = line.breaks_at, None
                if moment != "commit":
                    commit(self)
                if moment is not None:
                    line.is_down = line.stays_down
                    self.close()
                    raise psycopg.OperationalError("the connection is lost")

        def connected(*arguments: Any, **options: Any) -> psycopg.Connection[Any]:
            if line.is_down:
                raise psycopg.OperationalError("no route")
            found = connect(*arguments, **options)
            found.__class__ = Broken
            return found

        monkeypatch.setattr(postgres_database, "connected", connected)


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    monkeypatch.setattr(postgres_database, "SETTLE_SECONDS", 0.1)
    return Line(monkeypatch)


@pytest.fixture
def address(postgres_server: PostgresServer, request: pytest.FixtureRequest) -> str:
    return postgres_server.database(re.sub(r"\W+", "_", request.node.name)[-50:])


@pytest.fixture
def client(address: str, line: Line, tmp_path: Path) -> Iterator[TestClient]:
    with opened(tmp_path / "data", database=address) as client:
        CollectionClient(client).add({"id": "oak", "text": "an old oak"})
        yield client


def test_a_write_whose_reply_is_lost_is_answered_and_used(client: TestClient, line: Line) -> None:
    shop = CollectionClient(client)
    line.breaks_at = "reply"
    assert client.put("/v1/aliases/tree", json={"collection": "default"}).status_code == 201
    assert CollectionClient(client, "tree").ids("old oak") == ["oak"]
    line.breaks_at = "reply"
    assert client.put("/v1/collections/wood", json={}).status_code == 201
    line.breaks_at = "reply"
    good(client.post("/v1/collections/swap", json={"a": "wood", "b": "default"}))
    assert CollectionClient(client, "wood").ids("old oak") == ["oak"]
    line.breaks_at = "reply"
    assert client.delete("/v1/collections/wood/documents/oak").status_code == 204
    assert CollectionClient(client, "wood").ids("old oak") == []
    assert line.breaks_at is None
    assert shop.ids("old oak") == []


def test_a_deleted_key_whose_reply_is_lost_searches_no_more(client: TestClient, line: Line) -> None:
    keys = Keys.first(client)
    made = keys.make("search")
    line.breaks_at = "reply"
    assert keys.act("DELETE", f"/v1/keys/{made['id']}").status_code == 204
    search = "/v1/collections/default/search"
    assert client.post(search, json={"q": "a"}, headers=bearer(made["key"])).status_code == 401


def test_a_commit_that_did_not_reach_the_server_is_refused_and_writes_go_on(client: TestClient, line: Line) -> None:
    line.breaks_at = "commit"
    problem(client.put("/v1/aliases/tree", json={"collection": "default"}), 503, "database_unreachable")
    assert client.get("/v1/aliases/tree").status_code == 404
    assert client.put("/v1/aliases/tree", json={"collection": "default"}).status_code == 201


def test_after_an_outage_a_write_that_is_not_stored_lets_writes_go_on(client: TestClient, line: Line) -> None:
    line.breaks_at, line.stays_down = "commit", True
    for _ in range(2):
        problem(client.put("/v1/aliases/tree", json={"collection": "default"}), 503, "database_unreachable")
    line.is_down = False
    assert client.put("/v1/aliases/tree", json={"collection": "default"}).status_code == 201


def test_after_an_outage_a_write_that_is_stored_needs_a_new_start(address: str, line: Line, tmp_path: Path) -> None:
    path = "/v1/collections/default/documents"
    with opened(tmp_path / "data", database=address) as client:
        CollectionClient(client).add({"id": "oak", "text": "an old oak"})
        told: list[str] = []
        runtime_of(client).database.when_outdated = lambda: told.append("outdated")
        line.stays_down = True
        line.breaks_at = "reply"
        problem(client.delete(f"{path}/oak"), 503, "database_unreachable")
        line.is_down = False
        with pytest.raises(MemoryOutdated):  # housekeeping asks, too
            runtime_of(client).database.settle()
        problem(client.put(f"{path}/elm", json=ELM), 503, "restart_needed")
        assert told == ["outdated"]
    with opened(tmp_path / "data", database=address) as client:
        assert CollectionClient(client).ids("old oak") == []
        assert client.put(f"{path}/elm", json=ELM).status_code == 201
        assert CollectionClient(client).ids("old elm") == ["elm"]


def test_a_service_with_an_outdated_memory_ends_for_a_new_start(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    monkeypatch.setattr("os.kill", lambda _, number: sent.append(number))
    monkeypatch.setattr("signal.signal", lambda *_: None)
    stop = StopSignal()
    stop.stop_outdated()
    assert stop.is_outdated
    assert len(sent) == 1
