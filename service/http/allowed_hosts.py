"""Middleware that answers only for names of this service: another website cannot reach it through a name of its own.

A website can let a public name of its own point at 127.0.0.1. Its page then has the same origin as this service
("DNS rebinding"). Such a name has a dot. So IP addresses and names without a dot are always allowed.
"""

from functools import lru_cache
from ipaddress import ip_address

from starlette.types import ASGIApp, Receive, Scope, Send

from service.http.problems import Problem, answer

ANY = "*"


class AllowedHosts:
    """Answers 421 to a request for another name. A request without the header Host is no request of a browser.

    names: further names; `*` allows every name, and `*.example.org` every name that ends so.
    """

    def __init__(self, app: ASGIApp, names: tuple[str, ...] = ()) -> None:
        self.app = app
        self._names = tuple(name.lower().rstrip(".") for name in names)
        self._allows = lru_cache(1024)(self._is_allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            for header, value in scope["headers"]:
                if header == b"host" and not self._allows(value):
                    detail = "this service does not answer for this host; SOFTSEEK_ALLOWED_HOSTS names its hosts"
                    await answer(Problem(421, "host_not_allowed", detail), scope)(scope, receive, send)
                    return
        await self.app(scope, receive, send)

    def _is_allowed(self, host: bytes) -> bool:
        name = name_of(host.decode("latin-1"))
        if ANY in self._names or "." not in name or name.endswith(".localhost") or _is_address(name):
            return True
        return any(name == one or (one.startswith("*.") and name.endswith(one[1:])) for one in self._names)


def name_of(host: str) -> str:
    """Return the name of a Host header, in lower case and without port, brackets and final dot."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0].rstrip(".") if ":" in host else host.rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
