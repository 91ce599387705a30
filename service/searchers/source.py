"""The PostgreSQL database that a searcher copies: a primary or a standby, by the address of the settings."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from sqlalchemy import Connection, text

from service.searchers.spool import store_delivered
from service.storage.change_log import CHANNEL
from service.storage.database import NEWEST_REVISION, DatabaseUnreachable, UnsuitableDatabase
from service.storage.postgres_database import PostgresReader, connected, engine_of

POLL_SECONDS = 0.05
"""Pause between two looks at a standby, which cannot be listened to."""
WAIT_SECONDS = 1.0
"""Most time between two looks at a primary."""


class Source:
    """Reads the database, waits for its changes, and delivers impressions to the primary."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._reader = PostgresReader(address)
        self._primary = engine_of(address, target_session_attrs="read-write")
        self._listener: psycopg.Connection[Any] | None = None

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a connection on a single snapshot.

        Raises DatabaseUnreachable, and UnsuitableDatabase where no writer of this release has made the tables.
        """
        with self._reader.read() as connection:
            if connection.execute(text("SELECT to_regclass('changes')")).scalar() is None:
                raise UnsuitableDatabase("no writer of this release has served the database: start one first")
            found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
            if found != NEWEST_REVISION:
                raise UnsuitableDatabase("the writer of the database is of another release")
            yield connection

    def wait(self, seconds: float = WAIT_SECONDS) -> None:
        """Wait for a commit, at most some seconds; for a standby, POLL_SECONDS. Raises DatabaseUnreachable."""
        try:
            if self._listens():
                assert self._listener is not None
                for _ in self._listener.notifies(timeout=seconds, stop_after=1):
                    pass
            else:
                time.sleep(POLL_SECONDS)
        except psycopg.Error as error:
            self._drop_listener()
            raise DatabaseUnreachable(f"the database does not answer: {error}") from error

    def deliver(self, rows: list[dict[str, Any]]) -> None:
        """Store impressions in the primary. Raises DatabaseUnreachable where the address names none that answers."""
        with self._primary.begin() as connection:
            store_delivered(connection, rows)

    def _listens(self) -> bool:
        """Begin to hear of commits, if that has not begun; return False for a standby, which cannot tell."""
        if self._listener is None:
            connection = connected(self._address, autocommit=True)
            if connection.execute("SELECT pg_is_in_recovery()").fetchone() == (True,):
                connection.close()
                return False
            connection.execute(f"LISTEN {CHANNEL}")
            self._listener = connection
        return True

    def close(self) -> None:
        """Close every connection."""
        self._drop_listener()
        self._reader.close()
        self._primary.dispose()

    def _drop_listener(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
