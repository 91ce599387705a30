"""The database as the service sees it, and its schema.

`service.storage.sqlite_database` and `service.storage.postgres_database` are its engines.
"""

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import SQLAlchemyError

from index.errors import SearchError
from service.storage.base import METADATA
from service.storage.reservations import not_reserved

if TYPE_CHECKING:
    from alembic.config import Config

DATABASE_FILE = "softseek.db"
RESTORING = ".restoring"
"""Ends the name of the folder that a restore unpacks into."""
ENCODERS = "encoders"
"""The folder of converted encoders, beside the database."""
NEWEST_REVISION = "0017"
"""The revision of the schema in the last file of `migrations/versions`."""


class DatabaseRead(Exception):
    """A reader kept the write-ahead log from being emptied."""


class DatabaseOwned(SearchError, SQLAlchemyError):
    """Another service writes to the database."""


class DatabaseUnreachable(SearchError, SQLAlchemyError):
    """The database does not accept connections, or refuses this user."""


class MemoryOutdated(SearchError, SQLAlchemyError):
    """A write is stored that this process took for undone: its memory is older than the database."""


class UnsuitableDatabase(SearchError):
    """The database cannot store every text, or its files cannot be written."""


class UnknownSchema(Exception):
    """A later version wrote the database, with a schema that this version does not know."""


class DatabaseReader(ABC):
    """Reads a database. `read` reads a snapshot."""

    @abstractmethod
    def read(self) -> AbstractContextManager[Connection]:
        """Give a read-only connection on a single snapshot."""

    @abstractmethod
    def fetch(self, statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT without SQLAlchemy, for searches. The statement reads its own snapshot.

        Each thread has a connection of its own. A connection of a pool takes as long as reading these rows, and a
        statement of SQLAlchemy several times as long. A parameter is a question mark.
        """

    @abstractmethod
    def close(self) -> None:
        """Close every connection."""


class Database(DatabaseReader):
    """Reads and writes a database: `write` runs one transaction at a time."""

    epoch = 0
    """The number of services that have begun to write to it, this one included; 0 where there can be only one."""
    when_outdated: Callable[[], None] = staticmethod(lambda: None)
    """Is called once `write` raises MemoryOutdated from now on: only a new start mends that."""

    @abstractmethod
    def write(self) -> AbstractContextManager[Connection]:
        """Give the writing connection inside a transaction. The commit is durable when the context ends."""

    @abstractmethod
    def migrate(self) -> None:
        """Make the newest schema in a new database, or upgrade the schema. Raises UnknownSchema.

        The caller owns the data directory.
        """

    @abstractmethod
    def scrub(self) -> None:
        """Remove deleted rows from the files as far as the engine can. Writers wait meanwhile. Raises DatabaseRead."""

    def settle(self) -> None:
        """Find out whether a write is stored whose answer was lost. Raises DatabaseUnreachable and MemoryOutdated."""

    def tidy(self) -> None:
        """Delete what the engine keeps for other processes, and they need no longer."""

    def store_act(self) -> None:
        """Store the act of the request that this thread works for, before work that is no change of the database.

        Its status stays 0 if the process ends before the answer. Without an act nothing is stored.
        """
        with not_reserved(), self.write():  # an Idempotency-Key that is stored now would say that the work is done
            pass


def migrate(connection: Connection, data: Path) -> None:
    """Make the newest schema in a new database, or upgrade it. The caller commits. Raises UnknownSchema.

    data: the data directory.
    """
    if not inspect(connection).get_table_names():
        _create(connection)
    elif (revision := _revision(connection)) != NEWEST_REVISION:
        if revision is not None and revision.isdecimal() and revision > NEWEST_REVISION:
            raise UnknownSchema(
                f"a newer version of Softseek wrote the database: its schema is {revision}, and this version reads"
                f" schemas up to {NEWEST_REVISION}; use the newer version, or restore a snapshot of before the upgrade"
            )
        _upgrade(connection, data)


def _revision(connection: Connection) -> str | None:
    """Return the revision of the schema, None for a new database."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return revision


def _create(connection: Connection) -> None:
    """Make all tables at once, in place of all migrations one after the other."""
    METADATA.create_all(connection, checkfirst=False)  # the database has no table
    connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
    connection.execute(text("INSERT INTO alembic_version VALUES (:newest)"), {"newest": NEWEST_REVISION})


def _upgrade(connection: Connection, data: Path) -> None:
    from alembic import command  # imported here, because most starts do not need it
    from alembic.util import CommandError

    try:
        command.upgrade(alembic_config(connection, data), "head")
    except CommandError as error:
        raise UnknownSchema(str(error)) from error


def alembic_config(connection: Connection, data: Path | None = None) -> "Config":
    """Return the Alembic configuration of this connection. It reads neither the environment nor the current folder.

    data: the data directory, which held the files of models until schema 0012. None: a database without one.
    """
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "migrations:")
    config.attributes["connection"] = connection
    config.attributes["data"] = data
    return config


def now() -> str:
    """Return the time as RFC 3339 text in UTC, to the millisecond."""
    return rfc3339(datetime.now(UTC))


SKEW = timedelta(minutes=1)
"""How far ahead of the clock a time may be that was written by it."""


def rfc3339(moment: datetime) -> str:
    """Return a time as RFC 3339 text in UTC, to the millisecond. Texts sort in the order of time."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def is_ahead(stored: str, moment: datetime) -> bool:
    """Return whether a stored time, RFC 3339 in UTC, lies ahead of the clock, which was corrected since."""
    return stored > rfc3339(moment + SKEW)


def new_id() -> str:
    """Return a UUIDv7 (RFC 9562): 48 bits of milliseconds, then random bits. Ids sort in the order of time."""
    return _id(time.time_ns() // 1_000_000, int.from_bytes(os.urandom(10), "big"))


def first_id(moment: datetime) -> str:
    """Return the least id that `new_id` returns at a time."""
    return _id(max(0, int(moment.timestamp() * 1000)), 0)


def _id(milliseconds: int, random: int) -> str:
    number = (milliseconds << 80) | random
    number = (number & ~(0xF << 76)) | (0x7 << 76)
    number = (number & ~(0x3 << 62)) | (0x2 << 62)
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
