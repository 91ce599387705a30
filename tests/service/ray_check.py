"""Partitions, encoders and a training run on a real Ray cluster, from the command line. Prints what it saw as JSON.

Ray listens on all addresses of a machine, so this runs in a network namespace of its own, which has the loopback
address alone: `test_ray_cluster.py` starts it there.
"""

import json
import os
import signal
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from benchmarks.postgres import running_server
from benchmarks.ray_process import deployed, processes_named, replicas_of
from benchmarks.service_process import started

SEARCHES: tuple[dict[str, Any], ...] = (
    {"q": "old oak", "explain": True},
    {"q": "a young elm in the gardn", "limit": 60},
    {"q": "tree", "facets": ["n"], "sort": ["n:desc"]},
    {"q": "old", "filter": "n < 20", "mode": "words"},
    {"q": "*", "limit": 60},
)
WORDS = ("old", "young", "tall", "small")
TREES = ("oak", "elm", "ash", "fir", "yew")
WATERMARK = "X-Softseek-Watermark"
WAIT_SECONDS = 240
"""The longest step, a training run, takes 20 seconds on two quiet cores, and over 60 were seen on busy ones."""
SETTINGS = {"SOFTSEEK_RAY_ENCODERS": "2", "SOFTSEEK_RAY_TRAINING": "true"}
ALONE = ("--port", "0", "--workers", "1")
MANY = 1000
"""Documents that the cluster encodes."""
JUDGED = 20
ENOUGH = 10
"""Whole answers one after the other, after which the partition counts as back."""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="ray-") as made, running_server() as server:
        os.environ.update(SETTINGS, RAY_TMPDIR=made)  # processes look there for the cluster of their machine
        print(json.dumps(seen(Path(made), server.database("wood"))), flush=True)


def seen(folder: Path, address: str) -> dict[str, Any]:
    """Return what a writer, two partitions and a coordinator show."""
    with started(folder / "writer", "hashing", folder / "log", *ALONE, "--role", "writer", database=address) as w:
        writer = client(w.port())
        fill(writer)
        expected = answers(writer)
        with deployed(folder, address, "hashing", 2) as deployment:
            options = (*ALONE, "--role", "coordinator")
            with started(folder / "coordinator", "hashing", folder / "log", *options, database=address) as coordinator:
                reading = client(coordinator.port())
                found = {
                    "equal": whole_answers(reading) == expected,
                    "put": put_is_seen(writer, reading),
                    "refused": reading.put("/documents/x", json={"text": "x"}).status_code,
                }
                found |= killed(reading, answers(writer))
                found |= encoded(writer) | trained(writer)
            found["coordinator"] = coordinator.process.returncode
        return found | {"deployment": deployment.returncode, "log": errors_in(folder / "log")}


def client(port: int) -> httpx.Client:
    return httpx.Client(base_url=f"http://127.0.0.1:{port}/v1/collections/default", timeout=WAIT_SECONDS)


def fill(writer: httpx.Client) -> None:
    writer.put(str(writer.base_url).rstrip("/"), json={"filterable": ["n"]}).raise_for_status()
    documents = [
        {
            "id": f"tree-{n}",
            "text": f"A {WORDS[n % 4]} {TREES[n % 5]} that stands in the garden with the number {n}.",
            "title": f"The {TREES[n % 5]}",
            "metadata": {"n": n},
        }
        for n in range(50)
    ]
    writer.post("/documents?wait=60", json={"documents": documents}).raise_for_status()
    judgment = {"query": "old oak", "document_id": "tree-20", "rating": 4}
    assert writer.post("/judgments", json={"judgments": [judgment]}).json()["accepted"] == 1


def answers(asked: httpx.Client) -> list[Any]:
    return [kept(asked.post("/search", json={"log": False, **search}).raise_for_status().json()) for search in SEARCHES]


def whole_answers(asked: httpx.Client) -> list[Any]:
    return [kept(whole_answer(asked, {"log": False, **search}, {})) for search in SEARCHES]


def whole_answer(asked: httpx.Client, search: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
    """Return an answer once all partitions give it: on busy cores one may be late for a moment, and that is said."""
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        found = asked.post("/search", json=search, headers=headers)
        body: dict[str, Any] = found.json()
        if found.status_code != 503 and "partition_away" not in body["degraded"]:
            return body
        time.sleep(0.05)
    raise AssertionError(found.text)


def kept(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name not in ("query_id", "took_ms", "timings_ms")}


def put_is_seen(writer: httpx.Client, reading: httpx.Client) -> bool:
    """Return whether a search with the watermark of a write sees the document."""
    put = writer.put("/documents/new", json={"text": "a zelkova", "metadata": {"n": 99}})
    found = whole_answer(reading, {"q": "zelkova"}, {WATERMARK: put.headers[WATERMARK]})
    return bool(found["hits"][0]["id"] == "new")


def killed(reading: httpx.Client, expected: list[Any]) -> dict[str, Any]:
    """Kill the process of a partition, and count the answers until the partition is back.

    It is killed again if it was back before a search missed it.
    """
    counted: Counter[str] = Counter()
    whole, end = ENOUGH, time.monotonic() + WAIT_SECONDS
    while (whole < ENOUGH or not counted["partial"]) and time.monotonic() < end:
        if whole >= ENOUGH:
            os.kill(replicas_of(1)[0], signal.SIGKILL)
            whole = 0
        for search, wanted in zip(SEARCHES, expected, strict=True):
            answer = reading.post("/search", json={"log": False, **search})
            kind = judged(answer, wanted)
            counted[kind] += 1
            whole = whole + 1 if kind == "whole" else 0
        time.sleep(0.05)
    return {"after_kill": dict(counted), "is_back": whole >= ENOUGH}


def encoded(writer: httpx.Client) -> dict[str, Any]:
    """Add many documents, kill an encoder of the cluster meanwhile, and count what is searchable.

    More are added while the encoders of the last ones had ended before one could be killed.
    """
    pond = str(writer.base_url).replace("default", "pond").rstrip("/")
    writer.put(pond, json={}).raise_for_status()
    sent, kills, status, end = 0, 0, "succeeded", time.monotonic() + WAIT_SECONDS
    while not kills and status == "succeeded" and time.monotonic() < end:
        documents = [{"id": f"p{n}", "text": f"water {n} and {WORDS[n % 4]} reed."} for n in range(sent, sent + MANY)]
        task = writer.post(f"{pond}/documents", json={"documents": documents}).raise_for_status().json()
        sent += MANY
        address = f"{pond.partition('/v1/')[0]}/v1/tasks/{task['id']}"
        while (status := writer.get(address).json()["status"]) in ("enqueued", "processing") and time.monotonic() < end:
            kills = kills or end_process("BlockEncoder")
            time.sleep(0.02)
    counts = writer.get(pond).json()["counts"]
    found = {"encoded": status, "encoders_killed": kills, "sent": sent}
    return found | {"counts": [counts["documents"], counts["pending"]]}


def end_process(name: str) -> int:
    """Kill a process with this part in its name; return the number of killed processes, 0 or 1."""
    for pid in processes_named(name):
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(pid, signal.SIGKILL)
            return 1
    return 0


def trained(writer: httpx.Client) -> dict[str, Any]:
    """Train on the cluster, and return how the run ended and its phases."""
    judgments = [{"query": f"number {n}", "document_id": f"tree-{n}", "rating": 4} for n in range(JUDGED)]
    assert writer.post("/judgments", json={"judgments": judgments}).json()["accepted"] == JUDGED
    run = writer.post("/training-runs", json={"budget_seconds": 5}).raise_for_status().json()
    end = time.monotonic() + WAIT_SECONDS
    while run["status"] == "processing" and time.monotonic() < end:
        time.sleep(0.1)
        run = writer.get(f"/training-runs/{run['id']}").json()
    phases = [step.get("phase") for step in run["steps"]]
    return {"trained": [run["status"], run["error"], run["model_version"]], "phases": phases}


def judged(answer: httpx.Response, wanted: dict[str, Any]) -> str:
    """Return whether an answer is whole, says that it lacks a partition, or is wrong."""
    body = answer.json()
    if answer.status_code != 200:
        return f"{answer.status_code} {body['code']}"
    if "partition_away" in body["degraded"]:
        return "partial" if 0 < body["missing_share"] < 1 else "wrong"
    return "whole" if kept(body) == wanted else "wrong"


def errors_in(log: Path) -> list[str]:
    lines = log.read_text().splitlines()
    faults = ('"level": "error"', "encoded_by_the_service")
    return [line for line in lines if any(one in line for one in faults) and "partition_away" not in line]


if __name__ == "__main__":
    main()
