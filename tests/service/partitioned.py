"""Partitions in this process, for tests. Their messages are copied, so that nothing is shared, as between processes."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.partitions.calls import Calls
from service.partitions.coordinator_runtime import CoordinatorRuntime
from service.partitions.partition import Partition
from service.searchers.document_part import DocumentPart
from service.searchers.searcher_app import create_searcher_app
from service.searchers.searcher_runtime import SearcherRuntime
from service.settings import Settings

PATIENT_SECONDS = 60.0
LIMITS = (
    "service.partitions.calls.ANSWER_SECONDS",
    "service.partitions.calls.SLOW_SECONDS",
    "service.partitions.partition.WAIT_SECONDS",
    "service.http.watermarks.WAIT_SECONDS",
    "service.searchers.searcher_runtime.OLD_SECONDS",
)
"""Times after which a partition on a busy machine counts as away, or a state as not reached."""


class ThreadAnswer:
    """The answer of a partition in this process, which a thread computes."""

    def __init__(self, future: Future[Any]) -> None:
        self._future = future

    def result(self, timeout_s: float) -> Any:
        return self._future.result(timeout_s)


class LocalPartition:
    """A partition whose requests a thread answers. While it is away, every request fails."""

    def __init__(self, runtime: SearcherRuntime, part: DocumentPart, threads: ThreadPoolExecutor) -> None:
        self.runtime, self._threads = runtime, threads
        self._partition = Partition(runtime, part)
        self.is_away = False
        self.refused: set[str] = set()
        """Requests that fail."""
        self.asked: list[str] = []

    def ask(self, request: str, *arguments: Any) -> ThreadAnswer:
        self.asked.append(request)
        if self.is_away or request in self.refused:
            raise ConnectionError("the partition is away")
        sent = deepcopy(arguments)
        return ThreadAnswer(self._threads.submit(self._answer, request, sent))

    def _answer(self, request: str, sent: tuple[Any, ...]) -> Any:
        return deepcopy(getattr(self._partition, request)(*sent))


def settings_of(data: Path, address: str) -> Settings:
    return Settings(encoder="hashing", data=data, log_level="error", role="searcher", database=address)


@contextmanager
def partitioned(
    folder: Path, address: str, count: int, answers_partially: bool = True
) -> Iterator[tuple[TestClient, list[LocalPartition]]]:
    """Yield a client of a coordinator of `count` partitions, and the partitions. None is away for being slow."""
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for limit in LIMITS:
            patch.setattr(limit, PATIENT_SECONDS)
        threads = stack.enter_context(ThreadPoolExecutor(16))
        partitions = []
        for number in range(count):
            settings = settings_of(folder / f"{number} of {count}", address)
            part = DocumentPart(number, count)
            runtime = SearcherRuntime.open(settings, part=part)
            stack.callback(runtime.close)
            partitions.append(LocalPartition(runtime, part, threads))
        settings = settings_of(folder / f"coordinator of {count}", address)
        runtime = CoordinatorRuntime.over(Calls(partitions, answers_partially), settings)
        stack.callback(runtime.close)
        client = TestClient(create_searcher_app(settings, runtime), raise_server_exceptions=False)
        yield stack.enter_context(client), partitions
