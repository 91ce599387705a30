"""The latency of searches while documents are loaded, and the delay until a trained model answers.

The service is a separate process. Load: one client searches, first at rest, then while another connection posts batches
of documents, which the service encodes. Live: the time from the last file of the training process, its report, to the
first answer of the new version. A client polls without pause.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson

from benchmarks.servers.http1 import request
from benchmarks.servers.load import Asked, ask

SEARCH = "/v1/collections/default/search"
WARM = 20
"""Searches that do not count."""
BATCH = 100
PART_SECONDS = 20
MOST_PER_SECOND = 1000
POLL_SECONDS = 0.0005
TRAIN_SECONDS = 300


def measure_under_load(
    client: httpx.Client, texts: Sequence[str], documents: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Return p50 and p99 milliseconds of searches at rest and during a load, for PART_SECONDS each."""
    rest = _searched(client, texts, "at rest")
    started = time.perf_counter()
    with _loading(client.base_url, documents) as load:
        time.sleep(1)  # until the first batch is being loaded
        loaded = _searched(client, texts, "under load")
        count, seconds = load.count, time.perf_counter() - started
    return {
        "rest": _percentiles(rest),
        "load": _percentiles(loaded),
        "p99_ratio": round(_percentiles(loaded)["p99_ms"] / _percentiles(rest)["p99_ms"], 2),
        "documents_per_second": round(count / seconds, 1),
    }


def _searched(client: httpx.Client, texts: Sequence[str], part: str) -> list[float]:
    """Return the milliseconds of sequential searches. Every text is new to the service."""
    most = PART_SECONDS * MOST_PER_SECOND
    answers = one_by_one(client, (f"{texts[at % len(texts)]} {part} {at}" for at in range(most)), PART_SECONDS)
    return [1000 * one.seconds for one in answers[WARM:]]


def one_by_one(client: httpx.Client, texts: Iterable[str], seconds: float) -> list[Asked]:
    """Return the answers to sequential searches, for at most this many seconds.

    The client is the load generator of `benchmarks.servers`: httpx itself takes over a millisecond a request.
    """
    port = client.base_url.port
    assert port is not None
    answers = ask(port, [request("POST", SEARCH, {"q": text}) for text in texts], 1, seconds).asked
    assert all(one.status == 200 for one in answers), Counter(one.status for one in answers)
    return answers


def _percentiles(milliseconds: Sequence[float]) -> dict[str, float]:
    found = {f"p{share}_ms": round(float(np.percentile(milliseconds, share)), 2) for share in (50, 99)}
    return {"searches": len(milliseconds), **found}


class _Load:
    """Posts documents in batches until it is stopped."""

    def __init__(self, base_url: httpx.URL, documents: Sequence[dict[str, Any]]) -> None:
        self._client = httpx.Client(base_url=base_url, timeout=600)
        self._documents = documents
        self._stopped = threading.Event()
        self.count = 0
        self.thread = threading.Thread(target=self._post)

    def _post(self) -> None:
        with self._client:
            while not self._stopped.is_set():
                some = (self._documents[(self.count + at) % len(self._documents)] for at in range(BATCH))
                batch = [one | {"id": f"load-{self.count + at}"} for at, one in enumerate(some)]
                body = orjson.dumps({"documents": batch})
                self._client.post("/v1/collections/default/documents?wait=600", content=body).raise_for_status()
                self.count += BATCH

    def stop(self) -> None:
        self._stopped.set()
        self.thread.join()


@contextmanager
def _loading(base_url: httpx.URL, documents: Sequence[dict[str, Any]]) -> Iterator[_Load]:
    load = _Load(base_url, documents)
    load.thread.start()
    try:
        yield load
    finally:
        load.stop()


def measure_live(
    client: httpx.Client, folder: Path, judgments: Sequence[dict[str, Any]], collection: str = "default"
) -> dict[str, Any]:
    """Return the milliseconds from the report of a training process to the first answer of the new version.

    The milliseconds are None if the gate rejects the trained model.
    """
    path = f"/v1/collections/{collection}"
    for first in range(0, len(judgments), BATCH):
        part = {"judgments": judgments[first : first + BATCH]}
        client.post(f"{path}/judgments", json=part).raise_for_status()
    run = client.post(f"{path}/training-runs", json={"seed": 7}).raise_for_status().json()
    query = str(judgments[0]["query"])
    reported, answered = _watch(client, path, run["id"], folder / "staging" / run["id"] / "report.json", query)
    live = None if answered is None or reported is None else round(1000 * (answered - reported), 1)
    return {"live_ms": live, "run": client.get(f"{path}/training-runs/{run['id']}").json()["status"]}


def _watch(client: httpx.Client, path: str, run: str, report: Path, query: str) -> tuple[float | None, float | None]:
    """Return the times of the report and of the first answer by version 1, in seconds since the epoch."""
    until = time.monotonic() + TRAIN_SECONDS
    reported, asked, ended = None, time.monotonic(), False
    while time.monotonic() < until and not ended:
        if time.monotonic() - asked > 1:
            asked = time.monotonic()
            ended = client.get(f"{path}/training-runs/{run}").json()["status"] != "processing"
        if reported is None and report.exists():
            reported = report.stat().st_mtime
        if reported is not None or ended:
            answer = client.post(f"{path}/search", json={"q": query, "log": False}).raise_for_status().json()
            if answer["model"]["version"] == 1:
                return reported, time.time()
        time.sleep(POLL_SECONDS)
    return reported, None
