"""A deleted key is refused as soon as its deletion is committed, and not before."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event

from service.keys import actions
from tests.service.authorised import Keys, bearer
from tests.service.client import opened, problem, runtime_of


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("keys") / "data") as client:
        yield client


@pytest.fixture(scope="module")
def keys(client: TestClient) -> Keys:
    return Keys.first(client)


@contextmanager
def failing_commits(client: TestClient) -> Iterator[None]:
    """Let every commit fail."""

    def fail(_connection: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    writer = runtime_of(client).database._writer
    event.listen(writer, "commit", fail)
    try:
        yield
    finally:
        event.remove(writer, "commit", fail)


def test_a_deletion_whose_commit_fails_leaves_the_key_valid(client: TestClient, keys: Keys) -> None:
    made = keys.make("admin")
    with failing_commits(client):
        assert keys.act("DELETE", f"/v1/keys/{made['id']}").status_code == 500
    assert client.get("/v1/keys", headers=bearer(made["key"])).status_code == 200
    assert keys.act("DELETE", f"/v1/keys/{made['id']}").status_code == 204
    assert client.get("/v1/keys", headers=bearer(made["key"])).status_code == 401


def test_two_deletions_at_once_leave_a_key_with_admin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path / "data") as client:
        keys = Keys.first(client)
        other = keys.make("admin")
        (mine,) = [one["id"] for one in keys.act("GET", "/v1/keys").json()["keys"] if one["id"] != other["id"]]
        with monkeypatch.context() as before_the_load:
            before_the_load.setattr(actions, "reload", lambda _: None)
            assert keys.act("DELETE", f"/v1/keys/{other['id']}").status_code == 204
            problem(keys.act("DELETE", f"/v1/keys/{mine}"), 409, "last_admin_key")
