"""The processor time that authorisation adds to a request, in microseconds: the route, the head, the key, all of it.

    python -m benchmarks.authorisation

No server runs: the middleware gets the head of a search as a server gives it, among 100 keys.
"""

import os
import time
from collections.abc import Callable
from typing import Any

from service.access import ACCESS
from service.app import create_app
from service.http.access import Asked, Caller
from service.http.authorisation import Authorisation, Head
from service.http.declared_routes import declared_routes, route_of
from service.runtime.keyring import NEVER, Keyring, KnownKey, digest_of, new_token
from service.settings import Settings
from service.storage.database import new_id

HEADERS = [(b"host", b"localhost"), (b"user-agent", b"x"), (b"accept", b"*/*"), (b"accept-encoding", b"gzip")]
HEADERS += [(b"content-type", b"application/json"), (b"content-length", b"40")]
REPEATS, CALLS = 15, 2000


class KeysAlone:
    """An authority with keys and without a service."""

    def __init__(self, keyring: Keyring) -> None:
        self.caller = keyring.caller
        self.has_keys = lambda: True
        self.covers = lambda caller, name: caller.covers(name)


def request(method: str, path: str, token: bytes) -> dict[str, Any]:
    """Return the ASGI scope of a request with this key."""
    headers = [*HEADERS, (b"authorization", b"Bearer " + token)]
    return {"type": "http", "method": method, "path": path, "headers": headers}


def microseconds(call: Callable[[], object]) -> float:
    """Return the least processor time of a call, over REPEATS means of CALLS calls."""
    means = []
    for _ in range(REPEATS):
        begun = time.thread_time()
        for _ in range(CALLS):
            call()
        means.append((time.thread_time() - begun) / CALLS)
    return round(1e6 * min(means), 1)


def measured() -> dict[str, float]:
    """Return the microseconds of each part."""
    routes = declared_routes(create_app(Settings(encoder="hashing")), ACCESS)
    ids = [new_id() for _ in range(100)]
    tokens = [new_token(id).encode() for id in ids]
    keyring = Keyring()
    callers = [Caller(key_id=id, scopes=frozenset({"search"}), collections=frozenset({"default"})) for id in ids]
    keyring.load(KnownKey(one, ((digest_of(key), NEVER),)) for one, key in zip(callers, tokens, strict=True))
    search = request("POST", "/v1/collections/default/search", tokens[7])
    last = request("GET", "/favicon.ico", tokens[7])
    authority: Any = KeysAlone(keyring)
    middleware = Authorisation(lambda: None, lambda: routes)  # type: ignore[arg-type]
    return {
        "the route of a search": microseconds(lambda: route_of(routes, search)),
        "the last route": microseconds(lambda: route_of(routes, last)),
        "the head": microseconds(lambda: Head(search)),
        "the key": microseconds(lambda: keyring.caller(tokens[7])),
        "all of a search": microseconds(lambda: middleware._admit(Asked(), search, Head(search), authority)),
    }


if __name__ == "__main__":
    for name, cost in measured().items():
        print(f"{name:24} {cost:6.1f} µs")
    print({"cores": os.cpu_count(), "load": os.getloadavg()[0]})
