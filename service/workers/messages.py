"""Messages of a worker to the process of the data directory: impressions, uses of keys, metrics, damage.

A message is one line of JSON on a socket. A worker sends an impression before its client has the answer, so that the
message is in the socket before any event can refer to it; `Inbox.drain` reads all messages in the socket.
"""

import socket
import threading
from collections.abc import Callable
from typing import Any

import orjson
import structlog

from service.http.metrics import LOST_IMPRESSIONS
from service.runtime.repeated_failures import RepeatedFailures

SEND_SECONDS = 5.0
"""Time that a message waits for its place. After it an impression is lost, and the log says so."""
READ_BYTES = 256 * 1024
Message = dict[str, Any]
log = structlog.get_logger()


class Outbox:
    """The sending side. Several threads may send."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._channel.settimeout(SEND_SECONDS)
        self._lock = threading.Lock()
        self._failures = RepeatedFailures("impression_lost")
        self._is_cut = False
        """Whether the last message was sent in part."""

    def add(self, impression: dict[str, Any]) -> None:
        """Send a row of `queries`."""
        self.send({"impression": impression})

    def flush(self) -> None:
        """Return: what was sent is with the process of the data directory, which waits for it."""

    def report_damage(self, collection_id: int) -> None:
        """Tell that the index of a collection is damaged."""
        self.send({"damaged": collection_id})

    def send(self, message: Message) -> None:
        """Send a message; log a failure."""
        line = orjson.dumps(message) + b"\n"
        with self._lock:
            try:
                self._channel.sendall(b"\n" + line if self._is_cut else line)
                self._is_cut = False
            except OSError as error:
                self._is_cut = True
                LOST_IMPRESSIONS.inc("impression" in message)
                self._failures.failed(error)

    def close(self) -> None:
        """Close the socket."""
        self._channel.close()


class Inbox:
    """The receiving side for one worker. Several threads may drain it."""

    def __init__(self, channel: socket.socket, hand_over: Callable[[Message], None]) -> None:
        self._channel = channel
        self._channel.setblocking(False)
        self._hand_over = hand_over
        self._lock = threading.Lock()
        self._rest = b""
        self.has_ended = False
        """Whether the other process closed its side, as it does when it ends."""

    def drain(self) -> None:
        """Hand over every message that was sent before the call."""
        with self._lock:
            while not self.has_ended:
                try:
                    data = self._channel.recv(READ_BYTES)
                except BlockingIOError:
                    return
                except OSError:
                    data = b""
                if not data:
                    self.has_ended = True  # a line without its end was not sent whole
                    return
                *lines, self._rest = (self._rest + data).split(b"\n")
                for line in filter(None, lines):
                    self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            self._hand_over(orjson.loads(line))
        except orjson.JSONDecodeError:
            log.warning("message_lost", length=len(line))
        except Exception:  # the other messages are handed over
            log.exception("message_lost")

    def close(self) -> None:
        """Hand over what was sent, and close the socket."""
        self.drain()
        self.has_ended = True
        self._channel.close()
