"""A reader of the database of another process changes neither the database nor its write-ahead log."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from service.storage.sqlite_database import SqliteDatabase, SqliteReader

INSERT = "INSERT INTO later VALUES (8)"
ALL = "SELECT number FROM later"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    """Yield a database of which a row is in the write-ahead log alone."""
    database = SqliteDatabase(tmp_path / "rows.db")
    database.migrate()
    database.scrub()
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE later (number INTEGER)")
        connection.exec_driver_sql("INSERT INTO later VALUES (7)")
    yield database
    database.close()


def log_of(database: SqliteReader) -> Path:
    return database.path.with_name(database.path.name + "-wal")


def keep_log(database: SqliteDatabase) -> None:
    assert log_of(database).stat().st_size


def empty_log(database: SqliteDatabase) -> None:
    database.scrub()
    assert not log_of(database).stat().st_size


@pytest.mark.parametrize("prepare", [keep_log, empty_log])
def test_a_reader_cannot_write(database: SqliteDatabase, prepare: Callable[[SqliteDatabase], None]) -> None:
    prepare(database)
    reader = SqliteReader(database.path)
    with reader.read() as connection, pytest.raises(OperationalError, match="readonly"):
        connection.exec_driver_sql(INSERT)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.fetch(INSERT, [])
    reader.fetch("PRAGMA query_only=0", [])  # the file itself is opened for reading only
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.fetch(INSERT, [])
    assert reader.fetch(ALL, []) == [(7,)]
    reader.close()
    assert database.fetch(ALL, []) == [(7,)]


def test_the_connections_of_the_owner_that_read_cannot_write(database: SqliteDatabase) -> None:
    with database.read() as connection, pytest.raises(OperationalError, match="readonly"):
        connection.exec_driver_sql(INSERT)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        database.fetch(INSERT, [])


def test_a_reader_that_closes_last_leaves_the_write_ahead_log(database: SqliteDatabase, tmp_path: Path) -> None:
    left = tmp_path / "left"
    left.mkdir()
    for path in (database.path, log_of(database)):
        shutil.copy(path, left)
    reader = SqliteReader(left / database.path.name)
    before = [path.read_bytes() for path in (reader.path, log_of(reader))]
    assert reader.fetch(ALL, []) == [(7,)]
    with reader.read() as connection:
        assert connection.exec_driver_sql(ALL).all() == [(7,)]
    reader.fetch("PRAGMA query_only=0", [])
    with pytest.raises(sqlite3.OperationalError):
        reader.fetch("PRAGMA wal_checkpoint(TRUNCATE)", [])
    reader.close()
    assert [path.read_bytes() for path in (reader.path, log_of(reader))] == before
