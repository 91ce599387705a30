"""Impressions are written in batches; a flush does not wait until a batch is full."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, insert, select

import service.runtime.impressions
from service.http.metrics import LOST_IMPRESSIONS
from service.runtime.feedback_repository import insert_impressions
from service.runtime.impressions import ImpressionLog
from service.runtime.repeated_failures import RepeatedFailures
from service.storage.database import Database
from service.storage.tables import QUERIES
from tests.service.client import DEADLINE_SECONDS, CollectionClient, ended, opened, runtime_of
from tests.service.workers.services import until

ONE_HOUR = 3600


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """The database of a service that has logged an impression. New logs write only full batches, or at a flush."""
    with opened(tmp_path / "data") as client:
        CollectionClient(client).add({"id": "oak", "text": "a tree with acorns"})
        CollectionClient(client).search("acorns")
        runtime_of(client).impressions.flush()
        monkeypatch.setattr(service.runtime.impressions, "GATHERED_SECONDS", ONE_HOUR)
        yield runtime_of(client).database


def test_a_flush_does_not_wait_for_a_full_batch(database: Database) -> None:
    with closing(ImpressionLog(database)) as log:
        log.add(impression(database, "one"))
        log.add(impression(database, "two"))
        log.flush()
        assert stored(database) >= {"one", "two"}


def test_a_full_batch_is_written(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service.runtime.impressions, "BATCH", 2)
    made = [impression(database, name) for name in ("one", "two", "three")]  # it copies the only stored row
    with closing(ImpressionLog(database)) as log:
        for one in made[:2]:
            log.add(one)
        ended(lambda: {"status": "succeeded" if stored(database) >= {"one", "two"} else "processing"})
        log.add(made[2])
        assert not log._is_due.is_set()  # it waits for its time, an hour


def test_many_impressions_are_written_in_several_transactions(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []

    def insert_and_count(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
        written.append(len(rows))
        insert_impressions(connection, rows)

    monkeypatch.setattr(service.runtime.impressions, "insert_impressions", insert_and_count)
    made = [impression(database, name) for name in "abcde"]
    with closing(ImpressionLog(database)) as log:
        for one in made:
            log.add(one)
        monkeypatch.setattr(service.runtime.impressions, "BATCH", 2)
        log.flush()
    assert written == [2, 2, 1]
    assert stored(database) >= set("abcde")


def test_a_search_waits_while_too_many_impressions_are_queued(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.runtime.impressions, "BATCH", 1)
    monkeypatch.setattr(service.runtime.impressions, "MOST_QUEUED", 2)
    monkeypatch.setattr(service.runtime.impressions, "GATHERED_SECONDS", 0.001)
    made = [impression(database, name) for name in "abcd"]
    with closing(ImpressionLog(database)) as log:
        with database.write():  # the thread of the log waits, with at most one batch
            adding = threading.Thread(target=lambda: [log.add(one) for one in made])
            adding.start()
            until(lambda: len(log._waiting) == 2)
            assert adding.is_alive()
        adding.join(DEADLINE_SECONDS)
        log.flush()
    assert stored(database) >= set("abcd")


def test_the_impressions_of_a_deleted_collection_are_left_out_without_an_error(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[BaseException] = []
    monkeypatch.setattr(RepeatedFailures, "failed", lambda _self, error: lost.append(error))
    made = [impression(database, name) for name in ("kept", "deleted")]
    with closing(ImpressionLog(database)) as log:
        log.add(made[0])
        log.add(made[1] | {"collection_id": 10**6})
        log.flush()
        log.add(made[1] | {"collection_id": 10**6})
        log.flush()
    assert (stored(database) & {"kept", "deleted"}, lost) == ({"kept"}, [])


def test_impressions_that_cannot_be_stored_are_counted(database: Database) -> None:
    before = LOST_IMPRESSIONS._value.get()
    with closing(ImpressionLog(database)) as log:
        log.add(impression(database, "kept"))
        log.add(impression(database, "lost") | {"query_id": None})
        log.flush()
    assert "kept" in stored(database)
    assert LOST_IMPRESSIONS._value.get() == before + 1


def test_closing_writes_the_queued_impressions(database: Database) -> None:
    with closing(ImpressionLog(database)) as log:
        log.add(impression(database, "last"))
    assert "last" in stored(database)


@pytest.mark.sqlite
def test_an_impression_is_stored_as_the_tables_describe_it(database: Database) -> None:
    """The statement that the driver gets stores the row that SQLAlchemy stores, with shorter JSON."""
    explored = {"id": "œuvre-\U0001f600", "position": 2, "logit": -1e-05, "score": 0.125, "selection_probability": 0.1}
    changed = {
        "text": '"quoted" \\ línea\n',
        "client_id": None,
        "session_id": "filter:0a1b2c3d:s",
        "request": {"limit": 10, "filter": "größe > 3", "context": ["ä", "b"], "explore": 0.05, "operators": True},
        "shown": [{"id": "oak", "position": 1, "logit": 2.5, "score": 0.25, "pinned": True}, explored],
        "null_weight": 1.0,
        "model_version": 7,
        "generation": 2**40,
    }
    rows = [impression(database, name) | changed for name in ("one", "two")]
    with database.write() as connection:
        insert_impressions(connection, rows)
        connection.execute(insert(QUERIES), [row | {"query_id": f"{row['query_id']} as before"} for row in rows])
    for name in ("one", "two"):
        assert row_of(database, name) == row_of(database, f"{name} as before")
    (texts,) = database.fetch("SELECT request, shown FROM queries WHERE query_id = 'two'", [])
    assert texts == (
        '{"limit":10,"filter":"größe > 3","context":["ä","b"],"explore":0.05,"operators":true}',
        '[{"id":"oak","position":1,"logit":2.5,"score":0.25,"pinned":true},'
        '{"id":"œuvre-\U0001f600","position":2,"logit":-0.00001,"score":0.125,"selection_probability":0.1}]',
    )


def row_of(database: Database, name: str) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Return the row of an impression without its id, as SQLAlchemy reads it, and the types of its columns."""
    with database.read() as connection:
        row = connection.execute(select(QUERIES).where(QUERIES.c.query_id == name)).mappings().one()
    types = ",".join(f"typeof({column})" for column in row)
    ((*found,),) = database.fetch(f"SELECT {types} FROM queries WHERE query_id = ?", [name])
    other = {"query_id", "checksum"}  # the checksum covers the id and the JSON text
    return {column: value for column, value in row.items() if column not in other}, tuple(found)


def impression(database: Database, name: str) -> dict[str, Any]:
    """Return a copy of the logged impression with another id."""
    with database.read() as connection:
        row = dict(connection.execute(select(QUERIES)).mappings().one())
        return row | {"query_id": name, "query_key": row.pop("source")}


def stored(database: Database) -> set[str]:
    with database.read() as connection:
        return set(connection.execute(select(QUERIES.c.query_id)).scalars())
