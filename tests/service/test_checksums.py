"""Every writer of a row writes its checksum, and an upgrade fills the checksums of the stored rows."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Connection, insert

from index.encoding.documents import EncodedDocument
from index.records import Document, Key, KeyKind
from service.audit.repository import insert_act
from service.documents.repository import insert_documents, insert_pending, insert_vectors, move_memory
from service.erasures.repository import insert_erasure
from service.keys.repository import insert_key
from service.operations.damaged_rows_repository import damaged_rows
from service.operations.reencoding import reencode
from service.operations.repository import replace_answer
from service.runtime.model_repository import insert_alias_change, insert_model_files, point_alias
from service.runtime.task_repository import insert_task
from service.storage.base import METADATA
from service.storage.checksums import TABLES, crc, row_checksum
from service.storage.dialects import is_sqlite
from service.storage.sqlite_database import SqliteDatabase
from service.storage.tables_of_administration import IDENTITY
from service.training.repository import end_run, insert_run, uncount_resumption, update_run
from tests.service.client import CollectionClient, create, good, opened, runtime_of
from tests.service.test_reencoding import WIDE, running
from tests.test_migrations_killed import content, made, upgraded

NUMBERS = {
    "identity": "rowid", "documents": "row", "keys": "id", "values": "document_row", "events": "id", "judgments": "id",
    "pending_documents": "sequence", "queries": "rowid", "rules": "rowid", "training_runs": "rowid",
    "collections": "id", "collection_aliases": "rowid", "models": "id", "model_files": "rowid", "aliases": "rowid",
    "alias_changes": "id", "tasks": "rowid",
    "idempotent_answers": "rowid", "erasures": "rowid", "api_keys": "rowid", "audit": "id",
}  # fmt: skip
KEY = {
    "id": "key", "name": "box", "scopes": ["search"], "collections": None, "filter": None, "origins": [],
    "rate_per_minute": 5, "digest": b"abc", "from_environment": False, "created_at": "2026-09-20T10:00:00.000Z",
    "expires_at": None, "rotated_at": None, "last_used_at": None,
}  # fmt: skip
"""The columns of an API key, as `service.keys` inserts them."""
RECEIPT: dict[str, Any] = {"id": "erasure", "status": "deleting", "finished_at": None}


def damaged(connection: Connection) -> list[tuple[str, str]]:
    """Return table and name of every row that differs from its checksum."""
    return [(table, row.name) for table in TABLES for row in damaged_rows(connection, table)]


def filled(client: Any) -> CollectionClient:
    """Make a collection with documents, vectors and feedback."""
    wood = create(client, "wood", filterable=["n"])
    wood.add(
        {
            "id": "oak",
            "title": "Oak",
            "text": "an old oak",
            "url": "https://oak",
            "metadata": {"n": 1, "é": ["ü"], "x": 1.5},
        },
        {"id": "elm", "text": "a young elm"},
    )
    wood.act("oak", user_query="Old tree", client_id="ada", position=2)
    wood.judge("young tree", "elm", 3, "bo")
    wood.judge("car", "elm", 0, "bo")
    return wood


def add_other_rows(wood: CollectionClient) -> None:
    """Add a logged search, a rule with a vector, and a training run that has failed."""
    wood.search("old tree")
    rule = {"query": {"near": "forest"}, "pin": [{"id": "oak", "position": 1}]}
    good(wood.client.put(f"{wood.path}/rules/near", json=rule))
    runtime = runtime_of(wood.client)
    runtime.impressions.flush()
    with runtime.database.write() as connection:
        insert_run(connection, runtime.collection(wood.name).id, "run", {"seed": 7, "promote": "auto"}, {"champion": 0})
        update_run(connection, "run", steps=[{"step": 1, "loss": 0.5, "name": "é"}], progress_done=1, progress_total=4)
        update_run(connection, "run", resumptions=2)
        uncount_resumption(connection, "run")
        end_run(connection, "run", {"status": "failed", "error": {"code": "internal_error"}})


def add_pending(wood: CollectionClient) -> None:
    """Add a document that no task encodes."""
    runtime = runtime_of(wood.client)
    with runtime.database.write() as connection:
        body = {"title": None, "text": "a late fir", "url": None, "metadata": {"é": 1.5}}
        insert_pending(connection, runtime.collection(wood.name).id, {"late": body})


def add_administration(wood: CollectionClient) -> None:
    """Add a row of each table outside the content: a key that the service does not load, an alias, an act and others.

    The challenger is moved, which is an alias and its change.
    """
    good(wood.client.put("/v1/aliases/forest", json={"collection": wood.name}))
    runtime = runtime_of(wood.client)
    number = runtime.collection(wood.name).id
    with runtime.database.write() as connection:
        if is_sqlite(connection):  # in PostgreSQL it has one
            connection.execute(insert(IDENTITY), {"id": "database", "epoch": 1})
        insert_key(connection, KEY)
        insert_act(connection, None, "PUT /v1/aliases", "/v1/aliases/forest", 0)
        insert_erasure(connection, "ada", RECEIPT)
        insert_task(connection, id="task", type="snapshot", collection=None, status="processing")
        answer = {"request_sha256": "00", "status": 200, "headers": {"é": "1"}, "body": b"{}"}
        replace_answer(connection, "once", answer)
        insert_model_files(connection, number, 1, {"head.safetensors": b"weights"})
        point_alias(connection, number, "challenger", 1)
        insert_alias_change(connection, number, "challenger", 0, 1, "by hand", False)


def test_every_column_but_the_number_of_the_row_is_covered() -> None:
    assert set(TABLES) == set(METADATA.tables)
    for table, checked in TABLES.items():
        columns = set(METADATA.tables[table].columns.keys())
        number = set() if NUMBERS[table] in checked.owners else {NUMBERS[table]} - {"rowid"}
        assert set(checked.columns) == columns - number - {"checksum"}


def test_values_of_other_types_and_borders_have_other_sums() -> None:
    values: list[list[Any]] = [
        [], [None], [None, None], [1], [1.0], ["1"], [b"1"], ["", "1"], ["1", ""], ["ab", "c"], ["a", "bc"], [-1],
    ]  # fmt: skip
    assert len({crc(one) for one in values}) == len(values)


def test_rows_of_every_writer_have_checksums(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        wood = filled(client)
        add_other_rows(wood)
        wood.add({"id": "oak", "text": "another oak"})  # its memory moves to the new row
        client.patch(f"{wood.path}/documents/elm", json={"url": "https://elm"})
        add_pending(wood)
        add_administration(wood)
        with runtime_of(client).database.read() as connection:
            counts = {
                table: connection.exec_driver_sql(f'SELECT count(checksum) FROM "{table}"').scalar() for table in TABLES
            }
            assert counts == {
                "identity": 1, "documents": 2, "keys": 5, "values": 2, "events": 1, "judgments": 2,
                "pending_documents": 1, "queries": 1, "rules": 1, "training_runs": 1,
                "collections": 2, "collection_aliases": 1, "models": 2, "model_files": 1, "aliases": 3,
                "alias_changes": 1, "tasks": 3,
                "idempotent_answers": 1, "erasures": 1, "api_keys": 1, "audit": counts["audit"],
            }  # fmt: skip
            assert damaged(connection) == []


def test_a_damaged_training_run_stays_damaged_when_it_goes_on(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        wood = filled(client)
        add_other_rows(wood)
        with runtime_of(client).database.write() as connection:
            connection.exec_driver_sql("UPDATE training_runs SET seed = 6")
            assert update_run(connection, "run", status="canceled")
            assert damaged(connection) == [("training_runs", "run")]
            assert not update_run(connection, "gone", status="canceled")


def test_memory_of_a_damaged_vector_stays_damaged_when_it_moves(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        wood = filled(client)
        with runtime_of(client).database.write() as connection:
            connection.exec_driver_sql("UPDATE keys SET vector = zeroblob(length(vector)) WHERE event_id IS NOT NULL")
        wood.add({"id": "oak", "text": "another oak"})
        with runtime_of(client).database.read() as connection:
            assert damaged(connection) == [("keys", "oak")]


def test_a_collection_that_is_encoded_again_has_checksums_and_its_damage_stays_known(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        add_other_rows(filled(client))
        with runtime_of(client).database.write() as connection:
            connection.exec_driver_sql("UPDATE documents SET text = 'an odd oak' WHERE id = 'oak'")
            connection.exec_driver_sql("UPDATE keys SET weight = 9 WHERE event_id IS NOT NULL")
    with running(tmp_path / "data") as runtime:
        assert reencode(runtime, runtime.collection("wood")) is not None
        with runtime.database.read() as connection:
            assert damaged(connection) == [("documents", "oak"), ("keys", "oak")]
            for table in ("keys", "rules"):
                vector = connection.exec_driver_sql(
                    f"SELECT vector FROM {table} ORDER BY length(vector) DESC LIMIT 1"
                ).scalar_one()
                assert len(vector) == 4 * WIDE.dim


def test_a_damaged_document_is_not_changed_in_part_and_is_replaced_by_the_same_document(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        wood = filled(client)
        elm = {"id": "elm", "text": "a young elm"}
        for damage in ("created_at = '2026'", "text = CAST(x'69ff' AS TEXT)", "metadata = '{ }'"):
            with runtime_of(client).database.write() as connection:
                connection.exec_driver_sql(f"UPDATE documents SET {damage} WHERE id = 'elm'")
            answer = client.patch(f"{wood.path}/documents/elm", json={"url": "https://elm"})
            assert (answer.status_code, answer.json()["code"]) == (409, "document_damaged")
            assert wood.add(elm)["unchanged"] == 0
            with runtime_of(client).database.read() as connection:
                assert damaged(connection) == []
        assert wood.add(elm)["unchanged"] == 1


@pytest.mark.parametrize("table", ["keys", '"values"'])
def test_a_change_of_a_field_does_not_copy_damaged_vectors(tmp_path: Path, table: str) -> None:
    with opened(tmp_path / "data") as client:
        CollectionClient(client).add({"id": "elm", "text": "a young elm"})
        with runtime_of(client).database.write() as connection:
            before = connection.exec_driver_sql(f"SELECT vector FROM {table}").scalar_one()
            connection.exec_driver_sql(f"UPDATE {table} SET vector = zeroblob(length(vector))")
        assert client.patch("/v1/collections/default/documents/elm", json={"url": "https://elm"}).is_success
        with runtime_of(client).database.read() as connection:
            assert damaged(connection) == []
            assert connection.exec_driver_sql(f"SELECT vector FROM {table}").scalar_one() == before


def test_memory_moves_between_any_rows(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "rows.db")
    database.migrate()
    generator = random.Random(7)
    with database.write() as connection:
        connection.exec_driver_sql("PRAGMA defer_foreign_keys=ON")
        vectors = np.ones(2, np.float32)
        (row,) = insert_documents(connection, 5, [Document("a", "text")], {})
        insert_vectors(connection, 5, [row], [EncodedDocument([Key(KeyKind.TITLE, vectors, 0, 4)], vectors)])
        connection.exec_driver_sql('DELETE FROM "values"')
        for _ in range(50):
            before, row = row, generator.randrange(2**31)
            move_memory(connection, {before: row})
            assert damaged(connection) == []
        connection.exec_driver_sql("DELETE FROM keys")
        connection.exec_driver_sql("DELETE FROM documents")
    database.close()


def test_an_upgrade_fills_the_checksums_of_many_rows_and_may_be_killed_between_them(tmp_path: Path) -> None:
    path = tmp_path / "start.db"
    made(path, "0008")
    with closing(sqlite3.connect(path)) as plain:
        plain.execute(
            "WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 460) INSERT INTO documents"
            " (row, collection_id, id, text, metadata, created_at)"
            " SELECT i, 1, 'd' || i, 'text ' || i, '{}', 'then' FROM n"
        )
        plain.commit()
    start = content(path)
    (tmp_path / "whole.db").write_bytes(path.read_bytes())
    kills: list[Path] = []

    def kill(_connection: Any = None, _cursor: Any = None, statement: str = "", *_more: Any) -> None:
        if "checksum = ?" in statement:
            kills.append(tmp_path / f"killed-{len(kills)}.db")
            for suffix in ("", "-wal"):
                if (source := tmp_path / f"whole.db{suffix}").exists():
                    Path(f"{kills[-1]}{suffix}").write_bytes(source.read_bytes())

    whole = upgraded(tmp_path / "whole.db", kill)
    assert len(kills) == 3 + 7  # 452 documents in chunks of 200, and one chunk of each other table with rows
    for killed in kills:
        assert content(killed) == start
        assert upgraded(killed) == whole
    database = SqliteDatabase(tmp_path / "whole.db")
    with database.read() as connection:
        assert damaged(connection) == []
    database.close()


def test_an_upgrade_fills_the_checksums_of_logged_searches_rules_runs_and_pending_documents(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    made(path, "0009")
    with closing(sqlite3.connect(path)) as plain:
        plain.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 450) INSERT INTO queries"
            " (query_id, collection_id, text, source, request, shown, null_weight, model_version, generation,"
            " created_at) SELECT 'q' || (1000 - i), 1, 'Tree ' || i, 'tree', '{\"explore\": 0.5}', '[]', i, 0, i,"
            " 'then' FROM n"
        )
        plain.execute("INSERT INTO rules VALUES (1, 'r', '{}', x'00ff', 'then'), (1, 's', '{\"é\": 1}', NULL, 'then')")
        plain.execute("INSERT INTO pending_documents VALUES (9, 1, 'late', CAST(x'69ff' AS TEXT), 'then')")
        plain.execute("UPDATE training_runs SET error = 'null', cancel_requested = 1")
        plain.commit()
    database = SqliteDatabase(path)
    database.migrate()
    with database.read() as connection:
        assert {table for table, _ in damaged(connection)} == {"documents", "keys", "values", "events", "judgments"}
        for table, count in (("queries", 450), ("rules", 2), ("pending_documents", 1), ("training_runs", 1)):
            assert connection.exec_driver_sql(f"SELECT count(checksum) FROM {table}").scalar() == count
    database.close()


def test_an_upgrade_fills_the_checksums_of_the_tables_of_administration(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    made(path, "0010")
    rows = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 450) INSERT INTO tasks"
        " SELECT 't' || i, 'import', NULL, 'failed', 0, 0, 'null', '{\"code\": \"é\"}', 'then', NULL FROM n",
        "INSERT INTO collection_aliases VALUES ('forest', CAST(x'69ff' AS TEXT), 'then')",
        "INSERT INTO aliases VALUES (1, 'champion', 0)",
        "INSERT INTO alias_changes VALUES (-3, 1, 'champion', 0, 1, 'r', 1, 'then'), (4, 1, 'c', 1, 0, 'r', 0, 'then')",
        "INSERT INTO idempotent_answers VALUES ('k', '00', 200, '{}', x'00ff', 'then')",
        "INSERT INTO erasures VALUES ('e', 'done', NULL, '{}', 'then', 'then')",
        "INSERT INTO api_keys (id, name, scopes, collections, origins, digest, created_at)"
        " VALUES ('a', 'n', '[\"search\"]', 'null', '[]', x'00', 'then')",
        "INSERT INTO audit (at, key_id, act, target, status) VALUES ('then', NULL, 'act', 'é', 200)",
        "UPDATE collections SET watermark = 3000000000, documents_watermark = 2999999999",
    )
    with closing(sqlite3.connect(path)) as plain:
        for row in rows:
            plain.execute(row)
        plain.commit()
        before = plain.execute("SELECT * FROM api_keys").fetchall()
    database = SqliteDatabase(path)
    database.migrate()
    new = [table for table in list(TABLES)[list(TABLES).index("collections") :] if table != "model_files"]
    with database.read() as connection:
        assert not {table for table, _ in damaged(connection)} & set(new)
        filled = {table: connection.exec_driver_sql(f"SELECT count(checksum) FROM {table}").scalar() for table in new}
        assert filled == {**dict.fromkeys(new, 1), "tasks": 450, "alias_changes": 2}
        assert [row[:-1] for row in connection.exec_driver_sql("SELECT * FROM api_keys")] == before
    database.close()


def test_an_upgrade_takes_texts_that_are_no_utf8_as_they_are(tmp_path: Path) -> None:
    made(tmp_path / "old.db", "0008")
    with closing(sqlite3.connect(tmp_path / "old.db")) as plain:
        plain.execute("UPDATE documents SET text = CAST(x'69ff' AS TEXT)")
        plain.commit()
    database = SqliteDatabase(tmp_path / "old.db")
    database.migrate()
    with database.read() as connection:
        assert damaged(connection) == []
    database.close()


@pytest.mark.parametrize("weight", [-0.0, 1, True, 0.1, 1e300])
def test_numbers_are_summed_as_sqlite_stores_them(tmp_path: Path, weight: float) -> None:
    with closing(sqlite3.connect(":memory:")) as plain:
        plain.execute("CREATE TABLE one (weight FLOAT)")
        plain.execute("INSERT INTO one VALUES (?)", (weight,))
        (stored,) = plain.execute("SELECT weight FROM one").fetchone()
    for table, column in (("keys", "weight"), ("events", "grade"), ("queries", "null_weight")):
        assert row_checksum(table, {column: weight}) == row_checksum(table, {column: stored})


def test_an_import_has_checksums_of_its_own(tmp_path: Path) -> None:
    with opened(tmp_path / "source") as client:
        add_other_rows(filled(client))
        with runtime_of(client).database.write() as connection:
            update_run(connection, "run", status="succeeded", error=None)
        exported = client.get("/v1/export").content
    assert b"checksum" not in exported
    with opened(tmp_path / "copy") as client:
        create(client, "first").add({"id": "first", "text": "numbers of rows differ"})
        task = client.post("/v1/import", content=exported, headers={"Content-Type": "application/x-ndjson"}).json()
        assert CollectionClient(client).ended_task(task)["status"] == "succeeded"
        with runtime_of(client).database.read() as connection:
            assert connection.exec_driver_sql("SELECT count(*) FROM keys WHERE checksum IS NULL").scalar() == 0
            assert damaged(connection) == []
