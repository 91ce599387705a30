"""A client of a service in this process, for tests: HTTP without a network, with the hashing encoder."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from index.records import EncodedQuery
from service.app import create_app
from service.runtime.runtime import Runtime
from service.settings import Settings

DEADLINE_SECONDS = 120
"""Limit of waiting for tasks and runs. A test that reaches it fails."""
ENDED = ("succeeded", "failed", "canceled")
DEFAULT = "/v1/collections/default"
SECRET = "hunter2"
"""A text in requests that must not occur in responses."""
MEMBERS = {"type", "title", "status", "detail", "code", "instance", "errors"}
"""Members of a problem: those of RFC 9457, `code` and `errors`."""


class NoHousekeeping:
    """In the place of a housekeeping thread."""

    def __init__(self, *_: Any) -> None:
        """Start nothing."""

    def stop(self) -> None:
        """End nothing."""


@contextmanager
def opened(data: Path, *, keeps_house: bool = False, **settings: Any) -> Iterator[TestClient]:
    """Yield a client of the service on this directory. Unhandled errors are responses with status 500.

    keeps_house: whether its housekeeping runs. Its rounds, also the first one, come at any moment of a test, so most
    tests run without it, and call the steps that they need.
    """
    app = create_app(Settings(encoder="hashing", data=data, log_level="warning", **settings))
    with ExitStack() as entered:
        with pytest.MonkeyPatch.context() as patch:
            if not keeps_house:
                patch.setattr("service.app.Housekeeping", NoHousekeeping)
            client = entered.enter_context(TestClient(app, raise_server_exceptions=False))
        yield client


def runtime_of(client: TestClient) -> Runtime:
    """Return the runtime of the service of a client."""
    runtime: Runtime = client.app.state.runtime  # type: ignore[attr-defined]
    return runtime


def know_no_emoji(monkeypatch: pytest.MonkeyPatch, runtime: Runtime) -> None:
    """Replace the share of known tokens of the encoder: the words of a text that have a letter or digit."""
    encode = runtime.encoder.encode_query

    def known_share(text: str) -> float:
        words = text.split()
        return sum(any(map(str.isalnum, word)) for word in words) / len(words)

    def encode_query(text: str) -> EncodedQuery:
        return EncodedQuery(encode(text).vector, known_share(text))

    monkeypatch.setattr(runtime.encoder, "encode_query", encode_query)
    monkeypatch.setattr(runtime.encoder, "known_share", known_share)
    runtime.forget_queries()


@dataclass(frozen=True)
class CollectionClient:
    """A collection of a service. Each call asserts success and returns the JSON of the response."""

    client: TestClient
    name: str = "default"

    @property
    def path(self) -> str:
        """The path of the collection."""
        return f"/v1/collections/{self.name}"

    @property
    def id(self) -> int:
        """The number of the collection in the tables and in the names of its folders."""
        return runtime_of(self.client).collection(self.name).id

    def post(self, path: str, body: Any = None) -> Any:
        """Return the response to a POST to a path of the collection."""
        return good(self.client.post(f"{self.path}/{path}", json=body))

    def get(self, path: str = "", **params: Any) -> Any:
        """Return the response to a GET of the collection, or of a path of it."""
        return good(self.client.get(f"{self.path}/{path}" if path else self.path, params=params))

    def add(self, *documents: dict[str, Any]) -> Any:
        """Post documents; return when all are searchable."""
        address = f"{self.path}/documents?wait={DEADLINE_SECONDS}"
        answer = self.client.post(address, json={"documents": list(documents)})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def search(self, q: str, **more: Any) -> Any:
        """Return the response to a search."""
        return self.post("search", {"q": q, **more})

    def ranking(self, q: str, **more: Any) -> list[tuple[str, float, float]]:
        """Return id, logit and weight of every hit, for exact comparisons of rankings."""
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
        """Start a training run; return its record when it has ended."""
        return self.ended_run(self.post("training-runs", body)["id"])

    def ended_run(self, run_id: str) -> Any:
        """Return the record of a training run when it has ended, and the thread that followed it too.

        The thread deletes the files of the run and releases its lock after it has recorded the end.
        """
        run = ended(lambda: self.get(f"training-runs/{run_id}"))
        for thread in self._runtime_here.training.threads if self._runtime_here else ():
            if thread.name == f"training-{run_id}":
                thread.join(DEADLINE_SECONDS)
        return run

    def ended_task(self, task: Any) -> Any:
        """Return a task when it has ended, and has cleaned up: it does so after it has recorded its end."""
        seen = ended(lambda: good(self.client.get(f"/v1/tasks/{task['id']}")))
        if self._runtime_here:
            self._runtime_here.jobs.wait(task["id"], DEADLINE_SECONDS)
        return seen

    @property
    def _runtime_here(self) -> Runtime | None:
        """The runtime of the service, if the service is in this process."""
        state = getattr(getattr(self.client, "app", None), "state", None)
        return getattr(state, "runtime", None)

    def until_indexed(self) -> None:
        """Return when all accepted documents are searchable."""

        def look() -> dict[str, Any]:
            seen = self.get()
            waiting = seen["counts"]["pending"] or seen["generation"] != self.search("x", log=False)["generation"]
            return {"status": "processing" if waiting else "succeeded"}

        ended(look)


def create(client: TestClient, name: str, **settings: Any) -> CollectionClient:
    """Create a collection and return it."""
    answer = client.put(f"/v1/collections/{name}", json=settings)
    assert answer.status_code == 201, answer.text
    return CollectionClient(client, name)


def today() -> str:
    """Return the default timestamp of events, the beginning of the day: memory loses weight with each day.

    It is of the moment of the call, because tests may run over midnight.
    """
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0).isoformat()


def event(document_id: str | None, action: str = "click", position: int | None = None, **more: Any) -> dict[str, Any]:
    """Return a UBI event about a document."""
    attributes: dict[str, Any] = {}
    if document_id is not None:
        attributes["object"] = {"object_id": document_id, "object_id_field": "id"}
    if position is not None:
        attributes["position"] = {"ordinal": position}
    return {"action_name": action, "timestamp": today(), "event_attributes": attributes, **more}


def good(answer: Any) -> Any:
    """Return the JSON of a response. Asserts success."""
    assert answer.is_success, answer.text
    return answer.json()


def ended(look: Any) -> Any:
    """Call `look` until it returns a task or run that has ended; return it."""
    deadline, pause = time.monotonic() + DEADLINE_SECONDS, 0.01
    while (seen := look())["status"] not in ENDED:
        assert time.monotonic() < deadline, seen
        time.sleep(pause)
        pause = min(0.2, 1.3 * pause)  # each look costs ten milliseconds of the processor that the run waits for
    return seen


def ndjson(items: Sequence[Any]) -> bytes:
    """Return lines of JSON. A string is a line and stays unchanged."""
    lines = [item if isinstance(item, str) else json.dumps(item) for item in items]
    return "\n".join(lines).encode()


def until(true: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    for _ in range(DEADLINE_SECONDS * 100):
        if true():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def problem(answer: Any, status: int, code: str) -> dict[str, Any]:
    """Return the problem of a response. Asserts status, code and members, and that it does not repeat the input."""
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
