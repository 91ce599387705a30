"""Middleware that answers the most frequent requests without the routing and the validation of the framework.

It knows the operation of a request from `Authorisation`, and neither paths nor schemas. A request that it cannot answer
goes on to the application as it came, so that each error of a body has one wording.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.access import ASKED, Asked
from service.http.requests import INLINE_BYTES

DirectAnswer = Callable[[Scope, Asked, bytes], Awaitable[Response | None]]
"""Answers a request from its scope, its access and its body. None: the application answers, and nothing was done."""


class DirectAnswers:
    """ASGI middleware around the application, inside all others.

    answers: name of an operation -> its answer. A body of more than INLINE_BYTES goes to the application, and so does
    a request with a query string.
    """

    def __init__(self, app: ASGIApp, answers: Mapping[str, DirectAnswer]) -> None:
        self.app = app
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked: Asked | None = scope.get(ASKED)
        direct = None if asked is None else self._answers.get(asked.operation)
        if asked is None or direct is None or scope.get("query_string"):
            await self.app(scope, receive, send)
            return
        messages = [] if scope["method"] == "GET" else await _short_body(receive)
        body = _whole(messages)
        response = None if body is None else await _answered(direct, scope, asked, body)
        if response is None:
            await self.app(scope, _replayed(messages, receive), send)
        else:
            await response(scope, receive, send)


async def _answered(direct: DirectAnswer, scope: Scope, asked: Asked, body: bytes) -> Response | None:
    """Return the answer, or the answer of the application's handler for an error. Errors without a handler rise."""
    try:
        return await direct(scope, asked, body)
    except Exception as error:
        handlers = scope["app"].exception_handlers
        known = [kind for kind in type(error).__mro__ if kind in handlers and kind is not Exception]
        if not known:
            raise
        response: Response = await handlers[known[0]](Request(scope), error)
        return response


async def _short_body(receive: Receive) -> list[Message]:
    """Return the messages of a body up to its end, up to more than INLINE_BYTES, or up to the end of the connection."""
    messages: list[Message] = []
    size, ended = 0, False
    while not ended and size <= INLINE_BYTES:
        message = await receive()
        messages.append(message)
        size += len(message.get("body", b""))
        ended = not message.get("more_body", False)
    return messages


def _whole(messages: Sequence[Message]) -> bytes | None:
    """Return the body of these messages; None if it is long, or did not arrive."""
    if any(message["type"] != "http.request" for message in messages):
        return None
    if messages and messages[-1].get("more_body", False):
        return None
    body = b"".join(message.get("body", b"") for message in messages)
    return body if len(body) <= INLINE_BYTES else None


def _replayed(messages: Sequence[Message], receive: Receive) -> Receive:
    """Return a function that receives these messages again, and then what follows."""
    left = iter(messages)

    async def replay() -> Message:
        for message in left:
            return message
        return await receive()

    return replay
