"""Reports of workers to the process of the data directory: metrics, uses of keys, and damage."""

import itertools
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.service.authorised import bearer
from tests.service.client import event
from tests.service.workers.services import (
    FEW_OPEN_FILES,
    PROCESSES,
    SEARCH,
    Service,
    ids,
    open_files_limit,
    running,
    stopped,
    until,
)

ADMIN_KEY = "the-admin-key-of-a-test-0123456789"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reports") / "data"


@pytest.fixture(scope="module")
def one_service(data: Path) -> Iterator[Service]:
    with running(data, admin_key=ADMIN_KEY) as one:
        yield one


@pytest.fixture
def service(one_service: Service) -> Iterator[Service]:
    with one_service.connected():
        yield one_service


def searches_counted(client: httpx.Client) -> float:
    """Return the number of searches by words in the metrics that a process shows."""
    return sum(
        sample.value
        for family in text_string_to_metric_families(client.get("/metrics").text)
        for sample in family.samples
        if sample.name == "softseek_search_seconds_count" and sample.labels == {"mode": "words"}
    )


def test_every_process_shows_the_searches_of_all_also_of_those_that_ended(service: Service) -> None:
    for client in service.clients:
        for _ in range(5):
            ids(client, "walnut", mode="words")
    until(lambda: [searches_counted(client) for client in service.clients] == [5 * PROCESSES] * PROCESSES)
    before = service.workers()
    os.kill(before[0], signal.SIGKILL)
    until(lambda: service.has_replaced(before[:1]))
    with service.connected() as clients:
        assert [searches_counted(client) for client in clients] == [5 * PROCESSES] * PROCESSES
        ids(clients[1], "walnut", mode="words")
        until(lambda: searches_counted(clients[1]) == 5 * PROCESSES + 1)


def test_a_search_that_a_worker_answers_is_a_use_of_its_key(service: Service) -> None:
    admin, worker = service.clients[:2]
    made = admin.post("/v1/keys", json={"name": "page", "scopes": ["search"]}).json()

    def last_use() -> Any:
        return next(key["last_used_at"] for key in admin.get("/v1/keys").json()["keys"] if key["id"] == made["id"])

    assert last_use() is None
    with stopped(service.process.pid):
        assert worker.post(SEARCH, json={"q": "walnut"}, headers=bearer(made["key"])).status_code == 200
    until(lambda: last_use() is not None)


def test_a_worker_recommends_and_completes_queries_by_itself(service: Service) -> None:
    owner, worker = service.clients[:2]
    trees = "/v1/collections/trees"
    owner.put(trees, json={}).raise_for_status()
    for id, text in (("oak", "an oak tree"), ("elm", "an elm tree"), ("sea", "salt water")):
        owner.put(f"{trees}/documents/{id}", json={"text": text}).raise_for_status()
    for number in range(3):
        click = event("oak", user_query="oak tree", client_id=f"client-{number}")
        assert owner.post(f"{trees}/events", json=click).json()["accepted"] == 1
    with stopped(service.process.pid):
        answer = worker.post(f"{trees}/recommend", json={"like": ["oak"]})
        assert [hit["id"] for hit in answer.json()["hits"]] == ["elm", "sea"]
        answer = worker.get(f"{trees}/suggestions", params={"q": "oa"})
        assert answer.json()["suggestions"] == [{"q": "oak tree", "clicks": 3}]


def test_an_index_that_a_worker_finds_damaged_is_rebuilt(service: Service, data: Path) -> None:
    owner, worker = service.clients[:2]
    collection = "/v1/collections/damaged"
    before = set(data.glob("indexes/*/keys-*.f32"))
    owner.put(collection, json={}).raise_for_status()
    for id in ("walnut", "hazelnut"):
        owner.put(f"{collection}/documents/{id}", json={"text": f"The {id} is a nut."}).raise_for_status()

    limits = itertools.count(10)

    def hits(client: httpx.Client, **more: Any) -> list[tuple[str, float]]:
        search = {"q": "a walnut", "log": False, "limit": next(limits)}  # none repeats another, whose result is kept
        answer = client.post(f"{collection}/search", json=search, **more)
        assert answer.status_code == 200, answer.text
        return [(hit["id"], hit["logit"]) for hit in answer.json()["hits"]]

    sound = hits(owner)  # the process that wrote the keys does not compare them with their checksums
    (keys,) = set(data.glob("indexes/*/keys-*.f32")) - before
    with keys.open("r+b") as file:
        opposite = -np.frombuffer(file.read(), np.float32)
        file.seek(0)
        file.write(opposite.tobytes())
    assert hits(owner) != sound
    assert {id for id, _ in hits(worker)} == {"walnut", "hazelnut"}  # the other process answers
    until(lambda: [hits(owner), hits(worker)] == [sound, sound])

    def answers_alone() -> bool:
        with service.connected() as clients, stopped(service.process.pid):
            try:
                return hits(clients[1], timeout=2) == sound
            except httpx.ReadTimeout:  # it has not read the new index yet, and passed the search on
                pass  # the connection is closed, so that the next search needs another
        time.sleep(0.5)  # the other process goes on and publishes the new index
        return False

    until(answers_alone)


def test_every_process_may_open_as_many_files_as_the_system_allows(service: Service) -> None:
    limits = {pid: open_files_limit(pid) for pid in (service.process.pid, *service.workers())}
    assert len(limits) == PROCESSES
    assert all(soft == hard for soft, hard in limits.values()), limits
    assert all(hard > FEW_OPEN_FILES for _, hard in limits.values()), "the system allows too few to see a difference"
