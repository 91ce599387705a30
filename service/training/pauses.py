"""Pauses a training process while all threads of searches are busy: at any priority it slows the searches of a machine
with few cores, because it shares their caches and, where two cores are the threads of one, its units.

The service writes orders to the stdin of the process. A thread of the process reads them, and a signal makes its main
thread wait. Whatever is computed is the same with pauses and without.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any, BinaryIO

PAUSE, GO = b"p", b"g"
ORPHANED = 3
"""The exit code of a process that ends because the service has ended."""
LOOK_SECONDS = 0.02
CALM_SECONDS = 0.1
"""A thread was free for this long: the process goes on."""
LONGEST_PAUSE_SECONDS = 0.8
LEAST_RUN_SECONDS = 0.1
"""Between two pauses: a process of a service that is always busy gets a ninth of the time."""
LONGEST_WAIT_SECONDS = 10.0
"""A process whose service gives no order for so long goes on."""


class Pacer:
    """Decides when a process is paused, from one look at the searches after another."""

    def __init__(self, now: float) -> None:
        self._paused_at: float | None = None
        self._busy_at = now
        self._went_on_at = now

    def look(self, now: float, is_busy: bool) -> bytes | None:
        """Return the order for the process, or None. is_busy: whether no thread is free."""
        if is_busy:
            self._busy_at = now
        if self._paused_at is None:
            if not is_busy or now - self._went_on_at < LEAST_RUN_SECONDS:
                return None
            self._paused_at = now
            return PAUSE
        if now - self._busy_at < CALM_SECONDS and now - self._paused_at < LONGEST_PAUSE_SECONDS:
            return None
        self._paused_at, self._went_on_at = None, now
        return GO


@contextmanager
def pausing(stdin: BinaryIO, is_busy: Callable[[], bool]) -> Iterator[None]:
    """Pause the process with this stdin while searches occupy all threads, until the context ends."""
    ended = Event()

    def watch() -> None:
        pacer = Pacer(time.monotonic())
        while not ended.wait(LOOK_SECONDS):
            if (order := pacer.look(time.monotonic(), is_busy())) is not None:
                try:
                    os.write(stdin.fileno(), order)
                except OSError:  # the process has ended
                    return

    watcher = threading.Thread(target=watch, name="training-pauses", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def obey(stdin: int, at_end: Callable[[], Any]) -> None:
    """Obey the orders of the service in the main thread, which calls this function, and call `at_end` when it ends.

    stdin: the file descriptor of the orders. The service holds its other end open as long as it lives.
    """
    may_run = Event()
    may_run.set()
    signal.signal(signal.SIGUSR1, lambda *_: may_run.wait(LONGEST_WAIT_SECONDS))

    def read() -> None:
        while order := os.read(stdin, 1):
            if order == GO:
                may_run.set()
            else:
                may_run.clear()
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        at_end()

    threading.Thread(target=read, daemon=True).start()
