"""The HTTP connection of the server, with bounds: bytes of a head, time without progress, number of connections.

The server's own class has none of them. A search is also refused here while the queue of searches is full, and dropped
if its client has left already. A refusal before the task and the middleware of the application takes a few dozen
microseconds, so overload costs little.
"""

import asyncio
import math
import re
import select
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.http.body_limit import is_import
from service.http.earlier_http import EARLIER, without_chunks
from service.http.metrics import REQUESTS
from service.http.presence import CONNECTION, Presence
from service.http.problems import Problem
from service.http.raw_answer import raw_answer
from service.http.request_parser import RequestParser

SEARCH_PATHS = re.compile(rb"/v1/(?:collections/[^/]+/(?:search|recommend)|multi-search)")
"""The paths whose requests take a place in the queue of searches."""
MAX_HEAD_BYTES = 64 * 1024
MAX_DISCARDED_BYTES = 64 * 1024 * 1024
"""Bytes of a body that are read after its answer was sent."""
MAX_FRAMING_BYTES = 1024 * 1024
"""Bytes between two parts of a body: chunk extensions and trailers."""
MAX_FIELDS = 200
"""Fields of a head. Work on them may grow with the square of their number."""
HAS_LEFT: int = getattr(select, "POLLRDHUP", 0)
"""The event of a peer that sends no more; only Linux has it."""
UNSENT_BYTES = 64 * 1024
"""Bytes of an answer that the system holds before they are on their way, where it can be told so.

It would hold megabytes, which a slow client needs minutes to read, and no progress would show meanwhile.
"""
LOOKS = 4
"""How often a connection is looked at in the shortest of its times."""

HEAD_TOO_LARGE = Problem(431, "head_too_large", f"the head of a request must not exceed {MAX_HEAD_BYTES} bytes")
TOO_MANY_FIELDS = Problem(431, "head_too_large", f"the head of a request must not have more than {MAX_FIELDS} fields")
BAD_REQUEST = Problem(400, "bad_request", "the request is not valid HTTP")
TWO_HOSTS = Problem(400, "bad_request", "a request must not name two hosts")
UNKNOWN_CODING = Problem(501, "unknown_transfer_coding", "the only transfer coding of a request is chunked")
TOO_SLOW = Problem(408, "request_timeout", "the request arrived too slowly")
TOO_MANY = Problem(503, "too_many_connections", "too many connections are open", headers={"Retry-After": "1"})
REFUSED = REQUESTS.labels(status="5xx")
OVERLOADED = Problem(503, "overloaded", "too many searches are waiting", headers={"Retry-After": "1"})


@dataclass(frozen=True)
class Patience:
    """The bounds of a connection."""

    connections: int = 1000
    head_seconds: float = 10.0
    """From the first byte of a head, or from the connection, to the end of the head."""
    body_seconds: float = 30.0
    """The time in which at least body_bytes of a body arrive, or of an answer leave. The bytes of an answer leave when
    the client's system takes them: in steps of tens of KiB, however steadily the client reads."""
    body_bytes: int = 1024
    whole_body_seconds: float = 600.0
    """From the end of the head to the end of the body. The bodies of imports have no such time."""


class _RefusedHead(Exception):
    """Ends the parsing of a connection."""


class _Answered:
    """The place of a request cycle that is complete: the rest of its request is read and discarded."""

    response_complete = True
    response_started = True
    disconnected = False
    keep_alive = True
    more_body = False

    def __init__(self) -> None:
        self.message_event = asyncio.Event()


class BoundedConnection(HttpToolsProtocol, Presence):
    """A connection with bounds. `bounded` sets them."""

    patience: ClassVar[Patience] = Patience()
    free_places: ClassVar[Callable[[], float]] = staticmethod(lambda: math.inf)
    arriving: ClassVar[int] = 0
    """Searches that were let through and have not taken a place yet: many requests may arrive in a turn of the loop."""
    is_counted = False
    """Whether `when_lost` is called for this connection."""
    when_lost: ClassVar[Callable[[], object]] = staticmethod(lambda: None)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.parser = RequestParser(self)
        self._in_head = True
        self._has_begun = False
        self._head_bytes = self._framing_bytes = self._discarded = self._moved = 0
        self._since = self._moved_since = self._head_since = self._answered_since = self.loop.time()
        self._was_paused = False
        self._fault = BAD_REQUEST
        self._later: Problem | None = None
        self._timer = self.loop.call_later(self._look_seconds, self._look)
        self._is_of_process = transport.get_extra_info("socket").family == socket.AF_UNIX
        if not self._is_of_process:
            _bound_unsent(transport)
        self._note_taken()
        if len(self.connections) > self.patience.connections and not self._close_an_idle_one():
            self._refuse(TOO_MANY)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self.leave()
        if self.is_counted:
            type(self).when_lost()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        type(self).stop()
        super().shutdown()

    @classmethod
    def stop(cls) -> None:
        """Have the event streams of all connections of this server end."""
        cls.is_stopping = True

    def pause_writing(self) -> None:
        super().pause_writing()
        self._note_taken()

    def data_received(self, data: bytes) -> None:
        self._moved += len(data)
        if not self._in_head:
            self._framing_bytes += len(data)
            super().data_received(data)
            if self._framing_bytes > MAX_FRAMING_BYTES:
                self._refuse(HEAD_TOO_LARGE)
            return
        if not self._head_bytes:
            self._since = self.loop.time()
        allowed = MAX_HEAD_BYTES - self._head_bytes
        self._head_bytes += len(data)
        super().data_received(data[:allowed])
        if len(data) <= allowed or self.transport.is_closing():
            return
        if self._head_bytes > MAX_HEAD_BYTES:  # no head ended: its end sets the number to 0
            self._refuse(HEAD_TOO_LARGE)
        else:
            self.data_received(data[allowed:])

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._has_begun = True
        cast(dict[str, Any], self.scope)[CONNECTION] = self

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # a trailer does not count as a field of the head (RFC 9110, 6.5.1)
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        fault = _fault_of(self.headers)
        if fault is not None:
            self._fault = fault
            raise _RefusedHead  # the parser then has the same answered as for a request that is not HTTP
        self._in_head = False
        self._head_bytes = 0
        self._framing_bytes = self._discarded = self._moved = 0
        self._moved_since = self._head_since = self.loop.time()
        is_earlier = self.parser.get_http_version() == EARLIER
        self.expect_100_continue = self.expect_100_continue and not is_earlier
        self._begin()
        if is_earlier and isinstance(self.cycle, RequestResponseCycle):
            without_chunks(self.cycle)

    def _begin(self) -> None:
        """Have the application answer the request whose head has arrived, unless it is refused here."""
        if not self._is_a_search() or not self._is_free():
            super().on_headers_complete()
        elif type(self).free_places() <= type(self).arriving:
            self._refuse_search()
        elif self._client_has_left():
            self.cycle = cast(RequestResponseCycle, _Answered())
            self.transport.abort()
        else:
            super().on_headers_complete()
            type(self).arriving += 1
            self.loop.call_soon(type(self)._has_arrived)  # after the first step of the task of this request

    def on_body(self, body: bytes) -> None:
        self._framing_bytes = 0
        super().on_body(body)
        self._was_paused = self._was_paused or self.flow.read_paused
        if self.cycle.response_complete:
            self._discarded += len(body)
            if self._discarded > MAX_DISCARDED_BYTES:
                self.transport.close()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head = True
        self._has_begun = False
        self._head_bytes = 0
        self._since = self.loop.time()

    def on_response_complete(self) -> None:
        self._answered_since = self.loop.time()
        is_last = not self.pipeline
        super().on_response_complete()
        if is_last and self._later is not None and not self.transport.is_closing():
            self._close_with(self._later)

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._fault)

    def _should_upgrade(self) -> bool:
        return False  # another protocol would leave the bounds of this connection

    @property
    def _look_seconds(self) -> float:
        return min(self.patience.head_seconds, self.patience.body_seconds) / LOOKS

    def _is_free(self) -> bool:
        """Return whether no request of this connection waits for its answer."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is None or cycle.response_complete

    def _discards(self) -> bool:
        """Return whether the answer was sent, and the rest of the body still arrives."""
        return not self._in_head and self._is_free()

    def _may_answer(self) -> bool:
        """Return whether a raw answer is the next answer that the client waits for."""
        if self.pipeline:
            return False
        if not self._is_free():
            return not self.cycle.response_started
        is_first = cast(RequestResponseCycle | None, self.cycle) is None
        return is_first or (self._in_head and (self._has_begun or self._head_bytes > 0))

    def _is_a_search(self) -> bool:
        return SEARCH_PATHS.fullmatch(self.url.partition(b"?")[0]) is not None

    def _client_has_left(self) -> bool:
        """Return whether the client has closed the connection, which the event loop may learn much later."""
        if not HAS_LEFT:
            return False
        poll = select.poll()
        poll.register(self.transport.get_extra_info("socket").fileno(), HAS_LEFT)
        return bool(poll.poll(0))

    @classmethod
    def _has_arrived(cls) -> None:
        cls.arriving -= 1

    def _refuse_search(self) -> None:
        """Answer 503 before the application sees the request. The connection stays open."""
        closes = self.expect_100_continue or not self.parser.should_keep_alive()
        path = self.url.partition(b"?")[0]
        self.cycle = cast(RequestResponseCycle, _Answered())
        self.transport.write(_overloaded(path, closes, self.parser.get_method() == b"HEAD"))
        REFUSED.inc()
        if closes:
            self.transport.close()
        self.on_response_complete()

    def _refuse(self, problem: Problem) -> None:
        """Answer a problem, if the client waits for an answer and none has begun, and close the connection.

        A request that waits may have arrived as a whole. Then a later request has the problem: it is answered after
        the request that waits.
        """
        if self.transport.is_closing() or self._later is not None:
            return
        if not self._is_free() and not self.cycle.more_body:
            self._later = problem
            self.flow.pause_reading()
            return
        may_answer = self._may_answer()
        if not self._is_free():
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if may_answer:
            self._close_with(problem, not self._is_free() and self.cycle.scope["method"] == "HEAD")
        else:
            self.transport.close()

    def _close_with(self, problem: Problem, is_head: bool = False) -> None:
        self.transport.write(raw_answer(problem, is_head=is_head))
        REQUESTS.labels(status=f"{problem.status // 100}xx").inc()
        self.transport.close()

    def _close_an_idle_one(self) -> bool:
        """Close a connection that waits for its next request, or discards a body; return whether there was one."""
        for other in self.connections:
            discards = isinstance(other, BoundedConnection) and other is not self and other._discards()
            if discards or getattr(other, "timeout_keep_alive_task", None) is not None:
                cast(HttpToolsProtocol, other).transport.close()
                return True
        return False

    def _look(self) -> None:
        """Close the connection if it makes too little progress."""
        now = self.loop.time()
        unsent = self.transport.get_write_buffer_size()
        if not self._is_taken(now, unsent):
            self.transport.abort()
            return
        if self.transport.is_closing():
            pass  # the rest of the last answer leaves
        elif self._in_head and self._is_free() and not unsent:
            if self.timeout_keep_alive_task is None and now - self._since > self.patience.head_seconds:
                self._refuse(TOO_SLOW)
        elif self._discards() and now - self._answered_since > self.patience.body_seconds:
            self.transport.close()
        elif self._is_over_time(now):
            self._refuse(TOO_SLOW)
        elif now - self._moved_since >= self.patience.body_seconds:
            self._require_body(unsent)
            self._moved, self._moved_since = 0, now
            self._was_paused = self.flow.read_paused
        self._timer = self.loop.call_later(self._look_seconds, self._look)

    def _note_taken(self) -> None:
        self._taken_since, self._unsent = self.loop.time(), self.transport.get_write_buffer_size()

    def _is_taken(self, now: float, unsent: int) -> bool:
        """Return whether the client takes the answer. unsent: bytes that wait to leave.

        While writing is paused or the connection closes, the application adds no bytes to them. An answer to another
        process that has not ended waits for the client of that process, which has its own bounds.
        """
        waits = self.transport.is_closing() or (self.flow.write_paused and not self._is_of_process)
        if not waits or self._unsent - unsent >= self.patience.body_bytes:
            self._note_taken()
        return now - self._taken_since <= self.patience.body_seconds

    def _is_over_time(self, now: float) -> bool:
        """Return whether a body that is held in memory takes too long as a whole, however steadily it arrives."""
        if self._in_head or self.pipeline or now - self._head_since <= self.patience.whole_body_seconds:
            return False
        return not is_import(cast(dict[str, Any], self.scope))

    def _require_body(self, unsent: int) -> None:
        """Refuse the request if too little of its body arrived since the last time."""
        waits_for_body = not self._in_head and not self._was_paused and not self.flow.read_paused
        if waits_for_body and not unsent and self._moved < self.patience.body_bytes:
            self._refuse(TOO_SLOW)


def _bound_unsent(transport: asyncio.Transport) -> None:
    """Bound what the system holds of an answer before it is on its way, which is no bound on its rate."""
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if option is not None:
        with suppress(OSError):
            transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, option, UNSENT_BYTES)


def _fault_of(fields: Sequence[tuple[bytes, bytes]]) -> Problem | None:
    """Return why a request with these fields in its head is refused."""
    if len(fields) > MAX_FIELDS:
        return TOO_MANY_FIELDS
    hosts = 0
    for name, value in fields:
        hosts += name == b"host"
        if name == b"transfer-encoding" and value.strip().lower() != b"chunked":
            return UNKNOWN_CODING
    return TWO_HOSTS if hosts > 1 else None


@lru_cache(16)  # a path may have as many bytes as a head
def _overloaded(path: bytes, closes: bool, is_head: bool) -> bytes:
    """Return the answer to a search that is refused: thousands of them a second differ in their paths alone."""
    return raw_answer(OVERLOADED, path, closes, is_head)


def bounded(
    patience: Patience, free_places: Callable[[], float], when_lost: Callable[[], object] = lambda: None
) -> type[BoundedConnection]:
    """Return the class of connections with these bounds.

    free_places: returns the places of the queue of searches that are free. when_lost: called when a connection
    with `is_counted` ends.
    """
    members = {"patience": patience, "free_places": staticmethod(free_places), "when_lost": staticmethod(when_lost)}
    return type("Connection", (BoundedConnection,), members)
