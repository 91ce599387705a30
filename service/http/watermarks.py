"""Middleware: each answer about a collection names the state that it is of, and a request may require a state.

The header is COLLECTION:EPOCH:NUMBER. The number counts the visible changes of the collection; the epoch counts the
services that have begun to write to the database, so that a number of another history is not taken for one of this.
A request about several collections reads and writes watermarks of all of them, in its own code.
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterable
from typing import Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.access import ASKED, Asked
from service.http.problems import Problem, answer

HEADER = b"x-softseek-watermark"
WATERMARK = re.compile(rb"([A-Za-z0-9][A-Za-z0-9_-]{0,127}):([0-9]{1,18}):([0-9]{1,18})")
WAIT_SECONDS = 1.0
WAIT_STEP_SECONDS = 0.01
MOST_WAITING = 200
"""Requests of a process that wait for a state at the same time. One more gets its answer without a wait."""


class States(Protocol):
    """The states of the collections of a process."""

    follows: bool
    """Whether the states follow those of another process with a delay, so that it helps to wait."""

    def state_of(self, name: str) -> tuple[str, int, int] | None:
        """Return the name of a collection, the epoch and its number; None for an unknown collection."""


class Waits:
    """The waits of a process for states. They occupy no thread, and there are at most `most` at a time."""

    def __init__(self, most: int) -> None:
        self._most, self._count = most, 0

    async def until(self, reached: Callable[[], bool], seconds: float) -> bool:
        """Wait until a condition holds, at most so long; return whether it does. Beyond `most`, do not wait."""
        if self._count >= self._most:
            return reached()
        deadline = time.monotonic() + seconds
        self._count += 1
        try:
            while not reached() and time.monotonic() < deadline:
                await asyncio.sleep(WAIT_STEP_SECONDS)
        finally:
            self._count -= 1
        return reached()


WAITS = Waits(MOST_WAITING)


class Watermarks:
    """find: returns the states, None before the start.

    The collection comes from the route that was authorised. An answer without a route has no header, because it would
    tell whether the collection exists.
    """

    def __init__(self, app: ASGIApp, find: Callable[[Scope], States | None]) -> None:
        self._app, self._find = app, find

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked: Asked | None = scope.get(ASKED)
        name = "" if asked is None else asked.collection
        states = self._find(scope) if name else None
        if states is None:
            await self._app(scope, receive, send)
            return
        wanted = [value for name, value in scope["headers"] if name == HEADER]
        if wanted and (problem := await unreached_state(states, [name], b",".join(wanted).decode("latin-1"))):
            await answer(problem, scope)(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start" and (state := states.state_of(name)):
                message["headers"] = [*message["headers"], (HEADER, ":".join(map(str, state)).encode())]
            await send(message)

        await self._app(scope, receive, sent)


async def unreached_state(states: States, names: Iterable[str], wanted: str) -> Problem | None:
    """Return why a request about some collections is not answered, after a wait; None if all states are reached.

    names: of the collections that the caller may search. wanted: watermarks, separated by commas. Those of other
    collections are not looked at, so that no caller learns of them; a client may have them from a multi-search, or from
    an alias that has moved.
    """
    parsed = [WATERMARK.fullmatch(one.strip().encode()) for one in wanted.split(",")]
    if not all(parsed):
        return _invalid()
    known = {state[0]: name for name in names if (state := states.state_of(name))}
    for one in filter(None, parsed):
        name = known.get(one[1].decode())
        if name is not None and (problem := await _unreached(states, name, int(one[2]), int(one[3]))):
            return problem
    return None


def several_watermarks(states: States, names: Iterable[str]) -> str:
    """Return the header of an answer about several collections: their watermarks, separated by commas."""
    found = {state[0]: state for name in names if (state := states.state_of(name))}
    return ", ".join(":".join(map(str, state)) for state in found.values())


def watermark_headers(states: States, *names: str | None) -> dict[str, str]:
    """Return the header of an answer about collections that its address does not name; empty if there is none."""
    reached = several_watermarks(states, filter(None, names))
    return {HEADER.decode(): reached} if reached else {}


def _invalid() -> Problem:
    return Problem(422, "invalid_request", "X-Softseek-Watermark must be a watermark that an answer had")


async def _unreached(states: States, name: str, epoch: int, number: int) -> Problem | None:
    def has_reached() -> bool:
        state = states.state_of(name)
        return state is not None and state[1] == epoch and state[2] >= number

    if has_reached() or (states.follows and await WAITS.until(has_reached, WAIT_SECONDS)):
        return None
    state = states.state_of(name)
    if state is None or state[1] != epoch:
        detail = "the watermark is of another epoch: what it stood for may be gone; go on without it"
        return Problem(409, "other_epoch", detail)
    detail = "this process has not reached the watermark yet"
    return Problem(503, "watermark_not_reached", detail, headers={"Retry-After": "1"})
