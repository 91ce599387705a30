"""A client for tests: the service runs in this process, without a network, with the hashing encoder."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from service.app import create_app
from service.runtime.runtime import Runtime
from service.settings import Settings

DEADLINE_SECONDS = 120
"""The longest time that a test waits for an event."""
ENDED = ("succeeded", "failed", "canceled")
DEFAULT = "/v1/collections/default"
TODAY = datetime.now(UTC).isoformat()
"""The timestamp of events without one of their own. It is the current time, because memory ages."""
SECRET = "hunter2"
"""A text in requests that must not appear in a problem."""
MEMBERS = {"type", "title", "status", "detail", "code", "instance", "errors"}
"""The members of a problem: those of RFC 9457, `code` and `errors`."""


@contextmanager
def opened(data: Path, **settings: Any) -> Iterator[TestClient]:
    """Give a client of the service on this directory. An unhandled error is a 500, as in production."""
    app = create_app(Settings(encoder="hashing", data=data, log_level="warning", **settings))
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


def runtime_of(client: TestClient) -> Runtime:
    """Return the running service behind a client."""
    runtime: Runtime = client.app.state.runtime  # type: ignore[attr-defined]
    return runtime


@dataclass(frozen=True)
class Spoken:
    """A collection of a service. Every call asserts success and returns the JSON of the response."""

    client: TestClient
    name: str = "default"

    @property
    def path(self) -> str:
        """The address of the collection."""
        return f"/v1/collections/{self.name}"

    @property
    def id(self) -> int:
        """The id of the collection in the tables and in the names of its folders."""
        return runtime_of(self.client).collection(self.name).id

    def post(self, path: str, body: Any = None) -> Any:
        """Return the response to a POST below the collection."""
        return good(self.client.post(f"{self.path}/{path}", json=body))

    def get(self, path: str = "", **params: Any) -> Any:
        """Return the response to a GET of the collection, or below it."""
        return good(self.client.get(f"{self.path}/{path}" if path else self.path, params=params))

    def add(self, *documents: dict[str, Any]) -> Any:
        """Post documents and wait until all are searchable."""
        answer = self.client.post(f"{self.path}/documents?wait=60", json={"documents": list(documents)})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def search(self, q: str, **more: Any) -> Any:
        """Return the response of a search."""
        return self.post("search", {"q": q, **more})

    def ranking(self, q: str, **more: Any) -> list[tuple[str, float, float]]:
        """Return id, logit and weight of every hit, for comparisons of all bits."""
        found = self.search(q, log=False, limit=100, **more)["hits"]
        return [(hit["id"], hit["logit"], hit["score"]) for hit in found]

    def ids(self, q: str, **more: Any) -> list[str]:
        """Return the ids of the hits, best first."""
        return [hit["id"] for hit in self.search(q, log=False, **more)["hits"]]

    def act(self, document_id: str, action: str = "click", **more: Any) -> Any:
        """Post an event about a document."""
        return self.post("events", event(document_id, action, **more))

    def judge(self, query: str, document_id: str, rating: int | None, rater: str = "") -> Any:
        """Post a judgment."""
        one = {"query": query, "document_id": document_id, "rating": rating, "rater": rater}
        return self.post("judgments", {"judgments": [one]})

    def train(self, **body: Any) -> Any:
        """Train, and return the record of the ended run."""
        return self.ended_run(self.post("training-runs", body)["id"])

    def ended_run(self, run_id: str) -> Any:
        """Wait for the end of a training run and return its record."""
        return ended(lambda: self.get(f"training-runs/{run_id}"))

    def ended_task(self, task: Any) -> Any:
        """Wait for the end of a task and return it."""
        return ended(lambda: good(self.client.get(f"/v1/tasks/{task['id']}")))

    def until_indexed(self) -> None:
        """Wait until every accepted document is searchable."""

        def look() -> dict[str, Any]:
            seen = self.get()
            waiting = seen["counts"]["pending"] or seen["generation"] != self.search("x", log=False)["generation"]
            return {"status": "processing" if waiting else "succeeded"}

        ended(look)


def create(client: TestClient, name: str, **settings: Any) -> Spoken:
    """Create a collection and return it."""
    answer = client.put(f"/v1/collections/{name}", json=settings)
    assert answer.status_code == 201, answer.text
    return Spoken(client, name)


def event(document_id: str | None, action: str = "click", position: int | None = None, **more: Any) -> dict[str, Any]:
    """Return a UBI event about a document."""
    attributes: dict[str, Any] = {}
    if document_id is not None:
        attributes["object"] = {"object_id": document_id, "object_id_field": "id"}
    if position is not None:
        attributes["position"] = {"ordinal": position}
    return {"action_name": action, "timestamp": TODAY, "event_attributes": attributes, **more}


def good(answer: Any) -> Any:
    """Assert that a response is a success and return its JSON."""
    assert answer.is_success, answer.text
    return answer.json()


def ended(look: Any) -> Any:
    """Call `look` until the status of its result is final, and return the result."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while (seen := look())["status"] not in ENDED:
        assert time.monotonic() < deadline, seen
        time.sleep(0.02)
    return seen


def ndjson(items: Sequence[Any]) -> bytes:
    """Return lines of JSON. A string is used as a line without conversion."""
    lines = [item if isinstance(item, str) else json.dumps(item) for item in items]
    return "\n".join(lines).encode()


def problem(answer: Any, status: int, code: str) -> dict[str, Any]:
    """Assert that a response is a complete problem with this status and code, without the input, and return it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert body.keys() >= MEMBERS
    assert (body["status"], body["code"]) == (status, code)
    assert body["type"].endswith(code)
    assert body["title"]
    assert body["detail"]
    assert body["instance"].startswith("/")
    assert all(one.keys() >= {"pointer", "detail"} for one in body["errors"])
    assert SECRET not in answer.text
    return body
