"""A write that fails (EIO), and a full disk (ENOSPC): the request gets an error, and the service loses nothing."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from errno import EIO, ENOSPC, errorcode
from pathlib import Path
from typing import Any

import pytest

from tests.faults.failing import FailingDisk
from tests.faults.recording import recorded
from tests.faults.sqlite_vfs import find_library
from tests.faults.tally import SOAK, tell
from tests.faults.truth import Truth
from tests.faults.workloads import TREES, put_model_file, read_live, tree
from tests.service.client import CollectionClient, event, opened, runtime_of

pytestmark = [
    pytest.mark.sqlite,
    pytest.mark.skipif(find_library() is None, reason="this Python hides the functions of its SQLite"),
]
FAILURES = range(120) if SOAK else (0, 6, 7, 25)
"""Numbers of the change that fails, counted from the start of the request."""
KEPT = ("documents", "events", "judgments", "memory", "rules", "changes")
"""Parts of the truth that a restart does not change. It completes deletions of collections."""
NAMED = ("put a document", "post documents")
"""Requests whose answer names a full disk at each of their changes."""
REQUESTS = {
    "put a document": ("PUT", "documents/{name}"),
    "post documents": ("POST", "documents?wait=60"),
    "delete a document": ("DELETE", "documents/{old}"),
    "judge": ("POST", "judgments"),
    "send events": ("POST", "events"),
    "delete events": ("POST", "events/delete"),
    "put a rule": ("PUT", "rules/{name}"),
    "promote": ("PUT", "models/aliases/champion"),
    "roll back": ("POST", "models/aliases/champion/rollback"),
    "change settings": ("PUT", ""),
    "delete a collection": ("DELETE", "../spare-{name}"),
}


def body(request: str, name: str) -> Any:
    """Return the body of a request that changes something."""
    number = sum(map(ord, name))
    return {
        "put a document": tree(name, f"{name} grows here"),
        "post documents": {"documents": [tree(name), tree(f"{name}-too")]},
        "judge": {"judgments": [{"query": f"what is {name}", "document_id": "oak", "rating": 3}]},
        "send events": event("oak", client_id=name, user_query=f"where is {name}"),
        "delete events": {"client_id": f"old-{name}"},
        "put a rule": {"query": {"exact": name}, "pin": [{"id": "oak", "position": 1}]},
        "promote": {"version": 1, "force": True, "reason": name},
        "change settings": {"retention_days": 1000 + number},
    }.get(request)


@dataclass(frozen=True)
class Machine:
    """A running service on a disk that can fail."""

    forest: CollectionClient
    disk: FailingDisk
    data: Path


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    data, disk = tmp_path_factory.mktemp("failing") / "data", FailingDisk()
    with recorded(data, disk):
        with opened(data, max_tasks=1000) as client:
            forest = CollectionClient(client)
            forest.add(*map(tree, TREES))
            put_model_file(client, 2.0)
            yield Machine(forest, disk, data)
            before = read_live(data)
        with opened(data) as client:
            after, found = read_live(data), CollectionClient(client).get("documents", limit=1000)["documents"]
            assert {name: after[name] for name in KEPT} == {name: before[name] for name in KEPT}
            assert {f"default/{one['id']}" for one in found} == set(before["documents"])


def prepare(machine: Machine, request: str, name: str) -> None:
    """Make what the request takes away."""
    forest = machine.forest
    if request == "delete a document":
        forest.add(tree(f"old-{name}"))
    elif request == "delete events":
        forest.act("oak", client_id=f"old-{name}", user_query="an old tree")
    elif request == "roll back":
        for version in (0, 1):
            forest.client.put(
                f"{forest.path}/models/aliases/champion", json={"version": version, "force": True}
            ).raise_for_status()
    elif request == "delete a collection":
        forest.client.put(f"/v1/collections/spare-{name}", json={}).raise_for_status()
    runtime_of(forest.client).impressions.flush()


def send(machine: Machine, request: str, name: str) -> Any:
    """Send the request; wait for its background work."""
    method, path = REQUESTS[request]
    address = f"{machine.forest.path}/{path.format(name=name, old=f'old-{name}')}".rstrip("/")
    address = address.replace("/default/../", "/")
    answer = machine.forest.client.request(method, address, json=body(request, name))
    runtime_of(machine.forest.client).impressions.flush()
    if answer.status_code == 202 and "status" in answer.json():
        machine.forest.ended_task(answer.json())
    return answer


@pytest.mark.parametrize("errno", [EIO, ENOSPC], ids=errorcode.get)
@pytest.mark.parametrize("request_name", REQUESTS)
def test_a_failed_write_fails_its_request_and_no_other(machine: Machine, request_name: str, errno: int) -> None:
    for after in FAILURES:
        name = f"{errorcode[errno].lower()}-{after}"
        prepare(machine, request_name, name)
        before = read_live(machine.data)
        machine.disk.arm(after, errno)
        answer = send(machine, request_name, name)
        failed = machine.disk.disarm()
        loss = None
        if answer.status_code >= 500:
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["code"]
            assert failed
            if errno == ENOSPC and request_name in NAMED:
                assert (answer.status_code, answer.json()["code"]) == (507, "insufficient_storage")
        elif not answer.is_success:
            loss = f"{request_name}: {answer.text}"
        elif request_name != "roll back" and without_acts(read_live(machine.data)) == without_acts(before):
            loss = f"{request_name}: acknowledged, and nothing changed"
        again = send(machine, request_name, name)
        if not again.is_success and again.status_code not in (404, 409):  # what a failed answer had done before
            loss = f"{request_name}, sent again: {again.text}"
        assert tell(f"{errorcode[errno]}: {request_name}", loss or unserved(machine, before)) is None
        if not failed:
            break


def without_acts(truth: Truth) -> Truth:
    """Return a truth without the audit log, which also has acts that change nothing."""
    return {name: part for name, part in truth.items() if name != "acts"}


def unserved(machine: Machine, before: dict[str, Any]) -> str | None:
    """Return what the service no longer serves of the documents that it had acknowledged and not deleted since."""
    now = read_live(machine.data)
    texts = {key.split("/", 1)[1]: text for key, (_, text, _) in now["documents"].items()}
    found = {hit["id"]: hit["text"] for hit in machine.forest.search("*", limit=1000, log=False)["hits"]}
    if found != texts:
        return f"served {sorted(found)}, stored {sorted(texts)}"
    lost = {key for key in before["documents"] if key not in now["documents"] and "/old-" not in key}
    return f"lost {sorted(lost)}" if lost else None


@pytest.mark.parametrize("request_name", ["put a document", "judge", "send events"])
def test_a_full_disk_is_named_in_the_answer(machine: Machine, request_name: str) -> None:
    machine.disk.arm(0, ENOSPC)
    answer = send(machine, request_name, "full")
    machine.disk.disarm()
    assert answer.status_code == 507


@pytest.mark.parametrize(("errno", "status"), [(ENOSPC, 507), (EIO, 500)], ids=["ENOSPC", "EIO"])
def test_a_failed_sync_of_the_database_is_a_full_disk_where_it_lacks_space(
    machine: Machine, errno: int, status: int, tmp_path: Path
) -> None:
    for after in range(100):
        name = f"synced-{errno}-{after}"
        machine.disk.arm(after, errno)
        answer = send(machine, "judge", name)
        assert machine.disk.disarm(), "no sync of the database failed"
        if machine.disk.failed[0] == "sync softseek.db-wal":
            break
    assert answer.status_code == status
    assert ("was undone" in answer.json()["detail"]) == (errno == ENOSPC)
    assert is_stored(machine.data / "softseek.db", name) == 0
    for suffix in ("", "-wal"):  # what a kill leaves
        shutil.copy(machine.data / f"softseek.db{suffix}", tmp_path / f"killed.db{suffix}")
    assert is_stored(tmp_path / "killed.db", name) == 1
    assert send(machine, "judge", name).status_code == 200


def is_stored(database: Path, name: str) -> int:
    """Return the number of judgments of a query that a reader of the database sees."""
    with closing(sqlite3.connect(database)) as connection:
        wanted = "SELECT count(*) FROM judgments WHERE query_text = ?"
        return int(connection.execute(wanted, (f"what is {name}",)).fetchone()[0])


def test_an_index_that_cannot_be_saved_is_made_again(machine: Machine) -> None:
    for after in (0, 3, 9, 20, 40):
        machine.forest.add(tree(f"unsaved-{after}"))
        machine.disk.arm(after, ENOSPC)
        runtime_of(machine.forest.client).save()
        machine.disk.disarm()
        assert machine.forest.ids(f"unsaved-{after}", mode="words")[0] == f"unsaved-{after}"
    assert sqlite3.connect(machine.data / "softseek.db").execute("PRAGMA integrity_check").fetchone() == ("ok",)
