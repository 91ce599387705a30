"""The migrations lead from nothing to the tables as the code has them, and back."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, MetaData, create_engine, inspect
from sqlalchemy.exc import SQLAlchemyError

from service.storage.base import METADATA
from service.storage.database import NEWEST_REVISION, DatabaseRead, UnknownSchema, alembic_config
from service.storage.sqlite_database import SqliteDatabase, UnsafeSqlite, may_share_checkpoints


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    engine = create_engine(f"sqlite:///{tmp_path / 'empty.db'}")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def tables(connection: Connection) -> set[str]:
    connection.rollback()
    return set(inspect(connection).get_table_names()) - {"alembic_version", "sqlite_sequence"}


def upgrade(connection: Connection, revision: str = "head") -> None:
    command.upgrade(alembic_config(connection), revision)
    connection.commit()


def downgrade(connection: Connection, revision: str = "base") -> None:
    command.downgrade(alembic_config(connection), revision)
    connection.commit()


def test_upgrading_an_empty_database_makes_every_table(connection: Connection) -> None:
    upgrade(connection)
    assert tables(connection) == set(METADATA.tables)


def test_tables_and_migrations_agree(connection: Connection) -> None:
    upgrade(connection)
    context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
    assert compare_metadata(context, METADATA) == []


def plain(described: Any) -> str:
    """Return a description of a part of a table as text, with the SQL of conditions."""
    options = {name: str(value) for name, value in described.get("dialect_options", {}).items()}
    return repr({**described, "dialect_options": options})


def shape(connection: Connection) -> dict[str, Any]:
    """Return everything of the tables but the order of their columns."""
    found = inspect(connection)
    kinds = ("columns", "indexes", "unique_constraints", "foreign_keys")
    shapes: dict[str, Any] = {
        table: {kind: sorted(map(plain, getattr(found, f"get_{kind}")(table))) for kind in kinds}
        | {"key": found.get_pk_constraint(table)}
        for table in METADATA.tables
    }
    for table, made in connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE type = 'table'"):
        if table in shapes:
            shapes[table]["never_reuses_a_number"] = "AUTOINCREMENT" in made
    return shapes


def test_a_new_database_gets_the_schema_of_the_migrations(connection: Connection, tmp_path: Path) -> None:
    upgrade(connection)
    database = SqliteDatabase(tmp_path / "new.db")
    database.migrate()
    with database.read() as new:
        assert shape(new) == shape(connection)
        assert new.exec_driver_sql("SELECT version_num FROM alembic_version").all() == [(NEWEST_REVISION,)]
        same = [inspect(one).get_columns("alembic_version") for one in (new, connection)]
        assert repr(same[0]) == repr(same[1])
    database.close()


def test_a_difference_between_tables_and_migrations_is_found(connection: Connection) -> None:
    upgrade(connection)
    connection.exec_driver_sql("DROP INDEX ix_keys_document_row")
    connection.exec_driver_sql("ALTER TABLE tasks DROP COLUMN error")
    context = MigrationContext.configure(connection, opts={"compare_type": True})
    assert {one[0] for one in compare_metadata(context, METADATA)} == {"add_index", "add_column"}


def test_downgrading_takes_every_table_away_and_upgrading_brings_them_back(connection: Connection) -> None:
    upgrade(connection)
    schema = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master ORDER BY name").all()
    downgrade(connection)
    assert tables(connection) == set()
    upgrade(connection)
    assert connection.exec_driver_sql("SELECT name, sql FROM sqlite_master ORDER BY name").all() == schema


def test_every_revision_can_be_undone(connection: Connection) -> None:
    revisions = list(ScriptDirectory.from_config(alembic_config(connection)).walk_revisions())
    assert revisions
    for one in reversed(revisions):
        before = tables(connection)
        upgrade(connection, one.revision)
        downgrade(connection, one.down_revision or "base")
        assert tables(connection) == before
        upgrade(connection, one.revision)


def test_runs_of_before_read_clicks_in_every_way(connection: Connection) -> None:
    upgrade(connection, "0002")
    earlier = MetaData()
    earlier.reflect(connection)
    run = {"id": "r1", "collection_id": 1, "status": "succeeded", "seed": 7, "promote": "auto", "created_at": "then"}
    empty = {"progress_done": 0, "progress_total": 0, "steps": "[]", "data": "{}", "report": "{}", "decision": "{}"}
    connection.execute(earlier.tables["training_runs"].insert().values(run | empty))
    connection.commit()
    upgrade(connection)
    found = connection.exec_driver_sql("SELECT id, seed, click_reading FROM training_runs").all()
    assert found == [("r1", 7, "auto")]


def test_there_is_one_newest_revision_and_the_service_knows_it(connection: Connection) -> None:
    assert ScriptDirectory.from_config(alembic_config(connection)).get_heads() == [NEWEST_REVISION]


def test_a_database_of_a_later_version_is_refused(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "later.db")
    database.migrate()
    with database.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(UnknownSchema, match="a newer version of Softseek wrote the database: its schema is 9999"):
        database.migrate()
    database.close()


def test_rows_are_fetched_as_they_are_stored(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "rows.db")
    database.migrate()
    assert database.fetch("SELECT version_num, ? FROM alembic_version", ["copper"]) == [(NEWEST_REVISION, "copper")]
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        database.fetch("DELETE FROM alembic_version", [])
    database.close()


def test_migrating_twice_changes_nothing(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "twice.db")
    for _ in range(2):
        database.migrate()
        with database.read() as connection:
            assert set(METADATA.tables) <= set(inspect(connection).get_table_names())
    database.close()


def test_readers_cannot_write_and_the_writer_is_durable(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "pragmas.db")
    database.migrate()
    wanted = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "secure_delete": 1}
    with database.write() as writer, database.read() as reader:
        for connection, query_only in ((writer, 0), (reader, 1)):
            found = {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in wanted}
            assert found == wanted
            assert connection.exec_driver_sql("PRAGMA query_only").scalar() == query_only
    database.close()


def test_an_error_of_a_statement_does_not_name_its_values(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "errors.db")
    database.migrate()
    with pytest.raises(SQLAlchemyError) as raised, database.write() as connection:
        connection.exec_driver_sql("INSERT INTO queries (query_id, text) VALUES (?, ?)", ("q", "a secret query"))
    assert "a secret query" not in str(raised.value)
    database.close()


def test_a_scrub_leaves_no_byte_of_deleted_rows(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "scrubbed.db")
    database.migrate()
    with database._write_lock:
        database._outside_transactions("PRAGMA secure_delete=OFF")  # as rows of an earlier release were deleted
    with database.write() as connection:
        connection.exec_driver_sql(
            "INSERT INTO tasks (id, type, status, progress_done, progress_total, created_at)"
            " VALUES ('t', 'zqxcanary', 'failed', 0, 0, 'then')"
        )
        connection.exec_driver_sql("DELETE FROM tasks")
    assert any(b"zqxcanary" in path.read_bytes() for path in tmp_path.iterdir())
    database.scrub()
    assert not any(b"zqxcanary" in path.read_bytes() for path in tmp_path.iterdir())
    database.close()


def test_a_scrub_says_when_a_reader_keeps_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.storage.sqlite_database.BUSY_SECONDS", 0)
    database = SqliteDatabase(tmp_path / "read.db")
    database.migrate()
    with database.read() as connection:
        connection.exec_driver_sql("SELECT * FROM tasks").all()
        with pytest.raises(DatabaseRead):
            database.scrub()
    database.scrub()
    database.close()


def test_judgments_of_rating_zero_become_keys_of_weight_zero(connection: Connection) -> None:
    upgrade(connection, "0005")
    connection.exec_driver_sql(
        "INSERT INTO collections (id, name, settings, encoder, fingerprint, dim, watermark, documents_watermark,"
        " created_at) VALUES (1, 'c', '{}', 'e', 'f', 2, 1, 1, 'then')"
    )
    connection.exec_driver_sql(
        "INSERT INTO documents (row, collection_id, id, text, metadata, created_at)"
        " VALUES (7, 1, 'd', '', '{}', 'then')"
    )
    for id, document, rating in ((1, "d", 0), (2, "d", 4), (3, "gone", 0)):
        connection.exec_driver_sql(
            "INSERT INTO judgments (id, collection_id, query_text, source, document_id, rating, rater, created_at)"
            f" VALUES ({id}, 1, 'q', 'q', '{document}', {rating}, 'rater {id}', 'then')"
        )
    connection.commit()
    upgrade(connection)
    keys = connection.exec_driver_sql("SELECT document_row, kind, weight, source, judgment_id FROM keys").all()
    assert keys == [(7, 3, 0.0, "q", 1)]
    connection.rollback()
    downgrade(connection, "0005")
    assert connection.exec_driver_sql("SELECT count(*) FROM keys").scalar_one() == 0


@pytest.mark.parametrize(
    ("version", "safe"),
    [
        *(((3, 40, 1), False), ((3, 44, 5), False), ((3, 44, 6), True), ((3, 45, 0), False), ((3, 50, 7), True)),
        *(((3, 51, 2), False), ((3, 51, 3), True), ((3, 52, 0), True), ((4, 0, 0), True)),
    ],
)
def test_versions_of_sqlite_that_lose_commits_are_known(version: tuple[int, int, int], safe: bool) -> None:
    assert may_share_checkpoints(version) == safe


def test_checkpoints_are_left_to_another_process_only_where_that_is_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 51, 2))
    with pytest.raises(UnsafeSqlite, match=r"3\.51\.3"):
        SqliteDatabase(tmp_path / "shared.db", checkpoints=False)
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 51, 3))
    database = SqliteDatabase(tmp_path / "shared.db", checkpoints=False)
    database.migrate()
    with database.write() as writer:
        assert writer.exec_driver_sql("PRAGMA wal_autocheckpoint").scalar() == 0
    holder = sqlite3.connect(tmp_path / "shared.db")  # the last connection that closes checkpoints in any case
    holder.execute("SELECT count(*) FROM alembic_version").fetchone()
    database.close()
    assert (tmp_path / "shared.db-wal").stat().st_size > 0
    holder.close()
