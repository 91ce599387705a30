"""The write-ahead log stays small also where readers overlap all the time, and a long reader holds up no writer."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from service.storage import sqlite_database
from service.storage.sqlite_database import SqliteDatabase

pytestmark = pytest.mark.sqlite
LIMIT, PAGES, WRITES = 1 << 20, 100_000, 60
"""The limit of the log, and the bytes that each of so many writes adds to it."""


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteDatabase]:
    monkeypatch.setattr(sqlite_database, "LOG_BYTES", LIMIT)
    monkeypatch.setattr(sqlite_database, "LOG_SECONDS", 20.0)
    database = SqliteDatabase(tmp_path / "rows.db")
    database.migrate()
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE later (body BLOB)")
    database.scrub()
    yield database
    database.close()


def write(database: SqliteDatabase) -> int:
    """Add a row; return the size of the log."""
    with database.write() as connection:
        connection.exec_driver_sql("INSERT INTO later VALUES (zeroblob(?))", (PAGES,))
    return database.path.with_name("rows.db-wal").stat().st_size


@contextmanager
def overlapping_readers(database: SqliteDatabase) -> Iterator[None]:
    """Keep four threads reading, each of a snapshot of some milliseconds."""
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            with database.read() as connection:
                connection.exec_driver_sql("SELECT count(*) FROM later").all()
                time.sleep(0.01)
                connection.exec_driver_sql("SELECT count(*) FROM later").all()

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def test_the_log_is_begun_anew_while_readers_overlap(database: SqliteDatabase) -> None:
    with overlapping_readers(database):
        sizes = [write(database) for _ in range(WRITES)]
    assert max(sizes) < LIMIT + 3 * PAGES
    with database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM later").scalar_one() == WRITES


def test_a_long_reader_keeps_its_state_and_holds_up_a_write_once(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_database, "LOG_SECONDS", 0.01)
    monkeypatch.setattr(sqlite_database, "LOG_RETRY_SECONDS", 1e9)
    waits: list[str] = []
    outside = SqliteDatabase._outside_transactions

    def counted(self: SqliteDatabase, statement: str) -> tuple[object, ...]:
        waits.extend([statement] * ("checkpoint" in statement))
        return outside(self, statement)

    monkeypatch.setattr(SqliteDatabase, "_outside_transactions", counted)
    with ExitStack() as stack:
        reader = stack.enter_context(database.read())
        assert reader.exec_driver_sql("SELECT count(*) FROM later").scalar_one() == 0
        sizes = [write(database) for _ in range(WRITES)]
        assert reader.exec_driver_sql("SELECT count(*) FROM later").scalar_one() == 0
    assert sizes[-1] > WRITES * PAGES
    assert waits == ["PRAGMA wal_checkpoint(RESTART)"], "the next try comes after LOG_RETRY_SECONDS"
    monkeypatch.setattr(database, "_next_log", 0.0)
    write(database)
    assert write(database) <= LIMIT + 3 * PAGES, "the file gets smaller as soon as the reader ends"


def test_an_error_of_the_log_does_not_undo_the_commit(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(statement: str) -> tuple[object, ...]:
        raise sqlite3.DatabaseError("database disk image is malformed")

    monkeypatch.setattr(sqlite_database, "LOG_BYTES", 1)
    monkeypatch.setattr(database, "_outside_transactions", fail)
    write(database)
    with database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM later").scalar_one() == 1
    monkeypatch.undo()


def test_a_replicating_process_begins_the_log_anew_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_database, "may_share_checkpoints", lambda version: True)
    monkeypatch.setattr(sqlite_database, "LOG_BYTES", 1)
    database = SqliteDatabase(tmp_path / "rows.db", checkpoints=False)
    monkeypatch.setattr(database, "_outside_transactions", lambda statement: pytest.fail(statement))
    database.migrate()
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE later (body BLOB)")
    monkeypatch.undo()
    database.close()
