"""Opens the database that the settings name: SQLite in the data directory, or PostgreSQL by its address."""

from pathlib import Path

from service.storage.database import DATABASE_FILE, Database, DatabaseReader
from service.storage.sqlite_database import SqliteDatabase, SqliteReader


def open_database(data: Path, address: str | None, checkpoints: bool = True) -> Database:
    """Open the database of a data directory for reading and writing.

    address: of a PostgreSQL database; None: SQLite in the data directory. Raises UnsafeSqlite, DatabaseUnreachable and
    DatabaseOwned.
    """
    if address is None:
        return SqliteDatabase(data / DATABASE_FILE, checkpoints)
    from service.storage.postgres_database import PostgresDatabase  # its driver is optional

    return PostgresDatabase(address, data)


def open_reader(data: Path, address: str | None) -> DatabaseReader:
    """Open the database that another process owns, for reading."""
    if address is None:
        return SqliteReader(data / DATABASE_FILE)
    from service.storage.postgres_database import PostgresReader  # its driver is optional

    return PostgresReader(address)
