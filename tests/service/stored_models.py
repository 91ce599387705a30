"""Reads and changes the stored files of models, as a disk or another program may."""

import sqlite3
from contextlib import closing
from pathlib import Path

from service.storage.database import DATABASE_FILE


def stored_model(data: Path, version: int, collection_id: int | None = None) -> dict[str, bytes]:
    """Return the files of a model, name -> bytes; without a number, of the only collection with this version."""
    wanted = "SELECT name, body FROM model_files WHERE version = ? AND collection_id = coalesce(?, collection_id)"
    with closing(sqlite3.connect(data / DATABASE_FILE)) as connection:
        found = connection.execute(wanted, (version, collection_id)).fetchall()
    assert len({name for name, _ in found}) == len(found), "several collections have this version"
    return dict(found)


def set_file(data: Path, version: int, name: str, body: bytes | None) -> None:
    """Replace a stored file of a version, or delete it. The checksum of the row stays."""
    with closing(sqlite3.connect(data / DATABASE_FILE)) as connection, connection:
        if body is None:
            connection.execute("DELETE FROM model_files WHERE version = ? AND name = ?", (version, name))
        else:
            connection.execute("UPDATE model_files SET body = ? WHERE version = ? AND name = ?", (body, version, name))
