"""An open-loop load generator: requests are sent at a fixed rate, whether earlier ones are answered or not.

The service shares the machine, so at thousands of requests a second the generator must take little of the processor. It
uses no event loop of asyncio, and reads no more of an answer than its status and its length.
"""

import select
import socket
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.servers.http1 import HOST
from benchmarks.servers.load import NO_CONNECTION

READ_BYTES = 65536
WAIT_SECONDS = 0.001
"""The longest time between two looks at the clock."""
PATIENCE_SECONDS = 60.0
"""A request without an answer for longer has none."""
IDLE_SECONDS = 2.0
"""A connection that waited longer is not used again: the service may close it at that moment."""


@dataclass
class Answered:
    """The answers of a load: the seconds from each arrival to the whole answer, by status."""

    seconds: dict[int, list[float]] = field(default_factory=dict)
    late: int = 0
    """Requests that were not sent, because too many were open."""
    failures: Counter[str] = field(default_factory=Counter)

    def add(self, status: int, seconds: float) -> None:
        """Add an answer."""
        self.seconds.setdefault(status, []).append(seconds)


class _Connection:
    """A connection that waits for an answer, or for its next request."""

    def __init__(self, port: int) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect((HOST, port))  # on the same machine: it returns as soon as the backlog has a place
        self.socket.setblocking(False)
        self.since = 0.0
        self._received = bytearray()
        self._end: int | None = None
        self.status = NO_CONNECTION
        self.is_kept = True

    def send(self, content: bytes, arrival: float) -> None:
        """Send a request. Raises OSError."""
        self.since, self._received, self._end, self.status = arrival, bytearray(), None, NO_CONNECTION
        if self.socket.send(content) < len(content):
            raise OSError("the request does not fit into the buffer of the socket")

    def read(self) -> bool:
        """Read the bytes that have arrived; return whether the answer is whole. Raises OSError at the end of input."""
        part = self.socket.recv(READ_BYTES)
        if not part:
            raise OSError("closed without an answer")
        self._received += part
        if self._end is None and (head := self._received.find(b"\r\n\r\n")) >= 0:
            self._read_head(bytes(self._received[:head]).lower(), head + 4)
        return self._end is not None and len(self._received) >= self._end

    def _read_head(self, head: bytes, body: int) -> None:
        self.status = int(head[9:12])
        _, found, rest = head.partition(b"\r\ncontent-length:")
        if not found:
            raise OSError("an answer without content-length")
        self._end = body + int(rest.partition(b"\r\n")[0])
        self.is_kept = b"\r\nconnection: close" not in head


class _Loop:
    def __init__(self, port: int) -> None:
        self._port = port
        self._poll = select.epoll()
        self._free: deque[_Connection] = deque()
        self._open: dict[int, _Connection] = {}
        self.answered = Answered()

    @property
    def open_count(self) -> int:
        return len(self._open)

    def send(self, content: bytes, arrival: float) -> None:
        try:
            connection = self._kept(arrival) or self._connected()
        except OSError as error:
            self._fail(arrival, error)
            return
        self._open[connection.socket.fileno()] = connection
        try:
            connection.send(content, arrival)
        except OSError as error:
            self._lose(connection, error)

    def read(self, seconds: float) -> None:
        """Read the answers that arrive within these seconds."""
        for number, _ in self._poll.poll(seconds):
            connection = self._open.get(number)
            if connection is None:
                self._poll.unregister(number)  # the service closed an idle connection
                continue
            try:
                if connection.read():
                    self._end(connection)
            except (OSError, ValueError) as error:
                self._lose(connection, error)

    def close(self) -> None:
        for connection in list(self._open.values()):
            self._lose(connection, TimeoutError(f"no answer within {PATIENCE_SECONDS:g} s"))
        for connection in self._free:
            connection.socket.close()
        self._poll.close()

    def _connected(self) -> _Connection:
        connection = _Connection(self._port)
        self._poll.register(connection.socket.fileno(), select.EPOLLIN)
        return connection

    def _kept(self, now: float) -> _Connection | None:
        """Return the connection that was used last; close the connections that waited too long."""
        while self._free and now - self._free[0].since > IDLE_SECONDS:
            self._free.popleft().socket.close()
        return self._free.pop() if self._free else None

    def _end(self, connection: _Connection) -> None:
        now = time.perf_counter()
        self.answered.add(connection.status, now - connection.since)
        del self._open[connection.socket.fileno()]
        connection.since = now
        if connection.is_kept:
            self._free.append(connection)
        else:
            connection.socket.close()

    def _lose(self, connection: _Connection, error: Exception) -> None:
        del self._open[connection.socket.fileno()]
        connection.socket.close()
        self._fail(connection.since, error)

    def _fail(self, arrival: float, error: Exception) -> None:
        self.answered.add(NO_CONNECTION, time.perf_counter() - arrival)
        self.answered.failures[str(error)] += 1


def open_loop(port: int, request: Callable[[int], bytes], rate: float, seconds: float, most_open: int) -> Answered:
    """Send requests at `rate` a second, and return the answers.

    request: the bytes of the request with this number. most_open: requests without an answer, at most; the next is not
    sent. A time runs from the moment at which the request was due, so it contains a delay of the generator.
    """
    loop = _Loop(port)
    begun = time.perf_counter()
    for number in range(int(rate * seconds)):
        due = begun + number / rate
        while (now := time.perf_counter()) < due:
            loop.read(min(WAIT_SECONDS, due - now))
        if number % 16 == 0:
            loop.read(0)  # also while requests are due without a pause
        if loop.open_count >= most_open:
            loop.answered.late += 1
        else:
            loop.send(request(number), due)
    until = time.perf_counter() + PATIENCE_SECONDS
    while loop.open_count and time.perf_counter() < until:
        loop.read(WAIT_SECONDS)
    loop.close()
    return loop.answered
