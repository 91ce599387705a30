"""Updates of rows keep their checksums right, and a row that was damaged before stays known as damaged."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import Connection

from service.aliases.repository import replace_alias
from service.audit.repository import set_status
from service.collections.repository import update_settings
from service.erasures.repository import update_erasure
from service.keys.repository import change_key
from service.operations.repository import replace_answer
from service.runtime.collection_repository import bump_watermark, insert_collection, mark_deleted, swap_names
from service.runtime.model_repository import point_alias
from service.runtime.task_repository import fail_unfinished_tasks, update_task
from service.storage.checked_rows import update_row
from service.storage.identity_repository import begin_epoch
from service.storage.sqlite_database import SqliteDatabase
from service.training.repository import update_decision
from tests.service.client import opened, runtime_of
from tests.service.test_checksums import RECEIPT, add_administration, damaged, filled

Update = Callable[[Connection], Any]
UPDATES: dict[str, tuple[str, Update]] = {
    "settings": ("collections", lambda one: update_settings(one, 2, {"language": "english", "é": [1.5]})),
    "deletion": ("collections", lambda one: mark_deleted(one, 2)),
    "swap": ("collections", lambda one: swap_names(one, 2, 1)),
    "documents": ("collections", lambda one: bump_watermark(one, 2, documents=True)),
    "feedback": ("collections", lambda one: bump_watermark(one, 2, documents=False)),
    "decision": ("models", lambda one: update_decision(one, 2, 0, {"promoted": True})),
    "rotation": ("api_keys", lambda one: change_key(one, "key", {"digest": b"d", "old_digest": b"abc"})),
    "use": ("api_keys", lambda one: change_key(one, "key", {"last_used_at": "2026-09-21T10:00:00.000Z"})),
    "epoch": ("identity", begin_epoch),
    "status": ("audit", lambda one: set_status(one, 1, 204)),
    "erasure": ("erasures", lambda one: update_erasure(one, RECEIPT | {"status": "done"}, subject=None)),
    "task": ("tasks", lambda one: update_task(one, "task", progress_done=3, result=None, error={"code": "é"})),
    "start": ("tasks", lambda one: fail_unfinished_tasks(one, {"code": "interrupted"})),
}
"""Update -> its table, and the call."""
DAMAGE = {
    "collections": "dim = dim + 1 WHERE id = 2", "models": "lineage = '{ }' WHERE collection_id = 2",
    "api_keys": "scopes = '[]'", "audit": "act = 'GET'", "identity": "epoch = 7",
    "erasures": "created_at = 'x'", "tasks": "type = 'imporu'",
}  # fmt: skip


@pytest.fixture(scope="module")
def administered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A service with rows in all tables and a collection of number 2."""
    with opened(tmp_path_factory.mktemp("administered") / "data") as client:
        wood = filled(client)
        add_administration(wood)
        assert runtime_of(client).collection("wood").id == 2
        yield client


@pytest.mark.parametrize("update", UPDATES)
def test_an_update_renews_the_checksum_of_a_sound_row_alone(administered: Any, update: str) -> None:
    table, call = UPDATES[update]
    database = runtime_of(administered).database
    stored = f"SELECT * FROM {table} ORDER BY 1, 2"
    with database.write() as connection:
        before = connection.exec_driver_sql(stored).all()
        call(connection)
        assert connection.exec_driver_sql(stored).all() != before
        assert damaged(connection) == []
        connection.rollback()
    with database.write() as connection:
        connection.exec_driver_sql(f"UPDATE {table} SET {DAMAGE[table]}")
        was = damaged(connection)
        assert was
        call(connection)
        assert [one for one, _ in damaged(connection)] == [one for one, _ in was]
        connection.rollback()


def test_what_replaces_a_whole_row_replaces_its_damage(administered: Any) -> None:
    database = runtime_of(administered).database
    with database.write() as connection:
        connection.exec_driver_sql("UPDATE aliases SET version = 7 WHERE collection_id = 2 AND name = 'champion'")
        connection.exec_driver_sql("UPDATE collection_aliases SET collection = 'wooe'")
        connection.exec_driver_sql("UPDATE idempotent_answers SET status = 201")
        assert [table for table, _ in damaged(connection)] == ["collection_aliases", "aliases", "idempotent_answers"]
        point_alias(connection, 2, "champion", 0)
        replace_alias(connection, "forest", "wood")
        again: dict[str, Any] = {"request_sha256": "1", "status": 200, "headers": {}, "body": b""}
        replace_answer(connection, "once", again)
        assert damaged(connection) == []
        connection.rollback()


@pytest.mark.parametrize("seed", range(3))
def test_any_changes_of_the_watermarks_keep_the_checksum_of_a_collection(tmp_path: Path, seed: int) -> None:
    generator = random.Random(seed)
    database = SqliteDatabase(tmp_path / "rows.db")
    database.migrate()
    with database.write() as connection:
        number = insert_collection(connection, "wood", {"language": "é"}, "e", "f", 2)["id"]
        for _ in range(50):
            bump_watermark(connection, number, generator.random() < 0.5)
            assert damaged(connection) == []
        for column in ("watermark", "documents_watermark"):
            connection.exec_driver_sql(f"UPDATE collections SET {column} = {column} + 64")
            bump_watermark(connection, number, documents=False)
            assert damaged(connection) == [("collections", "wood")]
            connection.exec_driver_sql(f"UPDATE collections SET {column} = {column} - 64")
            assert damaged(connection) == []
    database.close()


def test_the_update_of_a_watermark_reads_no_row(administered: Any) -> None:
    database = runtime_of(administered).database
    statements: list[str] = []
    with database.write() as connection:
        sqlalchemy.event.listen(connection, "before_cursor_execute", lambda *call: statements.append(call[2]))
        bump_watermark(connection, 2, documents=True)
        assert [one.split()[0] for one in statements] == ["UPDATE"]
        connection.rollback()


def test_an_update_of_a_row_that_is_gone_changes_nothing(administered: Any) -> None:
    with runtime_of(administered).database.write() as connection:
        assert not update_row(connection, "api_keys", {"id": "gone"}, {"name": "other"})
        with pytest.raises(ValueError, match="several rows of aliases"):
            update_row(connection, "aliases", {"collection_id": 2}, {"version": 3})
        assert damaged(connection) == []


def test_a_collection_whose_damaged_name_looks_deleted_is_kept(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        filled(client)
        with runtime_of(client).database.write() as connection:
            connection.exec_driver_sql("UPDATE collections SET name = '/ood' WHERE name = 'wood'")
    with opened(tmp_path / "data") as client, runtime_of(client).database.read() as connection:
        assert damaged(connection) == [("collections", "/ood")]
        assert connection.exec_driver_sql("SELECT count(*) FROM documents").scalar() == 2
