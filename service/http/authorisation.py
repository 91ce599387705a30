"""Middleware before all other parts: refuses every request that no declaration and no API key allows.

It knows the declared access of the routes and an `Authority`, and neither tables nor collections. Requests without a
key get 401, requests beyond the scopes of their key 403, requests about a collection that the key does not cover 404,
before anything of the request but its head is read.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Protocol

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as RequestScope

from service.http.access import ANYONE, ASKED, OWNER, PUBLIC, Access, Asked, Caller, calling
from service.http.cors import allow_reading, preflight_headers, readable_by
from service.http.declared_routes import DeclaredRoute, route_of
from service.http.metrics import REQUESTS
from service.http.problems import Problem, answer, not_found
from service.http.rate_limits import RateLimits
from service.http.writing_threads import run_in_writing_thread

FORWARDED = (b"forwarded", b"x-real-ip")
"""Headers that a proxy adds, besides all that begin with FORWARDED_PREFIX."""
FORWARDED_PREFIX = b"x-forwarded-"
DECIDING = frozenset({b"authorization", b"origin", b"access-control-request-method", *FORWARDED})
"""Headers that decide about the access of a request."""


class Authority(Protocol):
    """The keys of the service. `app.state.authority` has it as soon as the service has started."""

    def has_keys(self) -> bool:
        """Return whether a key was made."""

    def caller(self, token: bytes) -> Caller | None:
        """Return the caller with this key; None for a wrong or expired key."""

    def origins(self) -> frozenset[str]:
        """Return the origins of all keys."""

    def covers(self, caller: Caller, collection: str) -> bool:
        """Return whether a caller may use the collection with this name or alias."""

    def acting(self, asked: Asked) -> AbstractContextManager[None]:
        """Store the act of a request, if it is one, in the first transaction that the context commits."""

    def record(self, asked: Asked, status: int) -> None:
        """Store the act of a request, or the status of its answer where the act is stored. It does so durably."""


class Head:
    """The parts of the head of a request that decide about its access."""

    def __init__(self, scope: RequestScope) -> None:
        self.authorisations: list[bytes] = []
        self.origin = ""
        self.is_forwarded = self.is_preflight = False
        for name, value in scope["headers"]:
            if name in DECIDING:
                self._add(name, value)
            elif name[:2] == b"x-" and name.startswith(FORWARDED_PREFIX):
                self.is_forwarded = True

    def _add(self, name: bytes, value: bytes) -> None:
        if name == b"authorization":
            self.authorisations.append(value)
        elif name == b"origin":
            self.origin = value.decode("latin-1")
        elif name == b"access-control-request-method":
            self.is_preflight = True
        else:
            self.is_forwarded = True

    @property
    def token(self) -> bytes | None:
        """The key of `Authorization: Bearer KEY`, or None."""
        if len(self.authorisations) != 1:
            return None
        scheme, _, token = self.authorisations[0].partition(b" ")
        return token.strip() or None if scheme.lower() == b"bearer" else None


class Authorisation:
    """Lets a request through to the application if its caller may make it.

    routes: returns the routes of the application. owner: every request is the owner's, because only the owner reaches
    the socket. insecure: a service without keys answers requests that a proxy forwards. cors_origins: origins whose
    pages may read every answer, besides the origins of a key.
    """

    def __init__(
        self,
        app: ASGIApp,
        routes: Callable[[], tuple[DeclaredRoute, ...]],
        owner: bool = False,
        insecure: bool = False,
        cors_origins: Sequence[str] = (),
    ) -> None:
        self.app = app
        self._make_routes = routes
        self._routes: tuple[DeclaredRoute, ...] | None = None
        self._owner = owner
        self._insecure = insecure
        self._cors_origins = frozenset(cors_origins)
        self._rates = RateLimits()

    async def __call__(self, scope: RequestScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        head = Head(scope)
        authority: Authority | None = getattr(scope["app"].state, "authority", None)
        if authority is None:
            await answer(Problem(503, "starting", "the service is starting"), scope)(scope, receive, send)
            return
        if scope["method"] == "OPTIONS":
            allowed = head.is_preflight and head.origin in self._cors_origins | authority.origins()
            await Response(status_code=204, headers=preflight_headers(head.origin, allowed))(scope, receive, send)
            return
        asked = Asked()
        try:
            self._admit(asked, scope, head, authority)
        except Problem as problem:
            await self._refuse(problem, asked, scope, receive, send, head, authority)
            return
        scope[ASKED] = asked
        with calling(asked.caller), authority.acting(asked) if asked.may_act else nullcontext():
            await self._answer(scope, receive, self._sender(send, asked, head, authority), asked, authority)

    async def _answer(
        self, scope: RequestScope, receive: Receive, send: Send, asked: Asked, authority: Authority
    ) -> None:
        """Let the application answer. An act that ends in a defect is recorded with the status of its answer."""
        try:
            await self.app(scope, receive, send)
        except Exception:
            if asked.act is not None and not asked.is_answered:
                await run_in_writing_thread(authority.record, asked, 500)
            raise

    def _admit(self, asked: Asked, scope: RequestScope, head: Head, authority: Authority) -> None:
        """Find the caller of a request. Raises Problem if the caller may not make it."""
        if self._routes is None:
            self._routes = self._make_routes()
        route, collection = route_of(self._routes, scope)
        access = route.access if route else None
        asked.operation, asked.collection = route.name if route else "", collection or ""
        asked.target = scope["path"]
        if access is not None:
            asked.act = access.act
            asked.may_act = access.act is not None or (not access.filtered and scope["method"] != "GET")
        if self._owner or not authority.has_keys():
            if head.is_forwarded and not self._owner and not self._insecure:
                raise _forwarded()
            asked.caller = OWNER
            return
        caller = None if head.token is None else authority.caller(head.token)
        if access is not None and access.scopes is None:
            asked.caller = caller or ANYONE
            return
        if caller is None:
            raise _unauthorized()
        asked.caller = caller
        self._require_use(caller, head)
        if caller.rate_per_minute is not None:
            asked.charge = partial(self._charge_further, caller, caller.rate_per_minute)
        if route is not None:
            _require_access(caller, access)
        if collection is not None and not authority.covers(caller, collection):
            raise not_found("collection")

    def _require_use(self, caller: Caller, head: Head) -> None:
        """Raise Problem if the key is used by another page than its origins, or too often."""
        if caller.origins and head.origin not in caller.origins:
            raise Problem(403, "origin_not_allowed", "this key works only on the web pages of its origins")
        if caller.rate_per_minute is not None:
            self._charge(caller, caller.rate_per_minute, 1)

    def _charge(self, caller: Caller, per_minute: int, requests: int) -> None:
        """Count requests of a key. Raises Problem 429 if the key has made too many."""
        seconds = self._rates.retry_after_seconds(caller.key_id or "", per_minute, requests)
        if seconds is not None:
            detail = f"this key may make {per_minute} requests a minute"
            raise Problem(429, "rate_limited", detail, headers={"Retry-After": str(seconds)})

    def _charge_further(self, caller: Caller, per_minute: int, requests: int) -> None:
        """Count a request as further ones, at most as all that the key may make in a minute. Raises as `_charge`."""
        if further := min(requests, per_minute - 1):
            self._charge(caller, per_minute, further)

    def _may_read(self, origin: str, caller: Caller, authority: Authority) -> bool:
        """Return whether the pages of an origin may read the answer to this caller."""
        known = caller.origins if caller.key_id is not None else authority.origins()
        return bool(origin) and (origin in known or origin in self._cors_origins)

    async def _refuse(
        self,
        problem: Problem,
        asked: Asked,
        scope: RequestScope,
        receive: Receive,
        send: Send,
        head: Head,
        authority: Authority,
    ) -> None:
        REQUESTS.labels(status="4xx").inc()
        if asked.act is not None and not asked.caller.scopes <= PUBLIC:  # public keys could fill the log
            await run_in_writing_thread(authority.record, asked, problem.status)
        problem.headers["Vary"] = "Accept-Encoding"  # as the application's own answers
        if self._may_read(head.origin, asked.caller, authority):
            problem.headers |= {**readable_by(head.origin), "Vary": "Accept-Encoding, Origin"}
        await answer(problem, scope)(scope, receive, send)

    def _sender(self, send: Send, asked: Asked, head: Head, authority: Authority) -> Send:
        """Return the function that sends the answer. It records the act before the client hears of it."""
        readable = bool(head.origin) and self._may_read(head.origin, asked.caller, authority)

        async def recorded(message: Message) -> None:
            if message["type"] == "http.response.start":
                asked.is_answered = True
                if asked.act is not None:
                    await run_in_writing_thread(authority.record, asked, int(message["status"]))
                if readable:
                    allow_reading(message, head.origin)
            await send(message)

        return recorded


def _require_access(caller: Caller, access: Access | None) -> None:
    """Raise Problem 403 unless the caller has the access. No caller has access that is not declared."""
    if access is None or not caller.has_scope(access):
        raise Problem(403, "scope_missing", "this key does not have a scope for this operation")
    if caller.condition is not None and not access.filtered:
        raise Problem(403, "key_is_filtered", "a key with a filter may search, recommend and send events only")


def _unauthorized() -> Problem:
    detail = "the request needs a valid key, as Authorization: Bearer KEY"
    return Problem(401, "unauthorized", detail, headers={"WWW-Authenticate": "Bearer"})


def _forwarded() -> Problem:
    detail = (
        "a service without API keys does not answer requests that a proxy forwards: make a key with "
        "`softseek keys create`, or start the service with --insecure"
    )
    return Problem(403, "keys_needed", detail)
