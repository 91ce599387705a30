"""PostgreSQL: one transaction writes at a time, and searches read on a connection of their thread.

The process that writes holds an advisory lock of the session of its writing connection. So two services do not write
to one database, whatever their data directories are. The lock ends with the connection, so it only elects: every write
also requires that no other service has begun an epoch since.
"""

import errno
import os
import select
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import psycopg
import structlog
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Connection, Engine, ExceptionContext, create_engine, event, text
from sqlalchemy.pool import QueuePool, StaticPool

from service.storage.change_log import forget_old_changes, make_change_log
from service.storage.checksums import as_json
from service.storage.database import (
    Database,
    DatabaseOwned,
    DatabaseReader,
    DatabaseUnreachable,
    MemoryOutdated,
    UnsuitableDatabase,
    migrate,
)
from service.storage.identity_repository import begin_epoch
from service.storage.last_write import begin_write, is_last_write, make_last_write
from service.storage.pending_acts import storing_act
from service.storage.postgres_text import escaped, unescaped
from service.storage.reservations import storing_reservation
from service.storage.thread_connections import ThreadConnections

READERS = 16
LOST = ("08", "28", "40", "53300", "57P")
"""The beginnings of the codes of errors that another attempt, or another server, may not have."""
OPTIONS: dict[str, Any] = {"client_encoding": "utf8", "application_name": "softseek"}
BOUNDS: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 3,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 6000,
    "options": "-c tcp_keepalives_idle=3 -c tcp_keepalives_interval=1 -c tcp_keepalives_count=3"
    " -c tcp_user_timeout=6000",
}
"""After which a connection whose packets vanish is given up, in seconds and milliseconds, by this side and by the
server, whose session holds the lock of the writer. The system's own bounds are minutes and hours. The address may name
others."""
WRITER = 0x50F75EEC
"""The number of the advisory lock of the process that writes."""
OWNED = "another service has written to the database since; restart this one"
DISOWN_SECONDS = 5.0
"""The longest wait, at the end of a service, until the server has given back the lock of the writer."""
SETTLE_SECONDS = 10.0
"""The longest wait of a write whose commit failed until it is known whether it is stored. Other writes wait, too."""
RETRY_SECONDS = 0.2
TIMELINE = "('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int"
"""The number of the timeline of the server, an expression of SQL."""
log = structlog.get_logger()


class PostgresReader(DatabaseReader):
    """Read-only connections to a PostgreSQL database. `read` reads a snapshot."""

    def __init__(self, address: str) -> None:
        """address: a URL that begins with postgresql+psycopg://."""
        self._readers = engine_of(
            address, poolclass=QueuePool, pool_size=READERS, pool_pre_ping=True
        ).execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        self._of_threads = ThreadConnections(lambda: _reading_connection(address))

    @contextmanager
    def read(self) -> Iterator[Connection]:
        with self._readers.connect() as connection:
            yield connection

    def fetch(self, statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        wanted, given = _with_its_parameters(statement), tuple(map(_escaped, parameters))
        try:
            rows = self._of_threads.fetch(wanted, given)
        except psycopg.OperationalError as error:  # the server was restarted, or the connection was idle for too long
            if not _is_lost(error):
                raise
            self._of_threads.drop()
            rows = self._fetched_again(wanted, given)
        return [tuple(map(_unescaped, row)) for row in rows]

    def close(self) -> None:
        self._of_threads.close()
        self._readers.dispose()

    def _fetched_again(self, wanted: str, given: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows by a new connection. Raises DatabaseUnreachable."""
        try:
            return self._of_threads.fetch(wanted, given)
        except psycopg.OperationalError as error:
            self._of_threads.drop()
            raise DatabaseUnreachable(f"the database does not answer: {error}") from error


class PostgresDatabase(PostgresReader, Database):
    """Connections to a PostgreSQL database. `write` runs one transaction at a time; `read` reads a snapshot."""

    def __init__(self, address: str, data: Path) -> None:
        """data: the data directory. Raises DatabaseUnreachable, and DatabaseOwned if another service writes."""
        super().__init__(address)
        self._data = data
        self._write_lock = threading.RLock()
        self._timeline = 0
        self._writes = 0
        """The number of the last write that was begun."""
        self._in_doubt: int | None = None
        """The number of a write that may be stored; nothing else is written until that is known."""
        self._is_outdated = False
        self._writer = engine_of(address, poolclass=StaticPool, pool_pre_ping=True)
        event.listen(self._writer, "connect", self._own)
        try:
            self._writer.connect().close()
        except BaseException:
            self.close()
            raise

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Give the writing connection inside a transaction. The commit is durable when the context ends.

        Raises DatabaseOwned if another service has written, and MemoryOutdated. After DatabaseUnreachable nothing is
        written until it is known whether this write is stored.
        """
        with self._write_lock, storing_reservation() as store_reservation, storing_act() as store_act:
            self.settle()
            self._writes += 1
            is_worked = False
            try:
                with self._writer.begin() as connection:
                    self._begin_write(connection, self._writes)
                    yield connection
                    store_reservation(connection)
                    store_act(connection)
                    is_worked = True
            except Exception:
                if not is_worked or not self._is_stored_at_last(self._writes):
                    raise

    def settle(self) -> None:
        with self._write_lock:
            if self._in_doubt is not None and self._is_stored(self._in_doubt):
                self._is_outdated = True
                log.error("memory_outdated", reason="a write is stored whose answer was lost; a new start reads it")
                self.when_outdated()
            self._in_doubt = None
            if self._is_outdated:
                raise MemoryOutdated("the memory of this service is older than the database; it must be restarted")

    def _is_stored_at_last(self, number: int) -> bool:
        """Return whether a write is stored whose commit failed. If that stays unknown it is in doubt, and not stored.

        The connection that is asked has the lock of the writer, so the transaction has ended.
        """
        until = time.monotonic() + SETTLE_SECONDS
        while self.epoch:
            try:
                return self._is_stored(number)
            except Exception as error:
                if time.monotonic() > until:
                    log.error("write_in_doubt", reason=str(error))
                    self._in_doubt = number
                    break
            time.sleep(RETRY_SECONDS)
        return False

    def _is_stored(self, number: int) -> bool:
        """Return whether a write is stored. Raises DatabaseUnreachable, and DatabaseOwned if another service writes."""
        with self._writer.connect() as connection:
            found = is_last_write(connection, self.epoch, number)
        if found is None:
            raise DatabaseOwned(OWNED)
        return found

    def migrate(self) -> None:
        with self._write_lock, self._writer.begin() as connection:
            if (encoding := connection.execute(text("SHOW server_encoding")).scalar()) != "UTF8":
                raise UnsuitableDatabase(f"the database has the encoding {encoding}; it must have UTF8")
            migrate(connection, self._data)
            make_change_log(connection)
            make_last_write(connection)
            epoch = begin_epoch(connection)
        self.epoch = epoch

    def _own(self, connection: psycopg.Connection[Any], _record: Any) -> None:
        """Take the lock of the writer for a new connection, also after the server was restarted or replaced.

        Raises DatabaseOwned if another service has the lock, and DatabaseUnreachable for a server that has lost its
        place to a standby: each promotion begins a timeline of the write-ahead log with a higher number.
        """
        row = connection.execute(f"SELECT pg_try_advisory_lock({WRITER}), {TIMELINE}").fetchone()
        connection.commit()
        is_owner, timeline = row or (False, 0)
        if not is_owner:
            raise DatabaseOwned("another service writes to the database")
        if timeline < self._timeline:
            raise DatabaseUnreachable("the server that answers was replaced by a standby: do not let both run")
        self._timeline = timeline

    def _begin_write(self, connection: Connection, number: int) -> None:
        """Raise DatabaseOwned if another service has written since: what this one has in memory is out of date."""
        if self.epoch and not begin_write(connection, self.epoch, number):
            raise DatabaseOwned(OWNED)

    def tidy(self) -> None:
        with self.write() as connection:
            forget_old_changes(connection)

    def scrub(self) -> None:
        """Rewrite the tables. The write-ahead log, archives and standbys keep deleted rows until they are recycled.

        The planner's statistics have values of rows, such as ids of clients. They are made anew first, so that the old
        ones are rewritten too, if the user owns the database.
        """
        with self._write_lock, self._writer.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("ANALYZE"))
            connection.execute(text("VACUUM FULL"))

    def close(self) -> None:
        super().close()
        with self._write_lock:
            event.listen(self._writer, "close", _disown)
            self._writer.dispose()


def _disown(connection: psycopg.Connection[Any], _record: Any) -> None:
    """Give back the lock of the writer before its connection is closed, and wait DISOWN_SECONDS at most for that.

    The server ends a session some time after its client, and another service may start at once.
    """
    with suppress(psycopg.Error, OSError):  # a lost connection has no lock, or loses it
        connection.pgconn.send_query(b"SELECT pg_advisory_unlock_all()")
        connection.pgconn.flush()
        answer = select.poll()
        answer.register(connection.pgconn.socket, select.POLLIN)
        answer.poll(1000 * DISOWN_SECONDS)


def connected(address: str, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
    """Return a new connection. The address is libpq's: it may name several servers, and what they must be."""
    try:
        return psycopg.connect(**BOUNDS | conninfo_to_dict(address.replace("+psycopg", "", 1)) | OPTIONS | options)
    except psycopg.ProgrammingError:
        raise UnsuitableDatabase("the address of the database is not valid") from None  # the error may quote a password


def _reading_connection(address: str) -> psycopg.Connection[tuple[Any, ...]]:
    connection = connected(address, autocommit=True)
    connection.read_only = True
    return connection


def _escaped(value: Any) -> Any:
    return escaped(value) if isinstance(value, str) else value


def _unescaped(value: Any) -> Any:
    return unescaped(value) if isinstance(value, str) else value


@lru_cache(64)
def _with_its_parameters(statement: str) -> str:
    return statement.replace("%", "%%").replace("?", "%s")


def engine_of(address: str, target_session_attrs: str | None = None, **pool: Any) -> Engine:
    """Return an engine. target_session_attrs: what the server must be, of several that the address may name."""
    wanted = {} if target_session_attrs is None else {"target_session_attrs": target_session_attrs}
    engine = create_engine(
        "postgresql+psycopg://",
        creator=lambda: connected(address, **wanted),
        json_serializer=as_json,
        hide_parameters=True,  # errors in the log name no client and no query
        **pool,
    )
    engine.dialect.use_insertmanyvalues_wo_returning = True  # one statement, and one entry of the change log, for many
    event.listen(engine, "handle_error", _name_error)
    return engine


def _name_error(context: ExceptionContext) -> None:
    """Raise the error of a full disk or of a lost server in place of the driver's."""
    error = context.original_exception
    if isinstance(error, psycopg.errors.DiskFull):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
    if _is_lost(error) and not context.is_pre_ping:  # a ping that fails connects again
        raise DatabaseUnreachable(f"the database does not answer: {error}") from error


def _is_lost(error: BaseException) -> bool:
    """Return whether an error is of the connection, or of a transaction that the server ended in favour of another."""
    if not isinstance(error, psycopg.OperationalError):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(LOST)  # None: libpq's own, without an answer
