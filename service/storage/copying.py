"""Copies the database while it is in use, by SQLite's online backup, and opens copies that nothing else uses."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, create_engine, text
from sqlalchemy.pool import NullPool

from service.storage.database import Database
from service.storage.moving import copy_rows
from service.storage.sqlite_database import SqliteDatabase
from service.storage.unreadable_rows import name_unreadable, stored_json

PAGES_PER_STEP = 1024
"""Pages copied between two pauses: 4 MiB."""
PAUSE_SECONDS = 0.002
"""Pause after each step, so that the copy leaves time of the disk to the service."""


def pause() -> None:
    """Wait between two steps."""
    time.sleep(PAUSE_SECONDS)


def copy_database(database: Database, target: Path, advanced: Callable[[int, int], None]) -> None:
    """Copy the database to a new file that only this user can read. Writers continue meanwhile.

    A read transaction spans the copy: the copy has the state at the start, and no write makes it start again.
    advanced: called with the copied pages and all pages after each step. An error that it raises ends the copy.
    """
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    if not isinstance(database, SqliteDatabase):
        _copy_all_rows(database, target, advanced)
        return

    def progress(_status: int, remaining: int, total: int) -> None:
        advanced(total - remaining, total)
        pause()

    with database.read() as connection, closing(sqlite3.connect(target)) as copy:
        connection.execute(text("SELECT count(*) FROM alembic_version"))  # begins the snapshot
        source: Any = connection.connection.driver_connection
        copy.execute("PRAGMA synchronous=OFF")  # the caller syncs the file that it makes of the copy
        source.backup(copy, pages=PAGES_PER_STEP, progress=progress)


def _copy_all_rows(database: Database, target: Path, advanced: Callable[[int, int], None]) -> None:
    """Copy the rows of another engine to a SQLite file. `advanced` is called with numbers of rows."""
    copy = SqliteDatabase(target)
    try:
        copy.migrate()
        done = 0

        def progress(count: int) -> None:
            nonlocal done
            done += count
            advanced(done, done)

        with database.read() as source, copy.write() as rows:
            copy_rows(source, rows, progress)
    finally:
        copy.close()


@contextmanager
def opened_copy(path: Path) -> Iterator[Connection]:
    """Open a copy that no process writes to, read-only, without a write-ahead log or a lock beside it."""
    name = f"file:{quote(str(path))}?immutable=1"
    engine = create_engine(
        "sqlite://",
        creator=lambda: sqlite3.connect(name, uri=True, check_same_thread=False),
        poolclass=NullPool,
        json_deserializer=stored_json,
    )
    name_unreadable(engine)
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()
