"""Training processes for tests, forked from a process that has imported all that training needs.

Such an import takes five seconds of processor time, which each run would spend again. The forked process runs the same
`main` with the same pipes, in a session of its own. One run of tests/test_flow.py, and the test of a killed service in
tests/service/test_training_resumed.py, test processes that start as a service starts them.

`python -m tests.service.training_processes` is the process that forks. Its stdin is a socket that brings the requests,
and it ends when the other end is closed.
"""

import atexit
import fcntl
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from service.training import child_process
from service.training.staging import LOCK

ROOT = Path(__file__).parents[2]
MAX_REQUEST_BYTES = 1 << 16
Spawn = Callable[[dict[str, Any], Any], Any]
"""Starts a training process of a specification, with a file for its stderr."""


class Forked:
    """A forked training process: the part of `subprocess.Popen` that the service uses."""

    def __init__(self, forker: socket.socket, specification: dict[str, Any], errors: Any) -> None:
        given_in, own_in = os.pipe()
        own_out, given_out = os.pipe()
        self.stdin, self.stdout = os.fdopen(own_in, "wb"), os.fdopen(own_out, "rb")
        self.returncode: int | None = None
        self._ending = threading.Lock()
        self._socket, given_socket = socket.socketpair()
        request = json.dumps(specification).encode()
        assert len(request) < MAX_REQUEST_BYTES
        given = [given_in, given_out, errors.fileno(), given_socket.fileno()]
        socket.send_fds(forker, [request], given)
        os.close(given_in)
        os.close(given_out)
        given_socket.close()
        self._answers = self._socket.makefile("r")
        self.pid = int(self._answers.readline())

    def poll(self) -> int | None:
        """Return the exit code if the process has ended."""
        if self.returncode is None and self._ending.acquire(blocking=False):
            try:
                if select.select([self._socket], [], [], 0)[0]:
                    self._end()
            finally:
                self._ending.release()
        return self.returncode

    def wait(self) -> int:
        """Return the exit code when the process has ended."""
        with self._ending:
            self._end()
        assert self.returncode is not None
        return self.returncode

    def _end(self) -> None:
        if self.returncode is None:
            self.returncode = int(self._answers.readline())
            self._answers.close()
            self._socket.close()

    def terminate(self) -> None:
        """Send SIGTERM to the process if it has not ended."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to the process if it has not ended."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # it has just ended, and its exit code is on the way
            if self.poll() is None:
                os.kill(self.pid, number)


@contextmanager
def forking() -> Iterator[Spawn]:
    """Yield a replacement for `service.training.child_process._spawn`. The process that forks starts with the first."""
    own, given = socket.socketpair()
    started: list[subprocess.Popen[bytes]] = []
    asking = threading.Lock()

    def spawn(specification: dict[str, Any], errors: Any) -> Forked:
        with asking:  # a request is read whole before the next is sent
            if not started:
                command = [sys.executable, "-m", "tests.service.training_processes"]
                environment = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
                started.append(subprocess.Popen(command, stdin=given, cwd=ROOT, env=environment))
                given.close()
            return Forked(own, specification, errors)

    try:
        yield spawn
    finally:
        own.close()
        given.close()
        for process in started:
            process.wait()


@cache
def shared_forking() -> Spawn:
    """Return the function that forks from one process for all tests of this process, until its end."""
    forker = ExitStack()
    atexit.register(forker.close)
    return forker.enter_context(forking())


@contextmanager
def forked_runs() -> Iterator[Spawn]:
    """Fork the training processes of the services of this process. Yields the function that starts others."""
    started = child_process._spawn
    child_process._spawn = shared_forking()
    try:
        yield started
    finally:
        child_process._spawn = started


@contextmanager
def held_runs() -> Iterator[None]:
    """Let the training processes that start in the block wait until its end, as for a process that is still ending."""
    spawn = child_process._spawn
    with ExitStack() as stack:
        held: set[str] = set()

        def spawn_waiting(specification: dict[str, Any], errors: Any) -> Any:
            if specification["staging"] not in held:
                held.add(specification["staging"])
                fcntl.flock(stack.enter_context((Path(specification["staging"]) / LOCK).open("wb")), fcntl.LOCK_EX)
            return spawn(specification, errors)

        child_process._spawn = spawn_waiting
        try:
            yield
        finally:
            child_process._spawn = spawn


def main() -> None:
    """Fork a process for each request, until the other end of the socket is closed."""
    import service.training.child  # noqa: F401  (what the processes need, imported once)
    import lightgbm  # noqa: F401  isort: skip  (a fit imports it late, after torch)
    import torch._dynamo  # noqa: F401  (the first optimizer of a process imports it)

    from service.training import __main__ as training

    gc.freeze()  # collections in the processes do not look at what is imported
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no process waits for the waiting processes
    with socket.socket(fileno=0) as requests:
        while (received := socket.recv_fds(requests, MAX_REQUEST_BYTES, 4))[0]:
            request, given = received[:2]
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _wait_for(given, partial(training.main, [request.decode()]))
            for descriptor in given:
                os.close(descriptor)


def _wait_for(given: list[int], run: Callable[[], int]) -> None:
    """Run in a forked process; send its process id, and its exit code when it has ended. Ends this process."""
    *pipes, answers = given
    pid = os.fork()
    if pid == 0:
        os.close(answers)
        for standard, pipe in enumerate(pipes):
            os.dup2(pipe, standard)
            os.close(pipe)
        os.setsid()
        _exit_with(run)
    for descriptor in (*pipes, 0):
        os.close(descriptor)
    os.write(answers, f"{pid}\n".encode())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(BrokenPipeError):  # no test waits for it
        os.write(answers, f"{code}\n".encode())
    os._exit(0)


def _exit_with(run: Callable[[], int]) -> None:
    """End this process as Python ends: with the exit code, or with a traceback on stderr and 1."""
    code = 1
    try:
        code = run()
    except SystemExit as asked:
        code = asked.code if isinstance(asked.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
