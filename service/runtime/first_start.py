"""Tells a data directory that is new from a directory whose database is gone, and starts anew where that is asked for.

A database that is missing, empty or without our tables looks like a new database. Beside models or indexes it is lost:
the service refuses to start, so that no later work deletes or overwrites what the lost database knew.
"""

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from index.errors import SearchError
from index.storage.files import sync_directory, write_atomically
from service.storage.database import DATABASE_FILE, RESTORING
from service.storage.watermarks import WATERMARKS

CONTENTS = ("models", "indexes", "imports", "staging")
"""Folders of the data directory that hold what a database knows."""
SNAPSHOTS = "snapshots"
"""The folder of snapshots: they need no database, and an owner looks for them when it is lost."""
OUR_TABLES = {"alembic_version", "collections"}
IDENTITY = "database-identity"
"""The file with the identity of the PostgreSQL database that the contents are of."""
NOTE = "replicated"
"""The table of SQLite with the position of a searcher: its database is a copy."""
ASIDE = "set-aside"
"""The folder of what `start_anew` moves aside, followed by the time."""


class DatabaseLost(Exception):
    """The data directory has contents, and no database that knows them."""

    def __init__(self, directory: Path, reason: str) -> None:
        super().__init__(
            f"the data directory {directory} has contents, but {DATABASE_FILE} {reason}: restore the database from a "
            f"snapshot or a copy, or run `softseek serve --new`, which moves the contents to a folder {ASIDE}-TIME and "
            "starts anew"
        )


class OtherDatabase(Exception):
    """The contents of the data directory are not of the database of the settings."""

    def __init__(self, directory: Path, whose: str, advice: str) -> None:
        super().__init__(f"the data directory {directory} has contents of {whose}: {advice}")


class DatabasePresent(Exception):
    """A directory with a database cannot start anew."""

    def __init__(self, directory: Path) -> None:
        super().__init__(f"the data directory {directory} has a database; --new is for a directory that lost it")


class RestoreUnfinished(SearchError):
    """A restore into the directory was interrupted."""

    def __init__(self, directory: Path) -> None:
        super().__init__(f"a restore into {directory} was interrupted: run `softseek snapshot restore` again")


def require_database(directory: Path, copy: bool = False) -> None:
    """Raise DatabaseLost if the directory has contents, but no database with our tables. The caller owns the directory.

    copy: whether the database is the copy of a searcher. Raises OtherDatabase if it is of another kind, or if the
    contents are of a PostgreSQL database, and RestoreUnfinished. A write-ahead log without its database counts as
    contents: SQLite would delete it.
    """
    if (directory / RESTORING).exists():
        raise RestoreUnfinished(directory)
    if copy and ((directory / IDENTITY).exists() or _is_copy(directory) is False):
        raise OtherDatabase(directory, "a service", "give the searcher a directory of its own")
    if not copy and _is_copy(directory):
        raise OtherDatabase(directory, "a searcher", "start it with --role searcher, or use another directory")
    reason = _loss(directory)
    if reason is not None and _contents(directory):
        if (directory / IDENTITY).exists():
            raise OtherDatabase(directory, "a PostgreSQL database", "SOFTSEEK_DATABASE must have its address")
        raise DatabaseLost(directory, reason)


def require_database_of(directory: Path, identity: str) -> None:
    """Raise OtherDatabase if the contents of the directory are not of the PostgreSQL database with this identity.

    The caller owns the directory, which is of this database from now on. Raises RestoreUnfinished too.
    """
    if (directory / RESTORING).exists():
        raise RestoreUnfinished(directory)
    if _is_copy(directory):
        raise OtherDatabase(directory, "a searcher", "start it with --role searcher, or use another directory")
    if (directory / DATABASE_FILE).exists():
        advice = f"`softseek move` copies it to PostgreSQL; without SOFTSEEK_DATABASE, {DATABASE_FILE} is served"
        raise OtherDatabase(directory, DATABASE_FILE, advice)
    file = directory / IDENTITY
    known = file.read_text(encoding="utf-8").strip() if file.exists() else None
    if known == identity:
        return
    if _contents(directory):
        advice = (
            "use the database or the directory of before, or `softseek serve --new`, which moves the contents aside"
        )
        raise OtherDatabase(directory, "another database", advice)
    note_database(directory, identity)


def note_database(directory: Path, identity: str | None) -> None:
    """Note durably whose contents a data directory has; None: of the SQLite database in it."""
    if identity is not None:
        write_atomically(directory / IDENTITY, f"{identity}\n".encode())
        return
    (directory / IDENTITY).unlink(missing_ok=True)
    sync_directory(directory)


def has_content(directory: Path) -> bool:
    """Return whether a directory has anything of a service. Opens no file, so that any process may ask."""
    found = _filled(directory, (*CONTENTS, SNAPSHOTS))
    files = [path for path in directory.glob(f"{DATABASE_FILE}*") if path.stat().st_size]
    return bool(found or files) or (directory / IDENTITY).exists()


def start_anew(directory: Path) -> Path | None:
    """Move the contents of a directory without a database aside; return the folder that has them, None without any.

    Raises DatabasePresent. Nothing is deleted.
    """
    if _loss(directory) is None:
        raise DatabasePresent(directory)
    found = _contents(directory)
    notes = [directory / name for name in (WATERMARKS, IDENTITY)]  # of the lost database; alone they are no content
    found += [note for note in notes if note.exists()]
    if not found:
        return None
    aside = directory / f"{ASIDE}-{datetime.now(UTC).strftime('%Y%m%dT%H%M%S')}"
    aside.mkdir(mode=0o700)
    for path in found:
        path.rename(aside / path.name)
    sync_directory(aside)
    sync_directory(directory)
    return aside


def _loss(directory: Path) -> str | None:
    """Return what is wrong with the database, None for a database with our tables, or one that does not open."""
    path = directory / DATABASE_FILE
    if not path.exists():
        return "is missing"
    if not path.stat().st_size:
        return "is empty"
    tables = _tables(path)
    return None if tables is None or tables >= OUR_TABLES else "has no tables of Softseek"


def _is_copy(directory: Path) -> bool | None:
    """Return whether the database of a directory is the copy of a searcher; None without a database."""
    tables = _tables(directory / DATABASE_FILE) if (directory / DATABASE_FILE).exists() else None
    return NOTE in tables if tables else None


def _tables(path: Path) -> set[str] | None:
    """Return the names of the tables of a database, None if it does not open: the start then reports SQLite's error."""
    connection = sqlite3.connect(path)
    try:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.DatabaseError:
        return None
    finally:
        connection.close()


def _filled(directory: Path, names: tuple[str, ...]) -> list[Path]:
    """Return the folders of these names that have something in them."""
    return [path for path in (directory / name for name in names) if path.is_dir() and any(path.iterdir())]


def _contents(directory: Path) -> list[Path]:
    """Return the files and folders that a database knows, or that are a database; a database without tables is none."""
    found = _filled(directory, CONTENTS)
    path = directory / DATABASE_FILE
    if path.exists() and path.stat().st_size:
        return [*found, path] if _tables(path) else found
    logs = [log for log in directory.glob(f"{DATABASE_FILE}-*") if log.stat().st_size]
    if path.exists():  # a first start that was killed leaves a journal of an empty database; later there is none
        logs = [log for log in logs if log.name != f"{DATABASE_FILE}-journal"]
    return [*found, *logs]
