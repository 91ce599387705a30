"""SQLite: a single writing connection, and read-only connections.

SQLite up to 3.51.2 can lose a commit when two connections write or checkpoint at the same time. So a single connection
writes and checkpoints, behind a lock, in the process that owns the data directory.
"""

import errno
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import QueuePool, StaticPool

from index.errors import SearchError
from index.storage.full_disk import NotSynced, lacks_space
from service.storage.checksums import as_json
from service.storage.database import Database, DatabaseRead, DatabaseReader, UnsuitableDatabase, migrate
from service.storage.pending_acts import storing_act
from service.storage.reservations import storing_reservation
from service.storage.thread_connections import ThreadConnections
from service.storage.unreadable_rows import name_unreadable, stored_json

BUSY_SECONDS = 30
LOG_BYTES = 64 << 20
"""Size of the write-ahead log from which on it is begun anew (`SqliteDatabase.write`)."""
LOG_SECONDS = 0.1
"""Longest wait of a write for readers of the log."""
LOG_RETRY_SECONDS = 10.0
"""Time after such a wait without success until the next one."""
READERS = 16
URI = "file:"
"""The beginning of an address that says how a file is opened."""
FAILED_SYNC = {1034, 1290}
"""SQLITE_IOERR_FSYNC, SQLITE_IOERR_DIR_FSYNC: SQLite does not tell why a sync failed."""
SAFE_SQLITE = ((3, 44, 6), (3, 50, 7), (3, 51, 3))
"""The first version of each branch of SQLite in which two processes may checkpoint."""


class UnsafeSqlite(SearchError):
    """The version of SQLite can lose a commit if another process checkpoints."""


class SqliteReader(DatabaseReader):
    """Read-only connections to a SQLite file. `read` reads a snapshot.

    Made by itself, it reads the file of another process, whose connections must be open, and never checkpoints.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._readers = _engine(self._address, writer=False, checkpoints=False)
        self._of_threads = ThreadConnections(lambda: _reading_connection(self._address))

    @property
    def _address(self) -> str:
        return f"{URI}{quote(str(self.path))}?mode=ro"

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a read-only connection on a single snapshot."""
        with self._readers.connect() as connection:
            yield connection

    def fetch(self, statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT without SQLAlchemy, for searches. The statement reads its own snapshot.

        Each thread has a connection of its own. A connection of the pool takes as long as reading these rows, and a
        statement of SQLAlchemy several times as long.
        """
        return self._of_threads.fetch(statement, parameters)

    def close(self) -> None:
        """Close every connection."""
        self._of_threads.close()
        self._readers.dispose()


class SqliteDatabase(SqliteReader, Database):
    """Connections to a SQLite file. `write` runs one transaction at a time; `read` reads a snapshot.

    checkpoints: whether this process checkpoints. False leaves checkpoints to a replicating process, and raises
    UnsafeSqlite for a version of SQLite in which that loses commits. is_whole: whether rows may refer only to rows that
    exist; a copy of a part of the documents also has rows that refer to others.
    """

    def __init__(self, path: Path, checkpoints: bool = True, is_whole: bool = True) -> None:
        if not checkpoints and not may_share_checkpoints(sqlite3.sqlite_version_info):
            raise UnsafeSqlite(
                f"SQLite {sqlite3.sqlite_version} can lose a commit if another process checkpoints:"
                " external_checkpoints needs SQLite 3.51.3, or 3.50.7 or 3.44.6 of the older branches"
            )
        self._checkpoints = checkpoints
        self._write_lock = threading.RLock()
        self._next_log = 0.0
        super().__init__(path)
        self._writer = _engine(self._address, writer=True, checkpoints=checkpoints, is_whole=is_whole)

    @property
    def _address(self) -> str:
        return str(self.path)

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Give the writing connection inside BEGIN IMMEDIATE. The commit is durable when the context ends."""
        with _naming_full_disk(self.path.parent), self._write_lock:
            with (
                storing_reservation() as store_reservation,
                storing_act() as store_act,
                self._writer.begin() as connection,
            ):
                yield connection
                store_reservation(connection)
                store_act(connection)
            self._begin_log_anew()

    def _begin_log_anew(self) -> None:
        """Begin the write-ahead log anew if it is larger than LOG_BYTES. The caller holds the lock.

        By itself SQLite does so at a commit that no reader of the log sees. Where searches overlap all the time, there
        is no such commit, and the log grows with every write. This checkpoint waits for the readers of now, LOG_SECONDS
        at most; later readers read the database file and wait for nothing. An error leaves the log as it is.
        """
        if not self._checkpoints or time.monotonic() < self._next_log:
            return
        with suppress(OSError, sqlite3.Error):  # the commit is done
            if self.path.with_name(f"{self.path.name}-wal").stat().st_size <= LOG_BYTES:
                return
            self._next_log = time.monotonic() + LOG_RETRY_SECONDS
            self._outside_transactions(f"PRAGMA busy_timeout={int(1000 * LOG_SECONDS)}")
            try:
                busy, _, _ = self._outside_transactions("PRAGMA wal_checkpoint(RESTART)")
            finally:
                self._outside_transactions(f"PRAGMA busy_timeout={1000 * BUSY_SECONDS}")
            if not busy:
                self._next_log = 0.0

    def migrate(self) -> None:
        """Make the newest schema in a new database, or upgrade the schema.

        The caller holds the owner lock. Raises UnknownSchema and UnsuitableDatabase.
        """
        self._require_rights()
        with self._write_lock, self._writer.connect() as connection:
            migrate(connection, self.path.parent)
            connection.commit()

    def _require_rights(self) -> None:
        """Raise UnsuitableDatabase if this user may not write to a file: SQLite then reads, and fails at a write."""
        files = (self.path.with_name(self.path.name + end) for end in ("", "-wal", "-shm"))
        for path in files:
            if path.exists() and not os.access(path, os.R_OK | os.W_OK):
                raise UnsuitableDatabase(f"{path} cannot be read and written by the user of this process")

    def scrub(self) -> None:
        """Rewrite the database file and empty the write-ahead log: no file holds deleted rows on return.

        Writers wait meanwhile. It needs as much free space as the database has, in the data directory and in the folder
        of SQLite's temporary files. Raises DatabaseRead if a reader keeps its snapshot for BUSY_SECONDS.
        """
        with self._write_lock:
            self._outside_transactions("VACUUM")  # pages may still hold copies of rows that moved before their deletion
            busy, _, _ = self._outside_transactions("PRAGMA wal_checkpoint(TRUNCATE)")
        if busy:
            raise DatabaseRead("a reader of the database kept the write-ahead log from being emptied")

    def close(self) -> None:
        """Checkpoint the write-ahead log, unless another process does, and close every connection."""
        super().close()
        with self._write_lock:
            if self._checkpoints:
                with suppress(sqlite3.OperationalError):  # on a full disk the log stays, and the next start reads it
                    self._outside_transactions("PRAGMA wal_checkpoint(TRUNCATE)")
        self._writer.dispose()

    def _outside_transactions(self, statement: str) -> tuple[Any, ...]:
        """Run a statement that cannot run inside a transaction; return its first row. The caller holds the lock."""
        raw = self._writer.raw_connection()
        try:
            cursor = raw.cursor()
            cursor.execute(statement)
            row: tuple[Any, ...] = cursor.fetchone() or ()
            cursor.close()
            return row
        finally:
            raw.close()


@contextmanager
def _naming_full_disk(folder: Path) -> Iterator[None]:
    """Raise NotSynced with ENOSPC in place of the error of a sync that failed while the disk lacks space."""
    try:
        yield
    except OperationalError as error:
        if getattr(error.orig, "sqlite_errorcode", None) in FAILED_SYNC and lacks_space(folder):
            raise NotSynced(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        raise


def may_share_checkpoints(version: tuple[int, ...]) -> bool:
    """Return whether a version of SQLite loses no commit when two processes checkpoint."""
    return version >= SAFE_SQLITE[-1] or any(version[:2] == safe[:2] and version >= safe for safe in SAFE_SQLITE)


def _engine(address: str, writer: bool, checkpoints: bool, is_whole: bool = True) -> Engine:
    pool = {"poolclass": StaticPool} if writer else {"poolclass": QueuePool, "pool_size": READERS}
    engine = create_engine(
        f"sqlite:///{address}&uri=true" if address.startswith(URI) else f"sqlite:///{address}",
        json_serializer=as_json,
        json_deserializer=stored_json,
        hide_parameters=True,  # errors in the log name no client and no query
        connect_args=_connect_arguments(),
        **pool,
    )
    name_unreadable(engine)

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _record: Any) -> None:
        _configure(connection, writer, checkpoints, is_whole)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writer else "BEGIN")

    return engine


def _reading_connection(address: str) -> sqlite3.Connection:
    connection: sqlite3.Connection = sqlite3.connect(address, uri=address.startswith(URI), **_connect_arguments())
    _configure(connection, writer=False, checkpoints=False)
    return connection


def _connect_arguments() -> dict[str, Any]:
    return {"timeout": BUSY_SECONDS, "check_same_thread": False, "isolation_level": None}


def _configure(connection: sqlite3.Connection, writer: bool, checkpoints: bool, is_whole: bool = True) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute(f"PRAGMA foreign_keys={1 if is_whole else 0}")
    cursor.execute("PRAGMA secure_delete=ON")  # deleted content becomes zeros; some systems have it off
    cursor.execute(f"PRAGMA query_only={0 if writer else 1}")
    cursor.execute(f"PRAGMA wal_autocheckpoint={1000 if checkpoints else 0}")
    cursor.execute(f"PRAGMA journal_size_limit={LOG_BYTES}")  # after a long reader the file of the log gets smaller
    cursor.close()
