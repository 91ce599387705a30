"""Each thread reads stored fields by a connection of its own, which keeps no snapshot and no file open for longer."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import event

from service.storage.sqlite_database import SqliteDatabase
from service.storage.thread_connections import ThreadConnections

REVISION = "SELECT version_num FROM alembic_version"
THREE_ROWS = "SELECT version_num FROM alembic_version, (SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3)"
FAILS_AT_THE_SECOND_ROW = (
    "SELECT abs(CASE number WHEN 1 THEN 1 ELSE -9223372036854775808 END)"
    " FROM alembic_version, (SELECT 1 AS number UNION ALL SELECT 2)"
)


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqliteDatabase:
    """Return a database whose connections do not wait for a lock."""
    monkeypatch.setattr("service.storage.sqlite_database.BUSY_SECONDS", 0)
    database = SqliteDatabase(tmp_path / "rows.db")
    database.migrate()
    return database


@contextmanager
def living_threads(count: int, work: Callable[[], object]) -> Iterator[None]:
    """Run work in each of several threads, which live until the context ends."""
    ended, done = threading.Event(), threading.Barrier(count + 1)

    def run() -> None:
        work()
        done.wait(timeout=30)
        ended.wait(timeout=30)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    done.wait(timeout=30)
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


class Counted:
    """Opens connections to a database file, and keeps them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.opened: list[sqlite3.Connection] = []

    def connect(self) -> sqlite3.Connection:
        self.opened.append(sqlite3.connect(self._path, check_same_thread=False))
        return self.opened[-1]


def is_closed(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("SELECT 1")
    except sqlite3.ProgrammingError:
        return True
    return False


def test_a_thread_opens_one_connection_for_all_its_statements(tmp_path: Path) -> None:
    counted = Counted(tmp_path / "any.db")
    connections = ThreadConnections(counted.connect)

    def fetch_twice() -> None:
        assert [connections.fetch("SELECT ?", [number]) for number in (1, 2)] == [[(1,)], [(2,)]]

    fetch_twice()
    with living_threads(2, fetch_twice):
        assert len(counted.opened) == 3
    connections.close()


def test_stored_fields_are_read_without_the_pool(database: SqliteDatabase) -> None:
    taken: list[object] = []
    event.listen(database._readers, "checkout", lambda *given: taken.append(given))
    assert len(database.fetch(REVISION, [])) == 1
    assert taken == []
    with database.read():
        assert len(taken) == 1
    database.close()


def test_the_connection_of_an_ended_thread_is_closed(tmp_path: Path) -> None:
    counted = Counted(tmp_path / "any.db")
    connections = ThreadConnections(counted.connect)
    with living_threads(2, lambda: connections.fetch("SELECT 1", [])):
        assert [is_closed(one) for one in counted.opened] == [False, False]
    assert [is_closed(one) for one in counted.opened] == [True, True]
    connections.close()


def test_a_scrub_is_not_kept_by_threads_that_read(database: SqliteDatabase) -> None:
    with living_threads(2, lambda: database.fetch(THREE_ROWS, [])):
        database.scrub()
    database.close()


def test_a_scrub_is_not_kept_by_a_statement_that_failed_after_its_first_row(database: SqliteDatabase) -> None:
    def fail() -> None:
        with pytest.raises(sqlite3.OperationalError, match="integer overflow"):
            database.fetch(FAILS_AT_THE_SECOND_ROW, [])

    with living_threads(2, fail):
        database.scrub()
    database.close()


def test_a_thread_sees_what_was_committed_and_changed_since_its_last_statement(database: SqliteDatabase) -> None:
    assert database.fetch("SELECT count(*) FROM rules", []) == [(0,)]
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE later (number INTEGER)")
        connection.exec_driver_sql("INSERT INTO later VALUES (7)")
        assert database.fetch("SELECT name FROM sqlite_master WHERE name = 'later'", []) == []
    database.scrub()
    assert database.fetch("SELECT number FROM later", []) == [(7,)]
    database.close()


def test_closing_closes_the_connections_of_living_threads(database: SqliteDatabase) -> None:
    """SQLite deletes the write-ahead log as its last connection is closed."""
    with living_threads(2, lambda: database.fetch(REVISION, [])):
        assert len(list(database.path.parent.iterdir())) == 3
        database.close()
        assert list(database.path.parent.iterdir()) == [database.path]


def test_a_statement_after_the_end_opens_a_connection_again(tmp_path: Path) -> None:
    connections = ThreadConnections(Counted(tmp_path / "any.db").connect)
    assert connections.fetch("SELECT 1", []) == [(1,)]
    connections.close()
    assert connections.fetch("SELECT 2", []) == [(2,)]
    connections.close()
