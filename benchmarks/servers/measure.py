"""Measures a system: it loads documents, ends, starts again over them, and is searched by 1, 8 and 32 clients."""

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.servers.corpus import Corpus, endless, recall, taken
from benchmarks.servers.environments import python_of
from benchmarks.servers.load import Asked, Round, ask, summary
from benchmarks.servers.ports import free_port
from benchmarks.servers.processes import Running, disk_bytes, memory, running
from benchmarks.servers.systems import WANTED, Place, System
from index.records import Floats

BATCH = 500
START_SECONDS = 300
INGEST_SECONDS = 1800
POLL_SECONDS = 0.02


class NotRunning(Exception):
    """A system ended, did not start in time, or did not load documents."""


@dataclass(frozen=True)
class Plan:
    """The size of a run: timed documents, and maximum requests and seconds for each number of clients.

    warm_up: searches before each load that do not count.
    """

    timed: int = 2000
    clients: tuple[int, ...] = (1, 8, 32)
    requests: tuple[int, ...] = (600, 4000, 4000)
    seconds: float = 15.0
    warm_up: int = 60


def measure(
    system: System,
    corpus: Corpus,
    vectors: Floats,
    exact: Floats,
    model: Path,
    plan: Plan,
    checked: Callable[[Path], dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Return the figures of a system on all documents.

    exact (Q, N): the scores of the first queries, for recall@10. checked: measures the data folder instead.
    """
    python = python_of(system.requirements) if system.requirements else Path(sys.executable)
    with tempfile.TemporaryDirectory() as name:
        folder, log = Path(name) / "data", Path(name) / "log"
        folder.mkdir()
        figures = load(system, corpus, vectors, _place(folder, model, python, searching=False), log, plan)
        figures["disk_bytes"] = disk_bytes(folder, system.not_data)
        figures |= search(system, corpus, exact, _place(folder, model, python, searching=True), log, plan)
        if checked:
            figures.pop("recall_at_10")
            figures |= checked(folder)
        return figures


def measure_ingest(system: System, corpus: Corpus, model: Path, plan: Plan) -> dict[str, Any]:
    """Return only documents per second, on the timed documents."""
    with tempfile.TemporaryDirectory() as name:
        folder, log = Path(name) / "data", Path(name) / "log"
        folder.mkdir()
        few = Corpus(corpus.documents[: plan.timed], [])
        place = _place(folder, model, Path(sys.executable), searching=False)
        return load(system, few, np.empty((0, 0), np.float32), place, log, plan)


def load(system: System, corpus: Corpus, vectors: Floats, place: Place, log: Path, plan: Plan) -> dict[str, Any]:
    """Load all documents, the first documents timed and as text; return documents per second."""
    command, environment = system.start(place)
    with running(command, environment, place.folder, log) as one:
        _wait(system.ready, place.port, one)
        posted = [*_posts(system, corpus.documents[: plan.timed], None), *system.ends()]
        seconds = _load_documents(place.port, posted, one)
        rest = corpus.documents[plan.timed :]
        if rest:
            known = vectors[plan.timed :] if system.takes_vectors else None
            _load_documents(place.port, [*_posts(system, rest, known), *system.ends()], one)
    return {"documents_per_second": min(plan.timed, len(corpus.documents)) / seconds}


def search(system: System, corpus: Corpus, exact: Floats, place: Place, log: Path, plan: Plan) -> dict[str, Any]:
    """Start over the loaded data; return seconds to the first answer, a summary per load, memory, recall."""
    texts = endless(corpus.queries)
    rounds = [taken(texts, count) for count in plan.requests]
    warm = [system.search(text) for text in taken(texts, plan.warm_up * len(rounds) + 1)]
    started = time.perf_counter()
    command, environment = system.start(place)
    with running(command, environment, place.folder, log) as one:
        _wait(warm.pop(), place.port, one, system)
        figures: dict[str, Any] = {"cold_start_seconds": time.perf_counter() - started, "clients": {}}
        for clients, asked in zip(plan.clients, rounds, strict=True):
            ask(place.port, [warm.pop() for _ in range(plan.warm_up)], clients, plan.seconds)
            done = ask(place.port, [system.search(text) for text in asked], clients, plan.seconds)
            figures["clients"][clients] = summary(done, system.hits)
            if clients == plan.clients[0]:
                figures["recall_at_10"] = _recall(system, corpus, exact, done)
        return figures | memory(one.mark)


def _place(folder: Path, model: Path, python: Path, searching: bool) -> Place:
    return Place(folder, free_port(), model, python, searching)


def _posts(system: System, documents: Sequence[dict[str, Any]], vectors: Floats | None) -> list[bytes]:
    found: list[bytes] = []
    for first in range(0, len(documents), BATCH):
        part = slice(first, first + BATCH)
        found += system.posts(documents[part], None if vectors is None else vectors[part])
    return found


def _load_documents(port: int, requests: list[bytes], one: Running) -> float:
    """Send requests sequentially; return their seconds. Raises NotRunning if a request is refused."""
    done = ask(port, requests, 1, INGEST_SECONDS, INGEST_SECONDS)
    refused = [asked for asked in done.asked if asked.status != 200]
    if refused or len(done.asked) < len(requests):
        reason = refused[0].body[:300] if refused else b"it took too long"
        raise NotRunning(f"documents were refused: {reason!r}; {one.last_words()}")
    return done.seconds


def _wait(request: bytes, port: int, one: Running, system: System | None = None) -> None:
    """Repeat a request until its answer is 200 and, if a system is given, has hits; raises NotRunning."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if one.process.poll() is not None:
            raise NotRunning(f"it ended by itself: {one.last_words()}")
        (answer,) = ask(port, [request], 1, START_SECONDS).asked
        if answer.status == 200 and (system is None or system.hits(answer.body)):
            return
        time.sleep(POLL_SECONDS)
    raise NotRunning(f"no answer in {START_SECONDS} seconds: {one.last_words()}")


def _recall(system: System, corpus: Corpus, exact: Floats, done: Round) -> float:
    place = {one["id"]: at for at, one in enumerate(corpus.documents)}
    answered = {asked.place: asked for asked in done.asked if asked.status == 200 and asked.place < len(exact)}
    queries = sorted(answered)
    return recall(exact[queries], [_places(system, answered[at], place) for at in queries], WANTED)


def _places(system: System, asked: Asked, place: dict[str, int]) -> list[int]:
    return [place[one] for one in system.hits(asked.body)]
