"""`softseek doctor` names every stored row of which a byte has flipped, and makes vectors again from sound texts."""

import json
import random
import shutil
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.exc import SQLAlchemyError

from service.cli import main
from service.operations.health import diagnose
from service.operations.row_checks import check_rows
from service.runtime.model_repository import insert_alias_change
from service.snapshots.state_repository import StoredState
from service.storage.base import METADATA
from service.storage.checksums import TABLES
from service.storage.dialects import integrity
from service.storage.sqlite_database import SqliteDatabase
from tests.service.authorised import Keys
from tests.service.client import CollectionClient, good, opened, runtime_of
from tests.service.test_checksums import NUMBERS, add_administration, add_other_rows, add_pending, filled

ROWS = {
    "documents": "id = 'oak'",
    "keys": "source IS NULL AND document_row = 1",
    "memory": "event_id IS NOT NULL",
    "judged": "judgment_id IS NOT NULL AND weight > 0",
    "values": "document_row = 1",
    "events": "id = 1",
    "judgments": "id = 1",
    "pending_documents": "id = 'late'",
    "queries": "text = 'old tree'",
    "rules": "id = 'near'",
    "training_runs": "id = 'run'",
    "collections": "name = 'wood'",
    "models": "collection_id = 2 AND version = 0",
    "model_files": "collection_id = 2",
    "aliases": "collection_id = 2 AND name = 'champion'",
    "alias_changes": "id = 1",
    "collection_aliases": "name = 'forest'",
    "tasks": "id = 'task'",
    "idempotent_answers": "key = 'once'",
    "erasures": "id = 'erasure'",
    "identity": "id = 'database'",
    "api_keys": "id = 'key'",
    "audit": "id = 1",
}
"""A row of each table; `memory` and `judged` are keys of past queries."""
KEYS = ("keys", "memory", "judged")
KINDS = {"keys": "documents", "values": "documents", "judged": "memory"} | {
    "pending_documents": "pending documents", "queries": "logged searches", "training_runs": "training runs",
    "collections": "settings", "models": "records of models", "model_files": "files of models",
    "aliases": "champion and challenger", "alias_changes": "promotions",
}  # fmt: skip
"""Row -> its kind in the name of the check; other rows of a collection have the name of their kind."""
OUTSIDE = {
    "collection_aliases": "aliases of collections", "tasks": "tasks", "erasures": "receipts of erasures",
    "idempotent_answers": "answers kept for Idempotency-Keys", "api_keys": "API keys",
    "identity": "identity of the database",
    "audit": "acts in the audit log",
}  # fmt: skip
"""Row that belongs to no collection -> the name of the check."""
CASES = [(row, column) for row in ROWS for column in (*TABLES["keys" if row in KEYS else row].columns, "checksum")]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("damaged") / "data") as client:
        wood = filled(client)
        add_other_rows(wood)
        add_pending(wood)
        add_administration(wood)
        yield client


@pytest.fixture(scope="module", autouse=True)
def tables_are_read_once() -> Iterator[None]:
    """The state hash does not read the schema again for each of hundreds of checks: no damage changes it."""
    read, kept = StoredState.of, dict[str, StoredState]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StoredState, "of", lambda one: kept.get("read") or kept.setdefault("read", read(one)))
        yield


@pytest.fixture(scope="module")
def filled_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data directory of a service that has ended, with all kinds of rows of a collection."""
    data = tmp_path_factory.mktemp("filled") / "data"
    with opened(data) as client:
        wood = filled(client)
        good(client.put("/v1/aliases/forest", json={"collection": wood.name}))
        add_other_rows(wood)
        with runtime_of(client).database.write() as connection:
            insert_alias_change(connection, 2, "champion", 0, 0, "by hand", False)
    return data


@pytest.fixture
def data(filled_directory: Path, tmp_path: Path) -> Path:
    """Return a copy of the data directory."""
    return Path(shutil.copytree(filled_directory, tmp_path / "data"))


def plain(client: TestClient) -> Any:
    """Open the database without foreign keys, as a disk that flips a byte does not obey them."""
    return closing(sqlite3.connect(runtime_of(client).settings.data / "softseek.db", isolation_level=None))


def failing(client: TestClient, repair: bool = False) -> dict[str, str]:
    """Return name -> detail of every check that fails."""
    return {one["name"]: one["detail"] for one in diagnose(runtime_of(client), repair) if not one["ok"]}


def flipped(value: Any) -> Any:
    """Return a stored value of which one bit differs; a text stays readable."""
    if value is None:
        return "x"
    if isinstance(value, int):
        return value ^ 1
    if isinstance(value, float):
        return struct.unpack("<d", bytes([struct.pack("<d", value)[0] ^ 1]) + struct.pack("<d", value)[1:])[0]
    at = len(value) // 2
    return f"{value[:at]}{chr(ord(value[at]) ^ 1)}{value[at + 1:]}" if isinstance(value, str) else bytes(
        byte ^ (place == at) for place, byte in enumerate(value)
    )  # fmt: skip


@pytest.mark.parametrize(("row", "column"), CASES)
def test_a_flip_in_any_column_is_named(client: TestClient, row: str, column: str) -> None:
    table = "keys" if row in KEYS else row
    name = column if column == "checksum" else METADATA.tables[table].c[column].name
    with plain(client) as database:
        number, before = database.execute(
            f'SELECT "{NUMBERS[table]}", "{name}" FROM "{table}" WHERE {ROWS[row]}'
        ).fetchone()
        database.execute(f'UPDATE "{table}" SET "{name}" = ? WHERE "{NUMBERS[table]}" = ?', (flipped(before), number))
        try:
            found = failing(client)
        finally:
            moved = flipped(before) if (table, name) == ("values", "document_row") else number
            database.execute(f'UPDATE "{table}" SET "{name}" = ? WHERE "{NUMBERS[table]}" = ?', (before, moved))
    if row in OUTSIDE:
        named = found[OUTSIDE[row]]
    else:  # the check of a collection has the name that it was loaded with
        named = found.get(f"{KINDS.get(row, row)} of wood", "") + found.get("rows", "")
    assert "differ from their checksums: " in named or " of no collection: " in named, found
    assert "1 in all" in named
    if column == "checksum":  # the last column of the row: every flip was undone
        assert failing(client) == {}


def content_of(database: Path) -> list[tuple[int, int]]:
    """Return place and length of the content of all rows with checksums inside the file of a database."""
    file = database.read_bytes()
    places: list[tuple[int, int]] = []
    with closing(sqlite3.connect(database)) as connection:
        connection.text_factory = bytes
        wanted = (
            "SELECT id || coalesce(title, '') || text || coalesce(url, '') || metadata || created_at FROM documents",
            "SELECT vector FROM keys WHERE vector != x''",
            'SELECT vector FROM "values"',
            "SELECT body || created_at FROM events",
            "SELECT query_text || source || document_id FROM judgments",
            "SELECT name || settings || encoder || fingerprint FROM collections",
            "SELECT lineage || report || decision || created_at FROM models",
            "SELECT id || name || scopes || origins FROM api_keys",
            "SELECT at || act || target FROM audit WHERE key_id IS NULL",
            "SELECT id || type || collection || status FROM tasks WHERE collection IS NOT NULL",
        )
        for statement in wanted:
            for (content,) in connection.execute(statement).fetchall():
                at = file.index(content)
                places.append((at, len(content)))
    return places


def is_found(path: Path) -> str:
    """Return which check finds damage in a database: `sqlite`, `checksums`, or none."""
    database = SqliteDatabase(path)
    try:
        with database.read() as connection:
            rows = check_rows(connection)
            if rows.faults or rows.collections or any(rows.outside.counts.values()):
                return "checksums"
            return "" if integrity(connection) == "ok" else "sqlite"
    except SQLAlchemyError:
        return "sqlite"
    finally:
        database.close()


def test_200_flips_of_bytes_inside_the_content_of_the_file_are_found(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        wood = filled(client)
        wood.add(*({"id": f"tree-{n}", "title": f"Tree {n}", "text": f"tree {n} " * 20} for n in range(40)))
        for n in range(20):
            wood.act(f"tree-{n}", user_query=f"which is tree {n}", client_id=f"client {n}")
            wood.judge(f"tree of number {n}", f"tree-{n}", 2, "bo")
        add_administration(wood)
        with plain(client) as connection:
            connection.execute("VACUUM INTO ?", (str(tmp_path / "whole.db"),))
    assert is_found(tmp_path / "whole.db") == ""
    file, places = (tmp_path / "whole.db").read_bytes(), content_of(tmp_path / "whole.db")
    generator = random.Random(37)
    found = []
    for number in range(200):
        at, length = generator.choice(places)
        damaged = bytearray(file)
        damaged[at + generator.randrange(length)] ^= generator.randrange(1, 256)
        (tmp_path / f"{number}.db").write_bytes(damaged)
        found.append(is_found(tmp_path / f"{number}.db"))
    assert found.count("") == 0
    assert found.count("checksums") == 200  # SQLite itself does not compare content


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE keys SET vector = zeroblob(length(vector)) WHERE document_row = 2 AND source IS NULL",
        'UPDATE "values" SET vector = zeroblob(length(vector)) WHERE document_row = 2',
        "UPDATE keys SET document_row = 1 WHERE document_row = 2 AND source IS NULL",
        "UPDATE keys SET document_row = 77 WHERE document_row = 2 AND source IS NULL",
        'UPDATE "values" SET document_row = 77 WHERE document_row = 2',
        "UPDATE keys SET kind = 3 WHERE document_row = 2 AND source IS NULL",
        "UPDATE keys SET kind = 9 WHERE document_row = 2 AND source IS NULL",
        "UPDATE keys SET vector = x'00' WHERE document_row = 2 AND source IS NULL",
    ],
)
def test_damaged_vectors_of_a_sound_document_are_made_again(data: Path, damage: str) -> None:
    with opened(data) as client:
        wood = CollectionClient(client, "wood")
        before, vectors = wood.ranking("young tree"), stored_vectors(client)
        with plain(client) as database:
            database.execute(damage)
        assert "documents of wood" in failing(client)
        assert "repair of the vectors of wood" not in failing(client, repair=True)
        assert failing(client) == {}
        assert stored_vectors(client) == vectors
        assert {id: logit for id, logit, _ in wood.ranking("young tree")} == {id: logit for id, logit, _ in before}
    with opened(data) as client:
        assert failing(client) == {}


def stored_vectors(client: TestClient) -> list[tuple[Any, ...]]:
    """Return the vectors of documents and past queries, without numbers of rows."""
    with plain(client) as database:
        keys = (
            "SELECT id, kind, source, vector FROM documents JOIN (SELECT document_row, kind, source, vector FROM keys)"
        )
        values = 'SELECT id, 0, 0, vector FROM documents JOIN "values"'
        on = " ON document_row = documents.row"
        return sorted(database.execute(keys + on + " UNION ALL " + values + on).fetchall(), key=repr)


def test_a_past_query_with_a_damaged_vector_is_encoded_again_from_its_sound_event(data: Path) -> None:
    with opened(data) as client:
        before, vectors = CollectionClient(client, "wood").ranking("an old tree"), stored_vectors(client)
        with plain(client) as database:
            database.execute("UPDATE keys SET vector = zeroblob(length(vector)) WHERE source IS NOT NULL AND weight")
    with opened(data) as client:
        wood = CollectionClient(client, "wood")
        assert wood.ranking("an old tree") != before
        assert failing(client) == {"memory of wood": "differ from their checksums: oak, elm; 2 in all"}
        assert set(failing(client, repair=True)) == {"memory of wood"}
        assert failing(client) == {}
        assert stored_vectors(client) == vectors
        assert wood.ranking("an old tree") == before


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        ("UPDATE documents SET text = 'an odd oak' WHERE row = 1", "documents"),
        ("UPDATE documents SET url = 'https://oaj' WHERE row = 1", "documents"),
        ("UPDATE documents SET title = CAST(x'69ff' AS TEXT) WHERE row = 1", "documents"),
        ("UPDATE keys SET weight = 9 WHERE event_id = 1", "memory"),
        ("UPDATE events SET client_id = 'adb'", "events"),
        ("UPDATE judgments SET rating = 1 WHERE id = 1", "judgments"),
        ("UPDATE queries SET shown = '[]'", "logged searches"),
        ("UPDATE rules SET body = replace(body, 'forest', 'foresu')", "rules"),
        ("UPDATE training_runs SET status = 'succeeded'", "training runs"),
        ("UPDATE collections SET dim = dim + 1 WHERE id = 2", "settings"),
        ("UPDATE collections SET settings = json_set(settings, '$.train', NULL) WHERE id = 2", "settings"),
        ("UPDATE models SET lineage = replace(lineage, 'initial', 'initiam')", "records of models"),
        ("UPDATE aliases SET version = 2 WHERE collection_id = 2", "champion and challenger"),
        ("UPDATE alias_changes SET to_version = 3", "promotions"),
    ],
)
def test_what_is_lost_is_named_until_it_is_replaced(data: Path, damage: str, kind: str) -> None:
    with opened(data) as client:
        with plain(client) as database:
            database.execute(damage)
        assert "1 in all" in failing(client)[f"{kind} of wood"]
        assert f"repair of the {kind} of wood" in failing(client, repair=True)
        assert f"{kind} of wood" in failing(client)


@pytest.mark.parametrize("row", OUTSIDE)
def test_a_repair_says_what_to_do_about_rows_of_no_collection_and_leaves_them(client: TestClient, row: str) -> None:
    table = METADATA.tables[row]
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    with plain(client) as database:
        database.execute(f'UPDATE "{row}" SET checksum = checksum + 1 WHERE {ROWS[row]}')
        try:
            before, found = database.execute(f'SELECT {names} FROM "{row}"').fetchall(), failing(client, repair=True)
            assert set(found) == {OUTSIDE[row], f"repair of the {OUTSIDE[row]}"}
            name = ROWS[row].split(" = ")[1].strip("'")
            lost = f"what they were is lost: {name}; 1 in all; "
            assert found[f"repair of the {OUTSIDE[row]}"].startswith(lost)
            assert database.execute(f'SELECT {names} FROM "{row}"').fetchall() == before
        finally:
            database.execute(f'UPDATE "{row}" SET checksum = checksum - 1 WHERE {ROWS[row]}')
    assert failing(client) == {}


def test_the_key_and_the_alias_are_sound_again_as_the_repair_says(data: Path) -> None:
    with opened(data) as client:
        wood, keys = CollectionClient(client, "wood"), Keys.first(client)
        scoped = keys.make("search")
        with plain(client) as database:
            database.execute("UPDATE api_keys SET scopes = '[\"admin\"]' WHERE id = ?", (scoped["id"],))
            database.execute("UPDATE collection_aliases SET collection = 'default'")
        assert failing(client) == {
            "API keys": f"differ from their checksums: {scoped['id']}; 1 in all",
            "aliases of collections": "differ from their checksums: forest; 1 in all",
        }
        assert keys.act("DELETE", f"/v1/keys/{scoped['id']}").status_code == 204
        good(keys.act("PUT", "/v1/aliases/forest", {"collection": wood.name}))
        assert failing(client) == {}


@pytest.mark.parametrize(
    ("damage", "check"),
    [
        ("UPDATE collections SET settings = substr(settings, 2) WHERE id = 2", "settings of wood"),
        ("UPDATE collections SET name = CAST(x'69ff' AS TEXT) WHERE id = 2", "settings of i\ufffd"),
        ("UPDATE models SET lineage = substr(lineage, 2) WHERE collection_id = 2", "records of models of wood"),
        ("UPDATE collection_aliases SET collection = CAST(x'69ff' AS TEXT)", "aliases of collections"),
        ("UPDATE events SET created_at = 'x'", "events of wood"),
        ("UPDATE keys SET vector = x'00' WHERE event_id = 1", "memory of wood"),
        ("UPDATE documents SET text = CAST(x'69ff' AS TEXT) WHERE row = 1", "documents of wood"),
        ("UPDATE keys SET event_id = NULL WHERE event_id = 1", "memory of wood"),
    ],
)
def test_the_command_names_a_damaged_row_also_if_it_keeps_the_directory_from_opening(
    data: Path, damage: str, check: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(data / "softseek.db", isolation_level=None)) as database:
        database.execute(damage)
    shutil.rmtree(data / "indexes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOFTSEEK_ENCODER", "hashing")
        with pytest.raises(SystemExit):
            main(["doctor", "--data", str(data), "--json"])
    checks = {one["name"]: one for one in json.loads(capsys.readouterr().out)["checks"]}
    assert not checks[check]["ok"]
    assert "1 in all" in checks[check]["detail"]


def test_a_document_with_damaged_text_and_vectors_keeps_its_vectors_until_it_is_posted_again(data: Path) -> None:
    with opened(data) as client:
        wood = CollectionClient(client, "wood")
        with plain(client) as database:
            database.execute("UPDATE documents SET text = 'a yound elm' WHERE id = 'elm'")
            database.execute("UPDATE keys SET span_end = 99 WHERE document_row = 2 AND source IS NULL")
        vectors = stored_vectors(client)
        said = failing(client, repair=True)["repair of the vectors of wood"]
        assert stored_vectors(client) == vectors
        assert said == "0 documents were encoded again; not these, which are damaged: elm; 1 in all"
        assert "documents of wood" in failing(client)
        wood.add({"id": "elm", "text": "a young elm"})
        assert failing(client) == {}


def test_an_event_that_is_damaged_does_not_give_its_text_to_memory(data: Path) -> None:
    with opened(data) as client:
        with plain(client) as database:
            database.execute("UPDATE events SET query_text = 'Odd tree'")
            database.execute("UPDATE keys SET vector = zeroblob(length(vector)) WHERE event_id = 1")
        said = failing(client, repair=True)["repair of the memory of wood"]
        assert said == "0 past queries were encoded again; 1 are lost: delete the feedback on them"
        client.post("/v1/collections/wood/events/delete", json={"client_id": "ada"})
        assert failing(client) == {}


def test_a_table_that_sqlite_cannot_read_is_named(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "rows.db")
    database.migrate()
    with database.write() as connection:
        connection.exec_driver_sql("ALTER TABLE judgments RENAME TO gone")
        assert check_rows(connection).faults == ["judgments cannot be read: no such table: judgments"]
        connection.rollback()
    database.close()
