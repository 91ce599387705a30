"""With thousands of API keys, one tenant's key is made, used and deleted without reading the others."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from service.keys import actions
from tests.service.authorised import Keys, bearer
from tests.service.client import good, opened, runtime_of
from tests.service.test_keys import search


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with opened(tmp_path / "data") as client:
        yield client


def test_a_key_is_changed_without_reading_the_others(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Keys.first(client)
    others = [keys.make("search") for _ in range(3)]
    for reads_all in ("known_keys", "key_rows", "damaged_keys"):
        monkeypatch.delattr(actions, reads_all)
    made = keys.make("search")
    assert search(client, bearer(made["key"])).status_code == 200
    rotated = good(keys.act("POST", f"/v1/keys/{made['id']}/rotate"))
    assert [search(client, bearer(one["key"])).status_code for one in (made, rotated)] == [401, 200]
    assert keys.act("DELETE", f"/v1/keys/{made['id']}").status_code == 204
    assert search(client, bearer(rotated["key"])).status_code == 401
    assert all(search(client, bearer(one["key"])).status_code == 200 for one in others)


def test_last_uses_are_stored_in_parts(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "WRITTEN_KEYS", 2)
    keys = Keys.first(client)
    made = [keys.make("search") for _ in range(5)]
    for one in made:
        search(client, bearer(one["key"]))
    runtime = runtime_of(client)
    written = []
    write = runtime.database.write
    monkeypatch.setattr(runtime.database, "write", lambda: written.append(1) or write())
    actions.store_last_uses(runtime, least_seconds=0)
    assert len(written) == 3, "the key with admin and five others, two at a time"
    monkeypatch.undo()
    with runtime.database.read() as connection:
        assert not actions.damaged_keys(connection)
        assert all(row.last_used_at for row in actions.key_rows(connection))


def test_a_key_that_changes_meanwhile_keeps_its_change(client: TestClient) -> None:
    keys = Keys.first(client)
    made = keys.make("search")
    with runtime_of(client).database.write() as connection:
        rows = actions.repository.stored_keys(connection)
        actions.repository.change_key(connection, made["id"], {"name": "renamed"})
        actions.repository.store_last_uses(connection, rows, ["2026-01-01T00:00:00.000Z"] * 2)
        (row,) = [row for row in actions.key_rows(connection) if row.id == made["id"]]
        assert (row.name, row.last_used_at) == ("renamed", None)
