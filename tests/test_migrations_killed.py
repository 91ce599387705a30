"""An upgrade from any released schema may be killed at any statement. The next start completes it."""

import hashlib
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, event

from service.storage.database import NEWEST_REVISION, alembic_config
from service.storage.sqlite_database import SqliteDatabase

ROWS = (
    "INSERT INTO collections (id, name, settings, encoder, fingerprint, dim, watermark, documents_watermark,"
    " created_at) VALUES (1, 'wood', '{\"language\": \"english\"}', 'hashing', 'f', 2, 3, 3, 'then')",
    "INSERT INTO documents (row, collection_id, id, title, text, metadata, created_at)"
    " VALUES (7, 1, 'oak', 'Oak', 'an old oak', '{\"age\": 300}', 'then')",
    "INSERT INTO keys (collection_id, document_row, kind, vector, weight, span_start, span_end)"
    " VALUES (1, 7, 1, x'0000803f00000000', 1, 0, 10)",
    "INSERT INTO \"values\" (document_row, vector) VALUES (7, x'0000803f00000000')",
    "INSERT INTO events (id, collection_id, action_name, grade, query_text, source, document_id, timestamp, body,"
    " created_at) VALUES (4, 1, 'click', 1, 'Tree', 'tree', 'oak', 'then', '{}', 'then')",
    "INSERT INTO judgments (id, collection_id, query_text, source, document_id, rating, rater, created_at)"
    " VALUES (5, 1, 'Car', 'car', 'oak', 0, 'ada', 'then')",
    "INSERT INTO models (collection_id, version, lineage, report, decision, created_at)"
    " VALUES (1, 0, '{}', '{}', '{}', 'then')",
    "INSERT INTO training_runs (id, collection_id, status, seed, promote, progress_done, progress_total, steps, data,"
    " report, decision, created_at) VALUES ('r', 1, 'succeeded', 7, 'auto', 0, 0, '[]', '{}', '{}', '{}', 'then')",
)
"""Rows that every released schema can hold."""


def revisions() -> list[str]:
    """Return the released revisions, oldest first."""
    with create_engine("sqlite://").connect() as connection:
        script = ScriptDirectory.from_config(alembic_config(connection))
        return [one.revision for one in script.walk_revisions()][::-1]


def made(path: Path, revision: str) -> None:
    """Make a database of a released schema with ROWS, as a service leaves it."""
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        command.upgrade(alembic_config(connection), revision)
        for row in ROWS:
            connection.exec_driver_sql(row.replace("%", "%%"))
        connection.commit()
    engine.dispose()
    with closing(sqlite3.connect(path)) as plain:
        plain.execute("PRAGMA journal_mode=WAL")


def content(path: Path) -> tuple[str, list[str]]:
    """Return the revision of a database, and all its tables and rows as SQL."""
    with closing(sqlite3.connect(path)) as plain:
        (revision,) = plain.execute("SELECT version_num FROM alembic_version").fetchone() or ("",)
        return revision, sorted(plain.iterdump())


class Kills:
    """Copies of the files of a database, as kills before statements leave them. Equal files are kept once.

    Before the commit an upgrade writes little: most statements have the files of the statement before.
    """

    def __init__(self, source: Path) -> None:
        self._source = source
        self._known: set[str] = set()
        self.count = 0
        """The number of statements, and with them of moments."""
        self.paths: list[Path] = []

    def __call__(self, *_statement: Any) -> None:
        self.count += 1
        files = {suffix: Path(f"{self._source}{suffix}") for suffix in ("", "-wal")}  # shared memory is rebuilt
        found = {suffix: path.read_bytes() for suffix, path in files.items() if path.exists()}
        digest = hashlib.sha256(repr(found).encode()).hexdigest()
        if digest in self._known:
            return
        self._known.add(digest)
        self.paths.append(self._source.with_name(f"killed-{self.count}.db"))
        for suffix, data in found.items():
            Path(f"{self.paths[-1]}{suffix}").write_bytes(data)


def upgraded(path: Path, before_statement: Any = None) -> tuple[str, list[str]]:
    """Upgrade a database as a start of the service does; return its content."""
    database = SqliteDatabase(path)
    if before_statement is not None:
        event.listen(database._writer, "before_cursor_execute", before_statement)
        event.listen(database._writer, "commit", lambda _connection: before_statement())
    database.migrate()
    database.close()
    return content(path)


@pytest.mark.parametrize("revision", revisions())
def test_an_upgrade_that_is_killed_at_any_statement_is_completed_by_the_next_start(
    tmp_path: Path, revision: str
) -> None:
    """The files before each statement are what a kill there leaves."""
    made(tmp_path / "start.db", revision)
    start = content(tmp_path / "start.db")
    shutil.copy(tmp_path / "start.db", tmp_path / "whole.db")
    kills = Kills(tmp_path / "whole.db")
    whole = upgraded(tmp_path / "whole.db", kills)
    assert whole[0] == NEWEST_REVISION
    assert kills.count >= (5 if revision != NEWEST_REVISION else 1)
    for killed in kills.paths:
        assert content(killed) == start
        assert upgraded(killed) == whole


def test_a_first_start_that_is_killed_is_completed_by_the_next(tmp_path: Path) -> None:
    kills = Kills(tmp_path / "new.db")
    whole = upgraded(tmp_path / "new.db", kills)
    assert kills.count > 20
    for killed in kills.paths:
        assert upgraded(killed) == whole
