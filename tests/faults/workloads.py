"""What the service does while its disk is recorded: a workload sends requests and notes the truth after each answer."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from alembic import command
from fastapi.testclient import TestClient
from sqlalchemy import create_engine

from index.ranking.attention import AttentionHead
from index.ranking.checkpoint import head_files
from service.runtime.model_registry import register
from service.snapshots import archive
from service.snapshots.restoring import restore, verify
from service.snapshots.state import state_hash
from service.storage.database import DATABASE_FILE, alembic_config
from tests.faults.disk import Step
from tests.faults.recording import Hook, Recorder, recorded
from tests.faults.truth import EMPTY, Truth, truth_of
from tests.service.client import CollectionClient, event, opened, runtime_of

PART_BYTES = 16 * 1024
"""Bytes of a part that a restore writes."""
TREES = "alder ash aspen beech birch cedar elm fir hazel holly larch linden maple oak pine poplar rowan spruce".split()


@dataclass(frozen=True)
class Recording:
    """The steps of a workload, and the truths after its answers. The truth with the number 0 is the one before."""

    steps: list[Step]
    truths: list[Truth]


class Session:
    """A service in this process whose answers are noted."""

    def __init__(self, client: TestClient, recorder: Recorder, data: Path, truths: list[Truth]) -> None:
        self.client = client
        self.forest = CollectionClient(client)
        self.recorder, self._data, self._truths = recorder, data, truths

    def acknowledged(self) -> None:
        """Note that the last request was answered."""
        runtime_of(self.client).impressions.flush()
        self._truths.append(read_live(self._data))
        self.recorder.answer(len(self._truths) - 1)

    def send(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request to the collection and note its answer."""
        return self.ask(method, f"{self.forest.path}/{path}".rstrip("/"), json=body)

    def ask(self, method: str, path: str, status: int | None = None, **more: Any) -> Any:
        """Send a request and note its answer. status: of the answer; None: 2xx."""
        answer = self.client.request(method, path, **more)
        assert answer.is_success if status is None else answer.status_code == status, answer.text
        self.acknowledged()
        return answer.json() if answer.content else None

    def ended(self, task: Any) -> Any:
        """Return a task when it has ended, and note what it did."""
        record = self.forest.ended_task(task)
        self.acknowledged()
        return record


Workload = Callable[[Session], None]


def read_live(data: Path) -> Truth:
    """Return the truth that a reader sees beside the running service."""
    connection = sqlite3.connect(f"file:{data / DATABASE_FILE}?mode=ro", uri=True, isolation_level=None)
    try:
        return truth_of(connection)
    finally:
        connection.close()


def record(workload: Workload, data: Path, hook: Hook | None = None, synchronous: bool = True) -> Recording:
    """Run a workload on a directory, new or closed, and return its recording. synchronous: False is the control."""
    truths = [read_live(data) if (data / DATABASE_FILE).exists() else EMPTY]
    with recorded(data, hook) as recorder:
        with opened(data) as client:
            if not synchronous:
                raw = runtime_of(client).database._writer.raw_connection()
                raw.cursor().execute("PRAGMA synchronous=OFF").close()
                raw.close()
            session = Session(client, recorder, data, truths)
            session.acknowledged()
            workload(session)
        recorder.look()
    return Recording(recorder.steps, truths)


def tree(name: str, text: str = "") -> dict[str, Any]:
    """Return a document."""
    return {
        "id": name, "title": f"the {name}", "text": text or f"{name} is a tree", "metadata": {"letters": len(name)}
    }  # fmt: skip


def ingest(session: Session) -> None:
    """Add, replace, patch and delete documents."""
    session.send("PUT", "", {"filterable": ["letters"]})
    for name in TREES[:4]:
        session.send("PUT", f"documents/{name}", tree(name))
    session.send("POST", "documents?wait=60", {"documents": [tree(name) for name in TREES[4:]]})
    session.send("PUT", f"documents/{TREES[0]}", tree(TREES[0], "the wood of the alder lasts under water"))
    session.send("PATCH", f"documents/{TREES[1]}", {"metadata": {"leaves": "pinnate"}})
    session.send("DELETE", f"documents/{TREES[2]}")
    session.send("POST", "documents/delete", {"filter": "letters = 3"})
    session.forest.search("a tree by the water")
    runtime_of(session.client).save()
    session.send("POST", "documents?wait=60", {"documents": [tree("yew"), tree("willow"), tree("oak", "again an oak")]})


def feedback(session: Session) -> None:
    """Events, judgments and rules: stored, replaced and taken back, with the memory that they make."""
    session.send("POST", "documents?wait=60", {"documents": [tree(name) for name in TREES[:6]]})
    for number, name in enumerate(TREES[:6]):
        query_id = session.forest.search(f"which tree is {name}")["query_id"]
        session.send("POST", "events", event(name, client_id=f"client-{number}", query_id=query_id))
    session.send(
        "POST", "events", [event(name, "purchase", user_query="wood", client_id="buyer") for name in TREES[:3]]
    )
    for rating in (4, 0, None, 2):
        one = {"query": "soft wood", "document_id": "aspen", "rating": rating, "rater": "ada"}
        session.send("POST", "judgments", {"judgments": [one]})
    session.send("PUT", "rules/first", {"query": {"near": "a tall tree"}, "pin": [{"id": "ash", "position": 1}]})
    session.send("PUT", "documents/alder", tree("alder", "a tree that replaces the alder and keeps its memory"))
    session.send("POST", "events/delete", {"client_id": "client-3"})
    session.send("DELETE", "documents/ash")
    session.send("DELETE", "rules/first")


def put_model_file(client: TestClient, scale: float, name: str = "default", **parameters: float) -> int:
    """Register a head that was made by hand, as a training run does; return its version."""
    runtime = runtime_of(client)
    state = runtime.collection(name)
    initial = AttentionHead(state.initial)
    files = head_files(initial.changed(beta=scale * initial.beta, **parameters), {"kind": "by hand"})
    version = len(CollectionClient(client, name).get("models")["models"])
    with state.lock, runtime.database.write() as connection:
        register(state, connection, files, version, {"lineage": {}, "report": {}, "decision": {}})
    return version


def promotion(session: Session) -> None:
    """Register models, promote them, and roll back."""
    session.send("POST", "documents?wait=60", {"documents": [tree(name) for name in TREES[:6]]})
    for scale in (0.5, 2.0, 3.0):
        version = put_model_file(session.client, scale)
        session.acknowledged()
        session.send("PUT", "models/aliases/champion", {"version": version, "force": True, "reason": f"x{scale}"})
    session.send("POST", "models/aliases/champion/rollback")
    session.send("POST", "models/aliases/champion/rollback")


def training(session: Session) -> None:
    """Judge, train and promote what the gate lets pass."""
    session.send("POST", "documents?wait=60", {"documents": [tree(f"{name}-{n}") for name in TREES for n in range(2)]})
    rows = [(f"which {name} is it", f"{name}-{n}") for name in TREES for n in range(2)]
    judged = [{"query": query, "document_id": id, "rating": 3} for query, id in rows]
    judged += [{"query": f"the tree {id}", "document_id": id, "rating": 2} for _, id in rows]
    session.send("POST", "judgments", {"judgments": judged})
    session.recorder.syncing_child = "staging"
    run = session.send("POST", "training-runs", {"budget_seconds": 1})
    assert session.forest.ended_run(run["id"])["status"] == "succeeded"
    session.acknowledged()


def administration(session: Session) -> None:
    """Every act that the audit log has, also acts that are refused, that fail, and that are repeated."""
    session.send("POST", "documents?wait=60", {"documents": [tree(name) for name in TREES[:6]]})
    for name in ("one", "two"):
        session.ask("PUT", f"/v1/collections/{name}", json={"filterable": ["letters"]})
    session.send("PUT", "", {"filterable": ["letters"], "memory_half_life_days": 100})
    session.ask("POST", "/v1/collections/swap", json={"a": "one", "b": "two"})
    refused = {"Idempotency-Key": "refused"}
    session.ask("POST", "/v1/collections/swap", 404, json={"a": "one", "b": "missing"}, headers=refused)
    session.ask("PUT", "/v1/aliases/woods", json={"collection": "one"})
    session.ask("PUT", "/v1/aliases/woods", json={"collection": "default"})
    session.ask("PUT", "/v1/aliases/fields", 404, json={"collection": "missing"})
    session.ask("DELETE", "/v1/aliases/woods")
    session.ended(session.ask("DELETE", "/v1/collections/two"))
    session.send("POST", "documents/delete", {"filter": "letters = 3"})
    put_model_file(session.client, 0.5)
    session.acknowledged()
    session.send("PUT", "models/aliases/champion", {"version": 1, "force": True})
    for _ in range(2):  # the second is the answer that was kept
        once = {"Idempotency-Key": "back"}
        session.ask("POST", f"{session.forest.path}/models/aliases/champion/rollback", headers=once)
    session.send("PUT", "models/aliases/champion", {"version": 1})
    made = session.ended(session.ask("POST", "/v1/snapshots"))["result"]["file"]
    session.ask("DELETE", f"/v1/snapshots/{made.removeprefix('snapshots/softseek-').removesuffix('.tar')}")
    everything = session.client.get("/v1/export").content
    session.acknowledged()
    session.ended(session.ask("POST", "/v1/import", content=everything))  # its task fails: the collections exist
    session.ended(session.ask("POST", "/v1/erasures", json={"client": "unknown"}))
    _make_keys(session)


def _make_keys(session: Session) -> None:
    """Make, rotate and delete keys. The last key with `admin` is not deleted."""
    admin = session.ask("POST", "/v1/keys", json={"name": "first", "scopes": ["admin"]})
    session.client.headers["Authorization"] = f"Bearer {admin['key']}"
    other = session.ask("POST", "/v1/keys", json={"name": "second", "scopes": ["search"]})
    session.ask("POST", f"/v1/keys/{other['id']}/rotate", json={"grace_seconds": 60})
    session.ask("DELETE", f"/v1/keys/{other['id']}")
    session.ask("DELETE", f"/v1/keys/{admin['id']}", 409)


def snapshot(session: Session) -> None:
    """Make and verify snapshots of documents, feedback and a model. Every write of their files is recorded."""
    session.send("POST", "documents?wait=60", {"documents": [tree(name) for name in TREES[:6]]})
    session.send("POST", "judgments", {"judgments": [{"query": "soft wood", "document_id": "aspen", "rating": 4}]})
    put_model_file(session.client, 0.5)
    session.acknowledged()
    for name in ("yew", "willow"):
        with each_write(session.recorder):
            made = session.ended(session.ask("POST", "/v1/snapshots"))["result"]
        runtime = runtime_of(session.client)
        with runtime.database.read() as connection:
            assert verify(runtime.settings.data / made["file"])["state"] == state_hash(connection).sha256
        session.send("PUT", f"documents/{name}", tree(name))


@contextmanager
def each_write(recorder: Recorder) -> Iterator[None]:
    """Look at the disk after each write to the file of a snapshot, and before each read of it."""
    write, read = archive._Hashed.write, archive._Hashed.read

    def seen_write(out: Any, data: Any) -> int:
        count = write(out, data)
        out._file.flush()
        recorder.look()
        return count

    def seen_read(source: Any, size: int = -1) -> bytes:
        recorder.look()
        return read(source, size)

    with (
        patch.object(archive._Hashed, "write", seen_write),
        patch.object(archive._Hashed, "read", seen_read),
        patch.object(archive, "PART_BYTES", PART_BYTES),
    ):
        yield


def restored(file: Path, root: Path) -> Recording:
    """Restore a snapshot into the new directory `data` of a folder, and return the recording."""
    root.mkdir()
    with recorded(root) as recorder, each_write(recorder):
        restore(file, root / "data")
        recorder.look()
    return Recording(recorder.steps, [EMPTY])


def start(session: Session) -> None:
    """Nothing but a start and a stop: of a directory with an earlier schema it is a migration."""


def directory_of_an_earlier_release(data: Path, revision: str = "0003") -> None:
    """Make a directory with documents and feedback whose tables have the schema of an earlier release."""
    record(feedback, data)
    engine = create_engine(f"sqlite:///{data / DATABASE_FILE}")
    with engine.connect() as connection:
        command.downgrade(alembic_config(connection), revision)
        connection.commit()
    engine.dispose()


WORKLOADS: dict[str, Workload] = {
    "ingest": ingest,
    "feedback": feedback,
    "promotion": promotion,
    "administration": administration,
    "snapshot": snapshot,
    "training": training,
    "migration": start,
}
