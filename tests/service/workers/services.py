"""A running service with worker processes, for tests, and clients that are each connected to a known process of it."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from benchmarks.service_process import children
from tests.service.client import DEADLINE_SECONDS

DOCUMENTS = "/v1/collections/default/documents"
SEARCH = "/v1/collections/default/search"
PROCESSES = 3
ENVIRONMENT = {**os.environ, "SOFTSEEK_ENCODER": "hashing", "SOFTSEEK_LOG_LEVEL": "warning", "OMP_NUM_THREADS": "1"}
FEW_OPEN_FILES = 256
"""The limit on open files with which a service starts."""
PROGRAM = f"""
import resource
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min({FEW_OPEN_FILES}, most), most))
from service.cli import app
app()
"""
CONNECTIONS_OF_EACH = 8
"""New connections for each process, within which each must have got one."""


class Service:
    """A running service. Inside `connected`, clients[0] is a client of the process of the data directory, and the
    others are clients of the workers."""

    def __init__(self, process: "subprocess.Popen[str]", url: str, headers: Mapping[str, str]) -> None:
        self.process, self.url, self.headers = process, url, headers
        self.clients: list[httpx.Client] = []

    def workers(self) -> list[int]:
        """Return the PIDs of the workers."""
        return sorted(worker for spawner in children(self.process.pid) for worker in children(spawner))

    def ready_workers(self) -> int:
        """Return the number of workers that take connections."""
        return int(self.get("/readyz").json().get("workers", {}).get("ready", 0))

    def has_replaced(self, ended: Collection[int]) -> bool:
        """Whether other workers take connections in place of those that ended, which count until that is noticed."""
        workers = self.workers()
        is_whole = len(workers) == PROCESSES - 1 and not set(workers) & set(ended)
        return is_whole and self.ready_workers() == len(workers)

    def get(self, path: str) -> httpx.Response:
        """Return the answer of any of the processes, on a connection of its own."""
        return httpx.get(f"{self.url}{path}", headers=self.headers, timeout=DEADLINE_SECONDS)

    @contextmanager
    def connected(self) -> Iterator[list[httpx.Client]]:
        """Give `clients` a connection to each process. A client fails if it gets another connection later."""
        pids = [self.process.pid, *self.workers()]
        with ExitStack() as stack:
            found: dict[int, httpx.Client] = {}
            for _ in range(CONNECTIONS_OF_EACH * len(pids)):
                if len(found) == len(pids):
                    break
                client = stack.enter_context(self._client())
                port = port_of(client.get("/livez"))
                if (
                    pid := owner(port, pids)
                ) not in found:  # others stay open, so that this process gets no further one
                    found[pid] = client
                    client.event_hooks = {"response": [staying(port)]}
            assert set(found) == set(pids), f"of the processes {pids}, only {sorted(found)} got a connection"
            self.clients = [found[pid] for pid in pids]
            yield self.clients

    def _client(self) -> httpx.Client:
        limits = httpx.Limits(max_connections=1)
        return httpx.Client(base_url=self.url, limits=limits, timeout=60, headers=self.headers)


@contextmanager
def running(data: Path, processes: int = PROCESSES, admin_key: str = "") -> Iterator[Service]:
    """Yield a service whose workers are ready."""
    headers = {"Authorization": f"Bearer {admin_key}"} if admin_key else {}
    with started(data, processes, {"SOFTSEEK_ADMIN_KEY": admin_key} if admin_key else {}) as (process, url):
        service = Service(process, url, headers)
        until(lambda: service.ready_workers() == processes - 1)
        yield service


@contextmanager
def started(
    data: Path, processes: int, settings: Mapping[str, str] | None = None
) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Yield a service that has just begun to listen, and its URL."""
    command = [sys.executable, "-c", PROGRAM, "serve", "--json", "--port", "0"]
    command += ["--data", str(data), "--workers", str(processes)]
    environment = ENVIRONMENT | dict(settings or {})
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())["url"]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(DEADLINE_SECONDS)


def port_of(answer: httpx.Response) -> int:
    """Return the client's port of the connection that an answer came on."""
    return int(answer.extensions["network_stream"].get_extra_info("client_addr")[1])


def staying(port: int) -> Callable[[httpx.Response], None]:
    """Return a check that answers come on the connection with this port of the client."""

    def check(answer: httpx.Response) -> None:
        assert port_of(answer) == port, "the connection to the process was closed, and the client has opened another"

    return check


def owner(port: int, pids: list[int]) -> int:
    """Return which of the processes has the other side of the connection with this port of the client."""
    found: list[int] = []

    def is_one() -> bool:  # while a connection is handed over, two processes have it
        sockets = {f"socket:[{inode}]" for inode in inodes(port)}
        found[:] = [pid for pid in pids if sockets & open_files(pid)]
        return len(found) == 1

    until(is_one)
    return found[0]


def inodes(port: int) -> list[str]:
    """Return the inodes of the sockets of this machine that are connected to this port."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [row[9] for row in rows if row[2].endswith(f":{port:04X}")]


def open_files(pid: int) -> set[str]:
    """Return the names of the open files of a process."""
    names = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            names.add(os.readlink(path))
    return names


def open_files_limit(pid: int) -> tuple[int, int]:
    """Return the soft and the hard limit on open files of a process."""
    return resource.prlimit(pid, resource.RLIMIT_NOFILE)


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stop a process until the context ends."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def until(holds: Callable[[], bool]) -> None:
    """Return when a condition holds."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.05)


def ids(client: httpx.Client, q: str, **more: Any) -> list[str]:
    """Return the ids of the hits of a search."""
    answer = client.post(SEARCH, json={"q": q, "limit": 50, **more})
    assert answer.status_code == 200, answer.text
    return [hit["id"] for hit in answer.json()["hits"]]
