"""The state hash is equal for equal content and differs for any other content. It does not see row numbers."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from service.snapshots.state import StateHash, state_hash
from service.snapshots.state_repository import NAMES, NOT_CONTENT
from service.storage.base import METADATA
from service.storage.sqlite_database import SqliteDatabase

ROWS = {
    "collections": "(name, settings, encoder, fingerprint, dim, watermark, documents_watermark, created_at, id)"
    " VALUES ('c', '{}', 'e', 'f', 1, 5, 5, 't', {c})",
    "documents": "(row, collection_id, id, text, metadata, created_at) VALUES ({d}, {c}, 'x', 'a', '{}', 't')",
    "values": "(document_row, vector) VALUES ({d}, x'01')",
    "events": "(id, collection_id, action_name, query_text, source, timestamp, body, created_at)"
    " VALUES ({e}, {c}, 'click', 'q', 'q', 't', '{}', 't')",
    "judgments": "(id, collection_id, query_text, source, document_id, rating, rater, created_at)"
    " VALUES ({j}, {c}, 'q', 'q', 'x', 3, 'r', 't')",
    "keys": "(collection_id, document_row, kind, vector, weight, span_start, span_end, source, event_id, judgment_id)"
    " VALUES ({c}, {d}, 3, x'02', 0.5, 0, 0, 'q', {e}, {j})",
    "pending_documents": """(collection_id, id, body, created_at) VALUES ({c}, 'y', '{"b": 1, "a": [2, null]}', 't')""",
    "queries": "(query_id, collection_id, text, source, request, shown, null_weight, model_version, generation,"
    " created_at) VALUES ('1', {c}, 'q', 'q', '{}', '[]', 0.25, 0, 1, 't')",
    "models": "(collection_id, version, lineage, report, decision, created_at) VALUES ({c}, 0, '{}', '{}', '{}', 't')",
    "model_files": "(collection_id, version, name, body) VALUES ({c}, 1, 'w', x'05')",
    "aliases": "(collection_id, name, version) VALUES ({c}, 'champion', 0)",
    "alias_changes": "(collection_id, name, from_version, to_version, reason, rollback, created_at)"
    " VALUES ({c}, 'champion', 0, 0, 'r', 0, 't')",
    "training_runs": "(id, collection_id, status, seed, promote, progress_done, progress_total, steps, data, report,"
    " decision, created_at) VALUES ('1', {c}, 'failed', 0, 'never', 0, 0, '[]', '{}', '{}', '{}', 't')",
    "rules": "(collection_id, id, body, created_at) VALUES ({c}, 'r', '{}', 't')",
    "collection_aliases": "(name, collection, created_at) VALUES ('a', 'c', 't')",
}
"""Table -> a row; {c}, {d}, {e}, {j} are numbers of rows."""
CHANGES = {
    "collections": "settings = '{\"language\": 1}'",
    "documents": "text = 'b'",
    "values": "vector = x'03'",
    "events": "grade = 1",
    "judgments": "rating = 2",
    "keys": "vector = x'04'",
    "pending_documents": "id = 'z'",
    "queries": "null_weight = 0.26",
    "models": "report = '{\"a\": 1}'",
    "model_files": "body = x'06'",
    "aliases": "version = 1",
    "alias_changes": "reason = 's'",
    "training_runs": "seed = 1",
    "rules": "id = 's'",
    "collection_aliases": "collection = 'd'",
}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    database = SqliteDatabase(tmp_path / "state.db")
    database.migrate()
    yield database
    database.close()


def fill(database: SqliteDatabase, **numbers: int) -> StateHash:
    with database.write() as connection:
        for name, row in ROWS.items():
            for letter, number in numbers.items():
                row = row.replace(f"{{{letter}}}", str(number))
            connection.exec_driver_sql(f'INSERT INTO "{name}" {row}')
    return hash_of(database)


def hash_of(database: SqliteDatabase) -> StateHash:
    with database.read() as connection:
        return state_hash(connection)


def test_row_numbers_do_not_change_the_hash(database: SqliteDatabase, tmp_path: Path) -> None:
    other = SqliteDatabase(tmp_path / "other.db")
    other.migrate()
    assert fill(database, c=1, d=1, e=1, j=1) == fill(other, c=7, d=30, e=9, j=4)
    other.close()


def test_every_table_is_hashed_and_a_change_of_any_changes_the_hash(database: SqliteDatabase) -> None:
    before = fill(database, c=1, d=1, e=1, j=1)
    assert set(before.tables) == set(METADATA.tables) - NOT_CONTENT
    assert {table: one.rows for table, one in before.tables.items()} == dict.fromkeys(ROWS, 1)
    for name, change in CHANGES.items():
        with database.write() as connection:
            connection.execute(text(f'UPDATE "{name}" SET {change.replace(":", chr(92) + ":")}'))
        after = hash_of(database)
        assert after.sha256 != before.sha256
        assert after.tables[name] != before.tables[name], name
        before = after


def test_requests_and_watermarks_are_not_content(database: SqliteDatabase) -> None:
    before = fill(database, c=1, d=1, e=1, j=1)
    with database.write() as connection:
        connection.exec_driver_sql("UPDATE collections SET watermark = 6")
        connection.exec_driver_sql(
            "INSERT INTO tasks (id, type, status, progress_done, progress_total, created_at)"
            " VALUES ('1', 'snapshot', 'failed', 0, 0, 't')"
        )
        connection.exec_driver_sql("CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)")
    assert hash_of(database) == before


def test_checksums_are_not_content(database: SqliteDatabase) -> None:
    before = fill(database, c=1, d=1, e=1, j=1)
    with database.write() as connection:
        for name in ROWS:
            connection.exec_driver_sql(f'UPDATE "{name}" SET checksum = 7')
    assert hash_of(database) == before


def test_a_reference_to_another_row_changes_the_hash(database: SqliteDatabase) -> None:
    before = fill(database, c=1, d=1, e=1, j=1)
    with database.write() as connection:
        connection.exec_driver_sql("INSERT INTO documents VALUES (2, 1, 'z', NULL, 'a', NULL, '{}', 't', NULL)")
        middle = state_hash(connection)
        connection.exec_driver_sql("UPDATE keys SET document_row = 2")
    after = hash_of(database)
    assert before.tables["keys"] == middle.tables["keys"] != after.tables["keys"]


def test_every_table_that_is_referred_to_has_a_name() -> None:
    targets = {key.column.table.name for table in METADATA.tables.values() for key in table.foreign_keys}
    assert targets <= set(NAMES)
    assert all(set(names) <= set(METADATA.tables[table].columns.keys()) | {"source"} for table, names in NAMES.items())
