"""Moves all content from one database to another, and verifies it by the state hash.

The numbers of rows stay, so the indexes of the data directory stay right. A move to PostgreSQL sets the SQLite file
aside: a start without the address must not serve yesterday's content.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from index.errors import SearchError
from index.storage.files import sync_directory
from service.runtime.first_start import note_database
from service.snapshots.state import state_hash
from service.storage.database import DATABASE_FILE, Database
from service.storage.identity_repository import identity_of
from service.storage.moving import copy_rows, is_copy
from service.storage.opening import open_database

ASIDE = "moved"


class NotMovable(SearchError):
    """The target has content, or the copy differs from the source."""


def move_database(data: Path, source_address: str | None, target_address: str | None) -> dict[str, Any]:
    """Copy the database of a data directory to another; return rows, state, and where the file of before is.

    The caller owns the directory. Raises NotMovable, DatabaseUnreachable, DatabaseOwned and UnknownSchema. After an
    error the source is as it was, and the target has no content; a process that ends after the copy leaves both, and
    the next move goes on.
    """
    source = open_database(data, source_address)
    try:
        source.migrate()
        target = open_database(data, target_address)
        try:
            rows, state, identity = _copied(source, target, has_identity=target_address is not None)
        finally:
            target.close()
    finally:
        source.close()
    note_database(data, identity)
    aside = _set_aside(data) if source_address is None else None
    return {"rows": rows, "state": state, "aside": str(aside) if aside else None}


def _copied(source: Database, target: Database, has_identity: bool) -> tuple[int, str, str | None]:
    """Copy all rows in one transaction, which is undone if the state hashes differ.

    A target with the same rows is the copy of an earlier move, which ended before it had set the source aside. The
    state hash does not tell: it leaves out keys, the audit log and the numbers of rows.
    Return the number of rows with content, the state hash, and the identity of the target if it has one.
    """
    target.migrate()
    with source.read() as before, target.write() as after:
        expected, found = state_hash(before), state_hash(after)
        if not any(table.rows for table in found.tables.values()):
            copy_rows(before, after)
            found = state_hash(after)
        elif not is_copy(before, after):
            raise NotMovable("the target has content; move into a new database")
        if found.sha256 != expected.sha256:
            names = [name for name, state in expected.tables.items() if found.tables.get(name) != state]
            raise NotMovable(f"the copy differs from the source in {', '.join(names)}; run softseek doctor first")
        identity = identity_of(after) if has_identity else None
    return sum(table.rows for table in found.tables.values()), expected.sha256, identity


def _set_aside(data: Path) -> Path:
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    aside = data / f"{DATABASE_FILE}.{ASIDE}-{moment}"
    (data / DATABASE_FILE).rename(aside)
    sync_directory(data)
    return aside
