"""Statements that touch very many rows, and deletions that PostgreSQL refuses."""

import re
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

from benchmarks.postgres import PostgresServer
from service.storage.change_log import ENTRY_KEYS, newest_position, touched_after
from tests.service.client import CollectionClient, create, opened, runtime_of

COPIES = (
    "INSERT INTO queries SELECT 'copy ' || number, collection_id, text, source, client_id, session_id, request, shown,"
    " null_weight, model_version, generation, created_at, checksum FROM queries, generate_series(1, :count) number"
)
REFUSED = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'too many rows' USING ERRCODE = 'program_limit_exceeded'; END $$;
CREATE TRIGGER refused BEFORE DELETE ON queries FOR EACH ROW EXECUTE FUNCTION refuse();
"""


@pytest.fixture
def address(postgres_server: PostgresServer, request: pytest.FixtureRequest) -> str:
    return postgres_server.database(re.sub(r"\W+", "_", request.node.name)[-50:])


def execute(address: str, statements: str) -> None:
    with psycopg.connect(address.replace("+psycopg", "", 1), autocommit=True) as connection:
        connection.execute(statements)


def test_a_statement_that_touches_many_rows_writes_entries_of_bounded_size(address: str, tmp_path: Path) -> None:
    count = 2 * ENTRY_KEYS + 1
    with opened(tmp_path / "data", database=address) as client:
        shop = create(client, "shop")
        shop.add({"id": "oak", "text": "an old oak"})
        shop.search("oak")
        runtime_of(client).impressions.flush()
        database = runtime_of(client).database
        for statement, touched in ((COPIES, count), ("DELETE FROM queries WHERE :count > 0", count + 1)):
            with database.read() as connection:
                before = newest_position(connection).number
            with database.write() as connection:
                connection.execute(text(statement), {"count": count})
            with database.read() as connection:
                wanted = text("SELECT jsonb_array_length(row_keys) FROM changes WHERE number > :before")
                lengths = list(connection.execute(wanted, {"before": before}).scalars())
                assert len(touched_after(connection, before)["queries"]) == touched
            assert sum(lengths) == touched
            assert len(lengths) == 3
            assert max(lengths) == ENTRY_KEYS


def test_a_statement_that_touches_no_row_writes_no_entry(address: str, tmp_path: Path) -> None:
    with opened(tmp_path / "data", database=address) as client:
        database = runtime_of(client).database
        with database.write() as connection:
            before = newest_position(connection)
            connection.execute(text("DELETE FROM queries"))
            assert newest_position(connection) == before


def test_a_start_gives_a_database_the_newest_trigger(address: str, tmp_path: Path) -> None:
    with opened(tmp_path / "data", database=address):
        pass
    execute(
        address,
        "CREATE OR REPLACE FUNCTION softseek_log_change() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE 'the trigger of before'; END $$",
    )
    with opened(tmp_path / "data", database=address) as client:
        CollectionClient(client).add({"id": "oak", "text": "an old oak"})


def test_a_refused_deletion_is_no_lost_database_and_stops_no_start(address: str, tmp_path: Path) -> None:
    with opened(tmp_path / "data", database=address) as client:
        shop = create(client, "shop")
        shop.add({"id": "oak", "text": "an old oak"})
        shop.search("oak")
        runtime_of(client).impressions.flush()
        execute(address, REFUSED)
        task = shop.ended_task(client.delete("/v1/collections/shop").json())
        assert (task["status"], task["error"]["code"]) == ("failed", "internal_error")
    with opened(tmp_path / "data", database=address) as client:
        names = [one["name"] for one in client.get("/v1/collections").json()["collections"]]
        assert names == ["default"]
        create(client, "shop").add({"id": "elm", "text": "an old elm"})
    execute(address, "DROP TRIGGER refused ON queries")
    with opened(tmp_path / "data", database=address) as client:
        with runtime_of(client).database.read() as connection:
            stored = connection.execute(text("SELECT name FROM collections ORDER BY name")).scalars().all()
        assert stored == ["default", "shop"]
        assert CollectionClient(client, "shop").ids("old") == ["elm"]
