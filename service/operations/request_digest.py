"""The digest of a request, computed from its address and from the parts of its body as they arrive.

The body of an import is streamed to a file. So its digest is known only when the route has read the body to its end.
"""

import hashlib

from starlette.requests import Request
from starlette.types import Message

from service.http.problems import Problem


class RequestDigest:
    """The SHA-256 of the address and the body of a request, and the digest that it is expected to have."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._hash = hashlib.sha256(f"{request.url.path}?{request.url.query}\n".encode())
        self._expected: str | None = None
        self._has_ended = False

    @property
    def sha256(self) -> str:
        """The digest of what has arrived."""
        return self._hash.hexdigest()

    @property
    def is_accepted(self) -> bool:
        """Whether the body has arrived to its end, and the digest is the expected one."""
        return self._has_ended and self._expected in (None, self.sha256)

    def expect(self, sha256: str) -> None:
        """Expect the digest of the first request with the same key. Raises Problem 422 if this one has another."""
        self._expected = sha256
        self._check()

    async def receive(self) -> Message:
        """Return the next message of the request. Raises Problem 422 at the end of a body that is not expected.

        A route that reads the body from here stores nothing of such a request.
        """
        message = await self._request.receive()
        if message["type"] == "http.request":
            self._hash.update(message.get("body", b""))
            self._has_ended = not message.get("more_body", False)
            self._check()
        return message

    async def read_rest(self) -> None:
        """Read the rest of the body and discard it. Raises Problem 422 for another body, and ClientDisconnect."""
        if not self._has_ended:
            async for _ in Request(self._request.scope, self.receive).stream():
                pass

    def _check(self) -> None:
        if self._has_ended and not self.is_accepted:
            raise Problem(422, "idempotency_key_reused", "this Idempotency-Key was used for another request")
