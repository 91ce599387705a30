"""The worker processes of a service: starts them, gives them connections, takes their messages, replaces what ended.

The process that owns the data directory answers requests, too: it is number 0. A connection goes to the process with
the fewest open ones, so that all have the same share of the clients.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import structlog

from index.storage.files import make_durable_directory
from service.http.server import DRAIN_SECONDS
from service.runtime.runtime import Runtime
from service.settings import Settings, with_database
from service.workers.cells import Cells
from service.workers.channels import CELLS_FILE, FEED, Start, send_connection
from service.workers.messages import Inbox, Message
from service.workers.publisher import Publisher

LOOK_SECONDS = 0.05
GATHERED_SECONDS = 0.02
"""Time for which messages wait in their sockets. A thread that takes each as it comes interrupts a search each time."""
LEAST_LIFE_SECONDS = 5.0
"""A worker that ends sooner is replaced after this time: one that cannot start must not use up the processor."""
MEND_SECONDS = 10.0
"""Time in which a reported damage of a collection is the same damage."""
START_SECONDS = 120.0
"""The longest wait for a new worker: the process that forks it loads its libraries and the encoder first."""
END_SECONDS = 2.0
"""The longest wait for workers whose sockets are closed already."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
"""The environment of processes that are forked: they have no threads that a fork would lose."""
log = structlog.get_logger()


class _Worker:
    """A process with its sockets."""

    def __init__(self, pid: int, connections: socket.socket, inbox: Inbox) -> None:
        self.pid, self.connections, self.inbox = pid, connections, inbox
        self.started = time.monotonic()
        self.is_ready = False
        self.sent = 0
        self.samples: dict[str, float] = {}


def _signal(worker: _Worker, number: int) -> None:
    """Send a signal to a worker that has not ended."""
    if not worker.inbox.has_ended:
        with suppress(ProcessLookupError):
            os.kill(worker.pid, number)


class _Spawner:
    """The process that workers are forked from, `service.workers.spawner`."""

    def __init__(self, settings: Settings) -> None:
        self._orders, theirs = socket.socketpair()
        self._orders.settimeout(START_SECONDS)
        self._has_forked = False
        text = settings.model_dump_json(exclude={"admin_key", "key", "database"})
        command = [sys.executable, "-m", "service.workers", str(theirs.fileno()), text]
        environment = with_database(os.environ, settings.database_address) | ONE_THREAD
        with theirs:
            self._process = subprocess.Popen(
                command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, env=environment
            )

    def fork(self, start: Start, connections: socket.socket, messages: socket.socket) -> int:
        """Return the PID of a new worker with these sockets. Raises OSError if the process does not answer."""
        socket.send_fds(self._orders, [start.as_json().encode()], [connections.fileno(), messages.fileno()])
        answer = self._orders.recv(32)
        if not answer:
            raise OSError("the process that forks workers has ended")
        self._has_forked = True
        return int(answer)

    def interrupt(self) -> None:
        """Have a waiting `fork` raise OSError; another thread may call it."""
        with suppress(OSError):
            self._orders.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """End the process. It waits for the workers that it has forked, so that none is left as a zombie."""
        self._orders.close()
        try:
            self._process.wait(END_SECONDS if self._has_forked else 0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Workers:
    """The workers of a runtime, numbered from 1 to `count`."""

    def __init__(self, runtime: Runtime, count: int, address: Path) -> None:
        """address: the Unix socket on which this process answers what workers pass on."""
        self._runtime, self.count, self._address = runtime, count, address
        self._folder = runtime.settings.data / "workers"
        shutil.rmtree(self._folder, ignore_errors=True)
        make_durable_directory(self._folder)
        self.cells = Cells.create(self._folder / CELLS_FILE)
        self.publisher = Publisher(runtime, self._folder / FEED, self.cells)
        self._workers: dict[int, _Worker] = {}
        self._started_at: dict[int, float] = {}
        self._ended_samples: Counter[str] = Counter()
        self._mended: dict[int, float] = {}
        self._own_sent = 0
        self._spawner: _Spawner | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="workers", daemon=True)
        self._receiver = threading.Thread(target=self._receive, name="inboxes", daemon=True)

    def start(self) -> None:
        """Start the workers; they get connections as soon as they are ready."""
        self.publisher.start()
        self._runtime.impressions.sources.append(self.drain)
        self._runtime.workers = self
        self._thread.start()
        self._receiver.start()

    def stop(self) -> None:
        """End the workers in order: they answer what they have begun to answer, for DRAIN_SECONDS at most."""
        if self._closed.is_set():
            return
        self._closed.set()
        if self._spawner is not None:
            self._spawner.interrupt()
        for thread in (self._thread, self._receiver):
            if thread.is_alive():
                thread.join()
        workers = list(self._workers.values())
        for worker in workers:
            _signal(worker, signal.SIGTERM)
        until = time.monotonic() + DRAIN_SECONDS + 2
        while time.monotonic() < until and not all(worker.inbox.has_ended for worker in workers):
            time.sleep(LOOK_SECONDS)
            self.drain()
        for worker in workers:
            _signal(worker, signal.SIGKILL)
            worker.inbox.close()
            worker.connections.close()
        if self._spawner is not None:
            self._spawner.end()
        self.publisher.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def hand_over(self, connection: socket.socket) -> bool:
        """Give a connection to the worker with the fewest; return False if this process has the fewest."""
        own = self._own_sent - self.cells.closed(0)
        open_by = {number: one.sent - self.cells.closed(number) for number, one in self._ready().items()}
        for number in sorted(open_by, key=lambda number: (open_by[number], number)):
            if open_by[number] >= own:
                break
            worker = self._workers[number]
            try:
                send_connection(worker.connections, connection)
            except OSError:
                continue
            worker.sent += 1
            connection.close()
            return True
        self._own_sent += 1
        return False

    def drain(self) -> None:
        """Take all messages that workers have sent."""
        for worker in list(self._workers.values()):
            worker.inbox.drain()

    @property
    def ready(self) -> int:
        """The number of workers that take connections."""
        return len(self._ready())

    @property
    def busy(self) -> int:
        """The number of workers that have no thread that is free for a further search."""
        return self.cells.busy

    @property
    def samples(self) -> Sequence[Mapping[str, float]]:
        """The counts of metrics of all workers, also of workers that ended."""
        return [self._ended_samples, *(one.samples for one in list(self._workers.values()))]

    def _ready(self) -> dict[int, _Worker]:
        return {number: one for number, one in list(self._workers.items()) if one.is_ready}

    def _watch(self) -> None:
        while not self._closed.is_set():
            for number in range(1, self.count + 1):
                worker = self._workers.get(number)
                if worker is not None and worker.inbox.has_ended:
                    self._bury(number, worker)
                    worker = None
                if worker is None and not self._closed.is_set() and self._may_start(number):
                    self._start(number)
            self._closed.wait(LOOK_SECONDS)

    def _receive(self) -> None:
        while not self._closed.wait(GATHERED_SECONDS):
            self.drain()

    def _may_start(self, number: int) -> bool:
        return time.monotonic() > self._started_at.get(number, -LEAST_LIFE_SECONDS) + LEAST_LIFE_SECONDS

    def _bury(self, number: int, worker: _Worker) -> None:
        log.error("worker_ended", worker=number, pid=worker.pid)
        del self._workers[number]
        worker.inbox.close()
        worker.connections.close()
        self._ended_samples.update(worker.samples)
        self.cells.reset(number)
        if time.monotonic() > worker.started + LEAST_LIFE_SECONDS:
            self._started_at.pop(number, None)

    def _start(self, number: int) -> None:
        self._started_at[number] = time.monotonic()
        connections, given_connections = socket.socketpair()
        messages, given_messages = socket.socketpair()
        connections.setblocking(False)
        settings = self._runtime.settings
        start = Start(
            worker=number,
            folder=str(self._folder.resolve()),
            address=str(self._address),
            max_connections=connections_of_each(settings.max_connections, self.count),
        )
        try:
            if self._spawner is None:
                self._spawner = _Spawner(settings)
            pid = self._spawner.fork(start, given_connections, given_messages)
        except OSError as error:
            if not self._closed.is_set():
                log.error("worker_not_started", worker=number, reason=str(error))
            if self._spawner is not None:
                self._spawner.end()
            self._spawner = None
            for one in (connections, messages, given_connections, given_messages):
                one.close()
            return
        given_connections.close()
        given_messages.close()
        made: list[_Worker] = []
        begun = threading.Event()

        def hand_over(message: Message) -> None:
            begun.wait()
            self._take(made[0], message)

        made.append(_Worker(pid, connections, Inbox(messages, hand_over)))
        self._workers[number] = made[0]
        begun.set()

    def _take(self, worker: _Worker, message: Message) -> None:
        if "impression" in message:
            self._runtime.impressions.add(message["impression"])
        elif "metrics" in message:
            worker.samples = message["metrics"]
            for key_id, moment in message["uses"].items():
                self._runtime.keyring.note_use(key_id, moment)
        elif "damaged" in message:
            threading.Thread(target=self._mend, args=(message["damaged"],), name="mend", daemon=True).start()
        elif "ready" in message:
            worker.is_ready = True
            log.info("worker_ready", pid=worker.pid, seconds=round(time.monotonic() - worker.started, 2))

    def _mend(self, collection_id: int) -> None:
        """Rebuild an index that a worker found damaged."""
        now = time.monotonic()
        if now < self._mended.get(collection_id, -MEND_SECONDS) + MEND_SECONDS:
            return
        self._mended[collection_id] = now
        for state in list(self._runtime.collections.values()):
            if state.id == collection_id:
                state.mend(state.generation)


def connections_of_each(most: int, workers: int) -> int:
    """Return the number of connections that each of the processes may have open."""
    return max(10, -(-most // (workers + 1)))
