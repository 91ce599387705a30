"""A service and a worker of it in one process, for tests of what the worker knows and when."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from service.app import create_worker_app
from service.runtime.runtime import Runtime
from service.workers.cells import Cells
from service.workers.channels import CELLS_FILE, FEED
from service.workers.messages import Inbox, Message, Outbox
from service.workers.mirrored_collection import NotMirrored
from service.workers.publisher import Publisher
from service.workers.supervisor import Workers, _Worker
from service.workers.worker import _pass_on
from service.workers.worker_runtime import WorkerRuntime
from tests.service.client import opened, runtime_of

NO_PROCESS = 2**22 + 1
"""A PID above the highest of Linux."""
VOLATILE = ("query_id", "took_ms", "timings_ms")


@dataclass
class Pair:
    """client: of the service. worker: of the worker's application, without the requests that it passes on.

    workers: the supervisor, which takes the messages of the worker and has started no process.
    """

    client: TestClient
    worker: TestClient
    runtime: Runtime
    follower: WorkerRuntime
    publisher: Publisher
    workers: Workers

    def publish(self) -> None:
        """Publish and follow, as a request to each of them does."""
        self.publisher.publish()
        self.follower.follow()

    def searches(self, collection: str = "default", **search: Any) -> tuple[Any, Any]:
        """Return the answers of the service and of the worker to a search, without what differs between searches."""
        self.publish()
        answers = [
            each.post(f"/v1/collections/{collection}/search", json={"q": "copy a folder", **search})
            for each in (self.client, self.worker)
        ]
        assert answers[0].status_code == answers[1].status_code, (answers[0].text, answers[1].text)
        ours, theirs = (
            {name: value for name, value in answer.json().items() if name not in VOLATILE} for answer in answers
        )
        return ours, theirs

    def assert_same(self, collection: str = "default", **search: Any) -> Any:
        """Assert that both answer a search alike; return the answer."""
        ours, theirs = self.searches(collection, **search)
        assert theirs == ours
        return ours


@contextmanager
def paired(data: Path, **settings: Any) -> Iterator[Pair]:
    """Yield a service with a worker. Nothing is published in the background."""
    with opened(data, **settings) as client:
        runtime = runtime_of(client)
        workers = Workers(runtime, 1, data / "no.sock")
        runtime.workers = workers
        workers.publisher.publish()
        ours, theirs = socket.socketpair()

        def take(message: Message) -> None:
            workers._take(workers._workers[1], message)

        inbox = Inbox(ours, take)
        workers._workers[1] = _Worker(NO_PROCESS, socket.socket(), inbox)
        folder = data / "workers"
        cells = Cells(folder / CELLS_FILE)
        follower = WorkerRuntime(runtime.settings, folder / FEED, cells, 1, Outbox(theirs), runtime.encoder)
        try:
            app = create_worker_app(runtime.settings, follower)
            app.add_exception_handler(NotMirrored, _pass_on)
            with TestClient(app) as worker:
                pair = Pair(client, worker, runtime, follower, workers.publisher, workers)
                runtime.impressions.sources.append(inbox.drain)
                yield pair
        finally:
            follower.close()
            inbox.close()
            workers._workers[1].connections.close()
            workers.publisher.close()
