"""The service on PostgreSQL: what it does on SQLite, with the same rankings."""

import json
import os
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest
from fastapi.testclient import TestClient
from psycopg.errors import DiskFull

from benchmarks.postgres import PostgresServer, running_server
from service.http.problems import problem_of
from service.operations.health import diagnose
from service.runtime.first_start import OtherDatabase
from service.runtime.runtime import Runtime
from service.settings import Settings
from service.snapshots.moving import NotMovable, move_database
from service.snapshots.restoring import restore, verify
from service.snapshots.state import state_hash
from service.storage import database_probe, postgres_database
from service.storage.base import METADATA
from service.storage.database import Database, DatabaseOwned, DatabaseUnreachable, UnsuitableDatabase
from service.storage.opening import open_database
from service.storage.postgres_database import _name_error
from tests.service.client import CollectionClient, good, opened, problem, runtime_of
from tests.service.test_checksums import add_administration, add_other_rows, add_pending, damaged, filled
from tests.service.test_cli import Run, run

__all__ = ["run"]

QUERIES = ("old oak", "young", "Old tree", "nothing of it")
END_OF_SESSIONS = (
    "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid != pg_backend_pid()"
)
"""It waits, at most a minute for each, until the sessions have ended: they hold the lock of the writer until then."""
OWNER = (
    "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid != pg_backend_pid()"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
HOSTILE = {"id": "nul \0 \ufdd0", "text": "a nut\0 hidden \ufdd0", "metadata": {"n": 7, "k": "v\0\ufdd01"}}


@pytest.fixture
def address(postgres_server: PostgresServer, request: pytest.FixtureRequest) -> str:
    return postgres_server.database(request.node.name[:50])


def content(client: TestClient) -> CollectionClient:
    """Fill a collection with documents, feedback, a rule, a training run and texts that PostgreSQL refuses."""
    wood = filled(client)
    add_other_rows(wood)
    wood.add(HOSTILE)
    good(client.put("/v1/aliases/forest", json={"collection": wood.name}))
    return wood


def answers(client: TestClient) -> list[Any]:
    """Return hits with explanations, filters among them."""
    wood = CollectionClient(client, "wood")
    requests = [{"q": query, "filter": filter} for query in QUERIES for filter in (None, "n >= 1", "NOT n EXISTS")]
    found = [
        wood.search(**{name: value for name, value in one.items() if value}, explain=True, log=False)
        for one in requests
    ]
    return [
        [(hit["id"], hit["logit"], hit["text"], hit["metadata"], hit["explain"]["parts"]) for hit in one["hits"]]
        for one in found
    ]


def state_of(database: Database) -> str:
    with database.read() as connection:
        assert damaged(connection) == []
        return state_hash(connection).sha256


def test_rankings_are_those_of_sqlite(address: str, tmp_path: Path) -> None:
    found = []
    for name, database in (("sqlite", None), ("postgres", address)):
        with opened(tmp_path / name, database=database) as client:
            content(client)
            found.append(answers(client))
            assert [check for check in diagnose(runtime_of(client)) if not check["ok"]] == []
    assert found[0] == found[1]
    assert not (tmp_path / "postgres" / "softseek.db").exists()


def test_statistics_have_nothing_of_an_erased_client(address: str, tmp_path: Path) -> None:
    with opened(tmp_path / "data", database=address) as client:
        wood = content(client)
        for client_id in ("erased client", "erased client", "ada", "bob"):
            found = wood.search(f"old oak of {client_id}", client_id=client_id)
            wood.act(found["hits"][0]["id"], query_id=found["query_id"], client_id=client_id)
        runtime_of(client).impressions.flush()
        with closing(psycopg.connect(address.replace("+psycopg", ""), autocommit=True)) as connection:
            values = "SELECT coalesce(most_common_vals::text, '') || coalesce(histogram_bounds::text, '') FROM pg_stats"
            connection.execute("ANALYZE")
            assert any("erased client" in row[0] for row in connection.execute(values))
            wood.ended_task(good(client.post("/v1/erasures", json={"client": "erased client"})))
            assert not any("erased client" in row[0] for row in connection.execute(values))


def test_a_restart_serves_the_same(address: str, tmp_path: Path) -> None:
    with opened(tmp_path / "data", database=address) as client:
        content(client)
        before = answers(client)
    for data in (tmp_path / "data", tmp_path / "other"):  # with its indexes, and without them
        with opened(data, database=address) as client:
            assert answers(client) == before


@pytest.mark.usefixtures("forked_training")
def test_a_model_is_trained_promoted_and_taken_back(address: str, tmp_path: Path) -> None:
    with opened(tmp_path / "data", database=address) as client:
        wood = CollectionClient(client)
        wood.add(*({"id": f"tree-{n}", "text": f"tree number {n}"} for n in range(40)))
        for n in range(40):
            wood.judge(f"which tree has number {n}", f"tree-{n}", 3)
        run = wood.train(budget_seconds=1, promote="never")
        assert (run["status"], run["model_version"]) == ("succeeded", 1), run["error"]
        promoted = client.put(f"{wood.path}/models/aliases/champion", json={"version": 1, "force": True})
        good(promoted)
        assert wood.search("number 7")["model"]["version"] == 1
        good(client.post(f"{wood.path}/models/aliases/champion/rollback"))
        assert wood.search("number 7")["model"]["version"] == 0


@pytest.mark.sqlite
def test_content_moves_there_and_back(address: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with opened(data) as client:
        content(client)
        before = answers(client)
    first = move_database(data, None, address)
    assert not (data / "softseek.db").exists()
    with opened(data, database=address) as client:
        assert answers(client) == before
    second = move_database(data, address, None)
    assert first["state"] == second["state"]
    with opened(data) as client:
        assert answers(client) == before
        added = CollectionClient(client, "wood")
        added.add({"id": "new", "text": "a new tree"})  # numbers go on: none is given twice
        assert added.ids("a new tree")[0] == "new"


@pytest.mark.sqlite
def test_the_command_moves_and_says_what_to_do_next(
    address: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOFTSEEK_ENCODER", "hashing")
    data = tmp_path / "data"
    with opened(data) as client:
        CollectionClient(client).add({"id": "lamp", "text": "a copper lamp"})
    assert "--to must begin with" in run("move", "--to", "mysql://db", "--data", data).err
    assert "the content is in SQLite already" in run("move", "--to", "sqlite", "--data", data).err
    moved = run("move", "--to", address, "--data", data)
    assert moved.code == 0
    assert "set SOFTSEEK_DATABASE to the address before the next start" in moved.out
    assert "softseek.db.moved-" in moved.out
    assert "delete it once the new database is verified and backed up" in moved.out
    monkeypatch.setenv("SOFTSEEK_DATABASE", address)
    back = run("move", "--to", "sqlite", "--data", data, "--json")
    assert (back.code, json.loads(back.out)["aside"]) == (0, None)
    again = run("move", "--to", "sqlite", "--data", data, "--json")
    assert json.loads(again.out) == json.loads(back.out)
    monkeypatch.delenv("SOFTSEEK_DATABASE")
    with opened(data) as client:
        assert CollectionClient(client).ids("copper lamp") == ["lamp"]


@pytest.mark.parametrize("step", ["note_database", "_set_aside"])
def test_a_killed_move_goes_on(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    data = tmp_path / "data"
    with opened(data) as client:
        content(client)
        before = answers(client)
    with monkeypatch.context() as patch:
        patch.setattr(f"service.snapshots.moving.{step}", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            move_database(data, None, address)
    moved = move_database(data, None, address)
    assert moved["rows"] > 0
    assert not (data / "softseek.db").exists()
    with opened(data, database=address) as client:
        assert answers(client) == before


def test_a_copy_without_the_keys_of_today_is_refused(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    with opened(data) as client:
        content(client)
    with monkeypatch.context() as patch:
        patch.setattr("service.snapshots.moving.note_database", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            move_database(data, None, address)
    with opened(data) as client:
        assert client.post("/v1/keys", json={"name": "admin", "scopes": ["admin"]}).status_code == 201
    with pytest.raises(NotMovable, match="has content"):
        move_database(data, None, address)
    assert (data / "softseek.db").exists()


def test_content_moves_into_an_empty_database_only(address: str, tmp_path: Path) -> None:
    with opened(tmp_path / "other", database=address):
        pass
    with opened(tmp_path / "data"):
        pass
    with pytest.raises(NotMovable, match="has content"):
        move_database(tmp_path / "data", None, address)
    assert (tmp_path / "data" / "softseek.db").exists()


def test_a_snapshot_is_a_sqlite_file(address: str, tmp_path: Path) -> None:
    with opened(tmp_path / "data", database=address) as client:
        content(client)
        before = answers(client)
        task = good(client.post("/v1/snapshots"))
        made = CollectionClient(client).ended_task(task)["result"]
        expected = state_of(runtime_of(client).database)
    file = tmp_path / "data" / made["file"]
    assert verify(file)["state"] == restore(file, tmp_path / "restored")["state"] == expected
    with opened(tmp_path / "restored") as client:
        assert answers(client) == before


def test_one_service_writes_to_a_database(address: str, tmp_path: Path) -> None:
    with opened(tmp_path / "one", database=address), pytest.raises(DatabaseOwned):
        Runtime.open(Settings(encoder="hashing", data=tmp_path / "two", database=address))  # type: ignore[arg-type]
    with opened(tmp_path / "two", database=address) as client:
        assert client.get("/livez").status_code == 200


def test_a_service_starts_at_once_after_the_end_of_another_on_a_busy_server(address: str, tmp_path: Path) -> None:
    """The server may end the session of a service long after the service has ended."""
    with opened(tmp_path / "one", database=address):
        with psycopg.connect(address.replace("+psycopg", ""), autocommit=True) as connection:
            ((session,),) = connection.execute(OWNER).fetchall()
        os.kill(session, signal.SIGSTOP)
        threading.Timer(1.0, os.kill, (session, signal.SIGCONT)).start()
    with opened(tmp_path / "one", database=address) as client:
        assert client.get("/livez").status_code == 200


def test_a_service_ends_although_the_server_does_not_answer(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_database, "DISOWN_SECONDS", 0.1)
    with opened(tmp_path / "one", database=address), psycopg.connect(address.replace("+psycopg", "")) as connection:
        ((session,),) = connection.execute(OWNER).fetchall()
        os.kill(session, signal.SIGSTOP)
    try:
        assert Path(f"/proc/{session}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    finally:
        os.kill(session, signal.SIGCONT)


def test_a_service_that_was_replaced_writes_no_more(address: str, tmp_path: Path) -> None:
    """Its memory is out of date, also when the service that replaced it has ended."""
    with opened(tmp_path / "one", database=address) as client:
        shop = CollectionClient(client)
        shop.add({"id": "lamp", "text": "a copper lamp"})
        with psycopg.connect(address.replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute(END_OF_SESSIONS)
            with opened(tmp_path / "two", database=address) as other:
                CollectionClient(other).add({"id": "bowl", "text": "a bowl"})
                body = {"text": "a pot"}
                problem(client.put(f"{shop.path}/documents/pot", json=body), 503, "database_owned")
            problem(client.put(f"{shop.path}/documents/pot", json=body), 503, "database_owned")
        assert shop.ids("copper lamp") == ["lamp"]


@pytest.mark.sqlite
def test_a_directory_with_contents_of_another_database_is_refused(
    postgres_server: PostgresServer, address: str, tmp_path: Path
) -> None:
    with opened(tmp_path / "one", database=address):
        pass
    other = postgres_server.database("other")
    with pytest.raises(OtherDatabase, match="another database"), opened(tmp_path / "one", database=other):
        pass
    with opened(tmp_path / "one", database=address):
        pass
    with opened(tmp_path / "sqlite"):
        pass
    with pytest.raises(OtherDatabase, match="softseek move"), opened(tmp_path / "sqlite", database=other):
        pass
    with pytest.raises(OtherDatabase, match="must have its address"), opened(tmp_path / "one"):
        pass


def test_a_database_that_cannot_store_every_text_is_refused(postgres_server: PostgresServer, tmp_path: Path) -> None:
    with psycopg.connect(f"postgresql://{postgres_server.address}/postgres", autocommit=True) as connection:
        connection.execute("CREATE DATABASE latin ENCODING latin1 TEMPLATE template0")
    with (
        pytest.raises(UnsuitableDatabase, match="LATIN1"),
        opened(tmp_path, database=f"postgresql+psycopg://{postgres_server.address}/latin"),
    ):
        pass


@pytest.mark.parametrize(("error", "found"), [(DiskFull(), OSError), (psycopg.OperationalError(), DatabaseUnreachable)])
def test_a_full_disk_of_the_server_is_told_from_a_lost_server(error: Exception, found: type[Exception]) -> None:
    with pytest.raises(found) as raised:
        _name_error(SimpleNamespace(original_exception=error, is_pre_ping=False))  # type: ignore[arg-type]
    assert problem_of(raised.value).status == (507 if found is OSError else 503)


def test_a_server_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnreachable):
        open_database(tmp_path, "postgresql+psycopg://softseek@127.0.0.1:1/none")


@contextmanager
def stopped(server: PostgresServer) -> Iterator[None]:
    server.kill()
    try:
        yield
    finally:
        server.start()


def test_acknowledged_documents_survive_the_end_of_the_server_and_writes_go_on(tmp_path: Path) -> None:
    with running_server() as server, opened(tmp_path / "data", database=server.database("shop")) as client:
        shop = CollectionClient(client)
        shop.add({"id": "lamp", "text": "a copper lamp"})
        with stopped(server):
            problem(client.put(f"{shop.path}/documents/bowl", json={"text": "a bowl"}), 503, "database_unreachable")
        good(client.put(f"{shop.path}/documents/bowl", json={"text": "a blue bowl"}))
        assert shop.ids("copper lamp")[0] == "lamp"
        assert shop.ids("blue bowl")[0] == "bowl"


def test_a_service_without_its_database_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_probe, "FRESH_SECONDS", 0)
    with running_server() as server, opened(tmp_path / "data", database=server.database("shop")) as client:
        shop = CollectionClient(client)
        shop.add({"id": "lamp", "text": "a copper lamp"})
        assert good(client.get("/readyz")) == {"status": "ready", "degraded": {}}
        with stopped(server):
            search = client.post(f"{shop.path}/search", json={"q": "copper"})
            for answer in (search, client.get("/readyz"), client.get("/readyz")):
                problem(answer, 503, "database_unreachable")
            assert client.get("/livez").status_code == 200
        assert client.get("/readyz").status_code == 200
        assert shop.ids("copper") == ["lamp"]


def test_every_table_moves_and_the_file_of_before_is_set_aside(address: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with opened(data) as client:
        wood = content(client)
        add_pending(wood)
        add_administration(wood)
    with closing(sqlite3.connect(data / "softseek.db")) as connection:
        before = rows_of(connection) | {"identity": []}  # the two databases go on separately
    moved = move_database(data, None, address)
    (aside,) = data.glob("softseek.db.moved-*")
    assert moved["aside"] == str(aside)
    move_database(data, address, None)
    with closing(sqlite3.connect(data / "softseek.db")) as connection:
        assert rows_of(connection) == before
    assert all(before[name] for name in METADATA.tables if name != "identity")


def rows_of(connection: sqlite3.Connection) -> dict[str, list[tuple[Any, ...]]]:
    """Return name -> rows of each table, sorted."""
    return {
        name: sorted(connection.execute(f'SELECT * FROM "{name}"'), key=repr)
        for name in (*METADATA.tables, "sqlite_sequence")
    }
