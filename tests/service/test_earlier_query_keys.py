"""Query keys of earlier releases, which kept the dot of İ and invisible characters, become those of this release."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection, Engine, event, insert, select, text, update

from index.memory.query_key import anonymous_key, as_query_key, earlier_query_key
from index.records import KeyKind
from service.feedback.repository import delete_anonymous
from service.storage.base import METADATA
from service.storage.checked_rows import is_sound, stored_rows
from service.storage.database import Database
from service.storage.opening import open_database
from tests.service.earlier_schema import return_to

AT = "2026-11-01T00:00:00Z"
EVENT = {"collection_id": 1, "action_name": "click", "grade": 1.0, "timestamp": AT, "body": {"ö": 1}, "created_at": AT}
JUDGMENT = {"collection_id": 1, "document_id": "d", "rater": "ada", "created_at": AT}
IMPRESSION = {
    "collection_id": 1,
    "request": {},
    "shown": [],
    "null_weight": 0.5,
    "model_version": 0,
    "generation": 1,
    "created_at": AT,
}
KEY = {"collection_id": 1, "document_row": 7, "kind": KeyKind.QUERY, "vector": b"\0" * 8, "weight": 1.0} | {
    "span_start": 0,
    "span_end": 0,
}
TABLES = ("events", "judgments", "queries", "keys")


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    address = None
    if request.param == "postgres":
        address = request.getfixturevalue("postgres_server").database(f"keys_{uuid4().hex}")
    database = migrated(tmp_path, address)
    yield database
    database.close()


def migrated(path: Path, address: str | None) -> Database:
    """Return a database with a collection and a document."""
    database = open_database(path, address)
    database.migrate()
    with database.write() as connection:
        add(connection, "collections", id=1, name="c", settings={}, encoder="e", fingerprint="f", dim=2, created_at=AT)
        add(connection, "documents", row=7, collection_id=1, id="d", text="", metadata={}, created_at=AT)
    return database


def add(connection: Connection, table: str, **values: Any) -> None:
    connection.execute(insert(METADATA.tables[table]).values(values))


def add_feedback(connection: Connection, number: int, query: str, rating: int | None = None) -> None:
    """Add an event, an impression and a judgment of a query as an earlier release stores them."""
    key = earlier_query_key(query)
    add(connection, "events", id=number, query_text=query, query_key=key, **EVENT)
    add(connection, "queries", query_id=f"q{number}", text=query, query_key=key, **IMPRESSION)
    add(connection, "keys", query_key=key, event_id=number, **KEY)
    if rating is not None:
        add(connection, "judgments", id=number, query_text=query, query_key=key, rating=rating, **JUDGMENT)
        add(connection, "keys", query_key=key, judgment_id=number, **KEY)


def upgraded(database: Database) -> None:
    """Upgrade from the schema with the earlier query keys."""
    with database.write() as connection:
        return_to(connection, "0014")
    database.migrate()


def keys_of(connection: Connection, table: str) -> list[str]:
    column = METADATA.tables[table].c.query_key
    return sorted(connection.execute(select(column).where(column.is_not(None))).scalars())


def test_rows_with_an_earlier_key_get_the_key_of_this_release(database: Database) -> None:
    with database.write() as connection:
        for number, query in enumerate(("İSTANBUL", "tea\u00adpot \ufdd0\0", "Oak", "e\u2060\u0301", "İ\u0301"), 1):
            add_feedback(connection, number, query, rating=3)
        assert "i\u0307stanbul" in keys_of(connection, "events")
    upgraded(database)
    with database.read() as connection:
        for table in TABLES:
            assert set(keys_of(connection, table)) == {"istanbul", "teapot \ufdd0\0", "oak", "é", "í"}, table
            assert all(is_sound(table, row) for row in stored_rows(connection, table)), table


@pytest.mark.parametrize(
    "queries", [("istanbul", "İSTANBUL"), ("İstanbul", "ISTANBUL"), ("İstanbul", "is\u00adtanbul")]
)
def test_of_two_judgments_that_become_one_the_later_stays(database: Database, queries: tuple[str, str]) -> None:
    with database.write() as connection:
        for number, query in enumerate(queries, 1):
            add_feedback(connection, number, query, rating=number)
    upgraded(database)
    with database.read() as connection:
        judgments = METADATA.tables["judgments"].c
        found = connection.execute(select(judgments.id, judgments.query_key, judgments.rating)).all()
        assert found == [(2, "istanbul", 2)]
        assert [keys_of(connection, table) for table in ("events", "keys")] == [["istanbul"] * 2, ["istanbul"] * 3]


def test_a_damaged_row_stays_known_as_damaged_and_an_anonymous_name_stays(database: Database) -> None:
    name = anonymous_key(earlier_query_key("İstanbul"))
    with database.write() as connection:
        add_feedback(connection, 1, "İstanbul")
        add(connection, "keys", query_key=name, confirmed_on="2026-11-01", **KEY)
        connection.execute(update(METADATA.tables["events"]).values(query_text="another"))
    upgraded(database)
    with database.write() as connection:
        assert keys_of(connection, "events") == ["istanbul"]
        assert [is_sound("events", row) for row in stored_rows(connection, "events")] == [False]
        assert keys_of(connection, "keys") == [name, "istanbul"]
        assert delete_anonymous(connection, 1, "istanbul") == []
        assert len(delete_anonymous(connection, 1, "İstanbul")) == 1, "it was named after the earlier key"


def test_a_judgment_with_a_text_that_is_no_utf_8_keeps_its_key(tmp_path: Path) -> None:
    database = migrated(tmp_path, None)
    with database.write() as connection:
        for number in range(1, 5):
            add_feedback(connection, number, "İstanbul")
            judgment = JUDGMENT | {"query_text": "İstanbul", "query_key": "i\u0307stanbul", "document_id": str(number)}
            add(connection, "judgments", id=number, rating=number, **judgment)
        for column, number in (("document_id", 1), ("rater", 2)):
            connection.execute(text(f"UPDATE judgments SET {column} = CAST(X'c3' AS TEXT) WHERE id = {number}"))
        connection.execute(text("UPDATE queries SET query_id = CAST(X'c3' AS TEXT) WHERE query_id = 'q1'"))
    upgraded(database)
    with database.read() as connection:
        assert keys_of(connection, "judgments") == ["istanbul"] * 2 + ["i\u0307stanbul"] * 2
        assert keys_of(connection, "queries") == ["istanbul"] * 3 + ["i\u0307stanbul"]
        assert keys_of(connection, "events") == ["istanbul"] * 4
    database.close()


def test_keys_are_found_by_their_index(database: Database) -> None:
    """The index has past queries only: without their kind, all keys of documents are read for each query."""
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_others: Any) -> None:
        statements.append(statement)

    with database.write() as connection:
        add_feedback(connection, 1, "İstanbul")
    event.listen(Engine, "before_cursor_execute", note)
    try:
        upgraded(database)
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    of_keys = [one for one in statements if 'FROM "keys"' in one]
    assert ["kind = 3" in one for one in of_keys] == [True] * 3


def test_a_key_of_this_release_stays_as_it_is() -> None:
    for query in ("İSTANBUL", "tea\u00adpot", "e\u2060\u0301", "ΟΔΟΣ", "Straße", "ＷｉＦｉ  6"):
        assert as_query_key(as_query_key(query)) == as_query_key(earlier_query_key(query)) == as_query_key(query)
