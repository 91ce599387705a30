"""Impressions are written in batches; a flush does not wait until a batch is full."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

import service.runtime.impressions
from service.runtime.impressions import ImpressionLog
from service.storage.database import Database
from service.storage.tables import Impression
from tests.service.client import CollectionClient, ended, opened, runtime_of

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
    with closing(ImpressionLog(database)) as log:
        for name in ("one", "two", "three"):
            log.add(impression(database, name))
        ended(lambda: {"status": "succeeded" if stored(database) >= {"one", "two"} else "processing"})
        assert "three" not in stored(database)


def test_closing_writes_the_queued_impressions(database: Database) -> None:
    with closing(ImpressionLog(database)) as log:
        log.add(impression(database, "last"))
    assert "last" in stored(database)


def impression(database: Database, name: str) -> dict[str, Any]:
    """Return a copy of the logged impression with another id."""
    with database.read() as connection:
        row = dict(connection.execute(select(Impression.__table__)).mappings().one())
        return row | {"query_id": name, "query_key": row.pop("source")}


def stored(database: Database) -> set[str]:
    with database.read() as connection:
        return set(connection.execute(select(Impression.query_id)).scalars())
