"""A service with worker processes: every process answers as the others do, and a dead one is replaced."""

import json
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.service.client import DEADLINE_SECONDS, event
from tests.service.workers.services import (
    DOCUMENTS,
    PROCESSES,
    SEARCH,
    Service,
    ids,
    running,
    started,
    stopped,
    until,
)

SOAK = "SOAK" in os.environ
LEAST_SEARCHES = 30
"""Answered searches between two kills: a slow machine loses no larger share of its requests."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workers") / "data"


@pytest.fixture(scope="module")
def one_service(data: Path) -> Iterator[Service]:
    with running(data) as one:
        yield one


@pytest.fixture
def service(one_service: Service) -> Iterator[Service]:
    with one_service.connected():
        yield one_service


def test_workers_answer_searches_themselves(service: Service) -> None:
    service.clients[0].put(f"{DOCUMENTS}/one", json={"text": "walnut"}).raise_for_status()
    with stopped(service.process.pid):
        found = [ids(client, "walnut") for client in service.clients[1:]]
    assert found == [["one"]] * (PROCESSES - 1)


def test_every_process_sees_what_any_process_has_acknowledged(service: Service) -> None:
    for number in range(30):
        id = f"seen-{number}/search" if number % 2 else f"seen-{number}"
        writer = service.clients[number % PROCESSES]
        writer.put(f"{DOCUMENTS}/{id}", json={"text": f"hazelnut {number}"}).raise_for_status()
        assert all(id in ids(client, "hazelnut") for client in service.clients)
        if number % 3 == 0:
            writer.delete(f"{DOCUMENTS}/{id}").raise_for_status()
            assert all(id not in ids(client, "hazelnut") for client in service.clients)


def test_feedback_on_an_answer_of_a_worker_counts_at_once(service: Service) -> None:
    for id in ("a", "b"):
        service.clients[0].put(f"{DOCUMENTS}/pecan-{id}", json={"text": "pecan"}).raise_for_status()
    for number, searching in enumerate(service.clients):
        answer = searching.post(SEARCH, json={"q": f"pecan {number}", "client_id": "anna"}).json()
        last = answer["hits"][1]["id"]
        click = event(last, query_id=answer["query_id"], client_id="anna")
        accepted = service.clients[(number + 1) % PROCESSES].post("/v1/collections/default/events", json=click)
        assert accepted.json()["rejected"] == [], accepted.text
        shown = [
            client.post(SEARCH, json={"q": f"pecan {number}", "explain": True}).json() for client in service.clients
        ]
        memories = [
            [key for hit in one["hits"] for key in hit["explain"].get("keys", ()) if key.get("kind") == "query"]
            for one in shown
        ]
        assert memories[0]
        assert memories[1:] == [memories[0]] * (PROCESSES - 1)


def test_everything_else_is_passed_on_word_for_word(service: Service) -> None:
    direct, client = service.clients[:2]

    def same(method: str, path: str, **more: Any) -> httpx.Response:
        ours, theirs = (each.request(method, path, **more) for each in (client, direct))
        assert ours.status_code == theirs.status_code
        assert ours.content == theirs.content or b"task" in ours.content or path == "/metrics"
        volatile = {"date", "content-length"}
        assert ours.headers.keys() - volatile == theirs.headers.keys() - volatile
        return ours

    same("GET", "/")
    same("GET", "/openapi.json", headers={"Accept-Encoding": "gzip"})
    same("GET", f"{DOCUMENTS}/missing")
    same("GET", "/v1/nothing")
    for path in ("/livez", "/readyz", "/", "/metrics", f"{SEARCH}?q=walnut", f"{DOCUMENTS}/missing", "/v1/export"):
        assert same("HEAD", path).status_code == (404 if "missing" in path else 200)
    same("OPTIONS", SEARCH, headers={"Origin": "http://a.example", "Access-Control-Request-Method": "POST"})
    target = {"target": b"*"}
    assert [one.request("OPTIONS", "/", extensions=target).status_code for one in (direct, client)] == [204, 204]
    target = {"target": f"{DOCUMENTS}/..".encode()}
    codes = {one.request("GET", "/", extensions=target).json()["code"] for one in (direct, client)}
    assert codes == {"document_not_found"}  # of the document with the id `..`
    same("GET", "/v1/collections/default?q=%22" + '"' * 100)
    same("PUT", SEARCH, json={})
    same("POST", SEARCH, content=b"{")
    same("POST", f"{DOCUMENTS}?wait=5", content=b"[" * 2000)
    same("GET", "/metrics")
    same("GET", "/v1/collections/default?q=a%20b&x=%2F")
    lines = "".join(json.dumps({"id": f"l{at}", "text": f"line {at}"}) + "\n" for at in range(200))

    def slowly() -> Iterator[bytes]:
        for start in range(0, len(lines), 3000):
            yield lines[start : start + 3000].encode()

    imported = client.post(f"{DOCUMENTS}/import", content=slowly(), headers={"Content-Type": "application/x-ndjson"})
    assert imported.status_code == 202, imported.text
    task = f"/v1/tasks/{imported.json()['id']}"
    until(lambda: client.get(task).json()["status"] == "succeeded")
    assert {f"l{at}" for at in range(50)} & set(ids(client, "line 7"))


def test_a_stream_is_passed_on(service: Service) -> None:
    client = service.clients[1]
    with client.stream("GET", "/v1/export") as answer:
        assert answer.status_code == 200
        first = next(answer.iter_lines())
        assert "softseek" in first or "format" in first


def test_a_killed_worker_is_replaced_and_nothing_is_wrong(one_service: Service) -> None:
    service, seconds = one_service, 60.0 if SOAK else 4.0
    faults: list[str] = []
    counts = {"writes": 0, "searches": 0, "lost": 0}
    ended = threading.Event()

    def work(name: str) -> None:
        numbers = random.Random(name)
        for at in range(100_000):
            if ended.is_set():
                return
            id = f"{name}-{at % 5}"
            stays = numbers.random() < 0.6
            with httpx.Client(base_url=service.url, timeout=60) as writer:
                try:
                    if stays:
                        writer.put(f"{DOCUMENTS}/{id}", json={"text": f"almond {name} {at}"}).raise_for_status()
                    else:
                        assert writer.delete(f"{DOCUMENTS}/{id}").status_code in (204, 404)
                except httpx.TransportError:  # not acknowledged: the document may be as before or as wanted
                    counts["lost"] += 1
                    continue
            counts["writes"] += 1
            for _ in range(3):
                with httpx.Client(base_url=service.url, timeout=60) as reader:
                    try:
                        found = ids(reader, f"almond {name}", log=False)
                    except httpx.TransportError:
                        counts["lost"] += 1
                        continue
                    counts["searches"] += 1
                    if (id in found) != stays:
                        faults.append(f"{id} stays: {stays}, found: {found}")

    threads = [threading.Thread(target=work, args=(name,)) for name in ("x", "y", "z")]
    for thread in threads:
        thread.start()
    until_time, numbers = time.monotonic() + seconds, random.Random(1)
    killed: list[int] = []
    searched = 0
    try:
        while time.monotonic() < until_time or (len(killed) < 3 and time.monotonic() < until_time + DEADLINE_SECONDS):
            time.sleep(numbers.uniform(0.1, 1.0))
            workers = set(service.workers()) - set(killed)
            if workers and counts["searches"] >= searched + LEAST_SEARCHES:
                searched = counts["searches"]
                killed.append(numbers.choice(sorted(workers)))
                os.kill(killed[-1], signal.SIGKILL)
    finally:
        ended.set()
    for thread in threads:
        thread.join()
    assert not faults, faults[:3]
    assert len(killed) >= 3
    assert counts["lost"] < counts["searches"] / 4
    until(lambda: service.has_replaced(killed))
    assert "softseek_search_seconds_count" in service.get("/metrics").text


def test_no_worker_outlives_its_service(one_service: Service, data: Path) -> None:
    """It is the last test of this service, which it ends."""
    workers = one_service.workers()
    assert len(workers) == PROCESSES - 1
    one_service.process.send_signal(signal.SIGTERM)
    assert one_service.process.wait(DEADLINE_SECONDS) == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    assert not (data / "workers").exists()


def test_a_service_that_is_still_starting_its_workers_ends_at_once(tmp_path: Path) -> None:
    with started(tmp_path / "data", processes=2) as (process, url):
        until(lambda: "workers" in httpx.get(f"{url}/readyz", timeout=DEADLINE_SECONDS).json())
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_SECONDS) == 0


def test_workers_of_a_killed_service_end(tmp_path: Path) -> None:
    with running(tmp_path / "data") as service:
        workers = service.workers()
        service.process.kill()
        service.process.wait()
        until(lambda: not any(runs(pid) for pid in workers))


def runs(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # the second, if it ends between the opening and the reading
        return False
