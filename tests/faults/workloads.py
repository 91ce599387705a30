"""What the service does while its disk is recorded: a workload sends requests and notes the truth after each answer."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alembic import command
from fastapi.testclient import TestClient
from sqlalchemy import create_engine

from index.ranking.attention import AttentionHead
from index.ranking.checkpoint import save_head
from service.runtime.model_registry import register
from service.storage.database import DATABASE_FILE, alembic_config
from tests.faults.disk import Step
from tests.faults.recording import Hook, Recorder, recorded
from tests.faults.truth import EMPTY, Truth, truth_of
from tests.service.client import CollectionClient, event, opened, runtime_of

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
        answer = self.client.request(method, f"{self.forest.path}/{path}".rstrip("/"), json=body)
        assert answer.is_success, answer.text
        self.acknowledged()
        return answer.json() if answer.content else None


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


def put_model_file(client: TestClient, scale: float) -> int:
    """Register a head that was made by hand, as a training run does; return its version."""
    runtime = runtime_of(client)
    state = runtime.collection("default")
    initial = AttentionHead(state.initial)
    staged = runtime.staging / "by-hand" / "model"
    save_head(staged, initial.changed(beta=scale * initial.beta), {"kind": "by hand"})
    version = len(CollectionClient(client).get("models")["models"])
    with state.lock, runtime.database.write() as connection:
        register(runtime, state, connection, staged, version, {"lineage": {}, "report": {}, "decision": {}})
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
    "training": training,
    "migration": start,
}
