"""Acts that change no row are in the audit log before they begin: deletions of snapshots, and exports."""

import errno
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.snapshots.stored import Stored, stored_snapshots
from service.storage.reservations import CURRENT, NotedAnswer, Reservation
from tests.service.client import CollectionClient, opened, runtime_of


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("acts") / "data") as client:
        yield client


def snapshots(client: TestClient) -> list[Stored]:
    return stored_snapshots(runtime_of(client).settings.data)


@pytest.fixture
def path(client: TestClient) -> Iterator[str]:
    """The address of the only snapshot."""
    CollectionClient(client).ended_task(client.post("/v1/snapshots").json())
    (made,) = snapshots(client)
    yield f"/v1/snapshots/{made.id}"
    for left in snapshots(client):
        left.delete()


def newest(client: TestClient, count: int) -> list[tuple[str, str, int]]:
    """Return act, target and status of the newest acts, the newest first."""
    acts = client.get("/v1/audit", params={"limit": count}).json()["acts"]
    return [(one["act"], one["target"], one["status"]) for one in acts]


@pytest.mark.parametrize("ended_at", ["the deletion", "the answer"])
def test_a_deletion_that_is_killed_is_in_the_log(
    client: TestClient, path: str, monkeypatch: pytest.MonkeyPatch, ended_at: str
) -> None:
    def killed(snapshot: Stored) -> None:
        snapshot.path.unlink()
        raise OSError(errno.EIO, "the process ends here")

    with monkeypatch.context() as ended:
        ended.setattr("service.audit.actions.record", lambda *_: None)
        if ended_at == "the deletion":
            ended.setattr(Stored, "delete", killed)
        client.delete(path)
    assert snapshots(client) == []
    assert newest(client, 1) == [("delete_snapshot", path, 0)]


def test_a_snapshot_whose_deletion_cannot_be_recorded_stays(
    client: TestClient, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as failing:
        failing.setattr("service.audit.repository.insert_act", refuse)
        assert client.delete(path).status_code == 500
    assert len(snapshots(client)) == 1
    assert [client.delete(path).status_code for _ in range(2)] == [204, 404]
    assert newest(client, 2) == [("delete_snapshot", path, 404), ("delete_snapshot", path, 204)]


def test_an_act_that_is_stored_first_leaves_the_idempotency_key_to_the_work(client: TestClient) -> None:
    stored: list[NotedAnswer] = []
    reservation = Reservation(lambda _connection, noted, _collection_id: stored.append(noted))
    token = CURRENT.set(reservation)
    try:
        runtime_of(client).database.store_act()
        assert stored == []
        with runtime_of(client).database.write():
            pass
        assert stored == [reservation.noted]
    finally:
        CURRENT.reset(token)


def test_an_export_that_is_killed_is_in_the_log(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as ended:
        ended.setattr("service.audit.actions.record", lambda *_: None)
        client.get("/v1/export")
    client.get("/v1/export")
    assert newest(client, 2) == [("export", "/v1/export", 200), ("export", "/v1/export", 0)]
