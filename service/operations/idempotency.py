"""Middleware: a POST repeated with the same Idempotency-Key within 24 hours gets the first answer again.

The key is stored in the transaction of the request's first write (`service.storage.reservations`), so that a process
that ends at any moment has carried out both or neither.
The body of an import is streamed to a file and compared when it has arrived. Nothing of a repeated import is stored.
An answer of an operation on a collection is kept for the collection that the operation found (`note_collection`): where
its name names another one, by an alias, a swap or a deletion, the request is carried out anew.
Answers with API keys are not kept. Answers to searches are not kept: a search changes nothing but the log, and public
keys may search, so kept answers could fill the database. Nor are answers to addresses without an operation. Each API
key has its own Idempotency-Keys. They are stored as hashes, because clients put their ids into them.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import orjson
import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.access import ASKED
from service.http.body_limit import is_import
from service.http.overload import SEARCH_OPERATIONS
from service.http.problems import Problem, answer, client_left
from service.http.requests import MAX_BODY_BYTES
from service.http.writing_threads import run_in_writing_thread
from service.operations.repository import delete_answers, find_answer, replace_answer
from service.operations.request_digest import RequestDigest
from service.runtime.runtime import Runtime
from service.storage.database import rfc3339
from service.storage.pending_acts import acting
from service.storage.reservations import CURRENT, NotedAnswer, Reservation

HEADER = "idempotency-key"
MAX_KEY = 255
KEPT = timedelta(hours=24)
OF_COLLECTION = ":"
"""Stands between the digest of a request and the id of its collection."""
WITH_SECRETS = "/v1/keys"
"""The beginning of the paths whose answers are never kept."""
WITH_COLLECTION_IN_BODY = "/v1/erasures"
"""The path of requests that may name a collection in their body. A swap names two, and changes what they name."""
NOT_KEPT = frozenset({408, 429})
"""Statuses below 500 of requests that the client repeats: it left, sent too slowly, or asked too often."""
PASSING = frozenset({"snapshot_in_progress", "training_already_running"})
"""Codes of conflicts with work that ends by itself: the client repeats the request then."""
DONE = {"status": "done"}
"""The answer to a repeated request whose write is done, and whose answer was lost with the process."""
log = structlog.get_logger()


@dataclass(frozen=True)
class Named:
    """The collection that a request is about.

    name: empty if the request names none. id: of the collection that has this name, 0 if there is none, None without a
    name.
    """

    name: str = ""
    id: int | None = None

    def is_of_another(self, stored: str) -> bool:
        """Return whether the answer of the same request is of another collection, which had the name.

        The answers of earlier releases do not say of which collection they are.
        """
        _, found, id = stored.partition(OF_COLLECTION)
        return bool(found) and id != str(self.id)


class Idempotency:
    """ASGI middleware around the routes, inside `BodyLimit`."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._in_flight: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        request = Request(scope, receive)
        keys = request.headers.getlist(HEADER)
        if not keys or scope["path"].startswith(WITH_SECRETS):
            await self.app(scope, receive, send)
            return
        try:
            key = _only(keys)
            asked = scope.get(ASKED)
            if asked is not None and (not asked.operation or asked.operation in SEARCH_OPERATIONS):
                await self.app(scope, receive, send)
            else:
                await self._once(key, request, send)
        except Problem as problem:
            await answer(problem, scope)(scope, receive, send)
        except ClientDisconnect:
            await client_left()(scope, receive, send)

    async def _once(self, key: str, request: Request, send: Send) -> None:
        key = stored_key(request, key)
        runtime: Runtime = request.app.state.runtime
        digest = RequestDigest(request)
        body = None if is_import(request.scope) else await _limited_body(Request(request.scope, digest.receive))
        named = _named(runtime, request, body or b"")
        if key in self._in_flight:
            detail = "the first request with this Idempotency-Key is still being processed"
            raise Problem(409, "idempotency_in_flight", detail)
        self._in_flight.add(key)
        try:
            known = await run_in_threadpool(_find, runtime, key)
            if known is not None:
                digest.expect(known.request_sha256.partition(OF_COLLECTION)[0])
            if known is None or named.is_of_another(known.request_sha256):
                receive = digest.receive if body is None else partial(_replay, body)
                await self._first(runtime, Reserved(key, digest, named), Request(request.scope, receive), send)
            else:
                await digest.read_rest()
                _is_no_act(request)
                await _answer_of(known)(request.scope, request.receive, send)
        finally:
            self._in_flight.discard(key)

    async def _first(self, runtime: Runtime, reserved: "Reserved", request: Request, send: Send) -> None:
        held: list[Message] = []

        async def hold(message: Message) -> None:
            held.append(message)

        reservation = Reservation(reserved.store, reserved.named.name)
        token = CURRENT.set(reservation)
        try:
            await self.app(request.scope, request.receive, hold)
        finally:
            CURRENT.reset(token)
        start = held[0]
        content = b"".join(message.get("body", b"") for message in held[1:])
        if reserved.digest.is_accepted and _is_kept(start["status"], content):
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in start["headers"]}
            await run_in_writing_thread(_keep, runtime, reservation, NotedAnswer(start["status"], content, headers))
        for message in held:
            await send(message)


@dataclass(frozen=True)
class Reserved:
    """What an answer is stored under, and what the request has in common with a repeated one."""

    key: str
    digest: RequestDigest
    named: Named

    def store(self, connection: Connection, noted: NotedAnswer, collection_id: int | None) -> None:
        """Store an answer. collection_id: of the collection that the operation found, None if it looked for none."""
        id = self.named.id if collection_id is None else collection_id
        values = {
            "request_sha256": self.digest.sha256 if id is None else f"{self.digest.sha256}{OF_COLLECTION}{id}",
            "status": noted.status,
            "headers": dict(noted.headers),
            "body": noted.body,
        }
        replace_answer(connection, self.key, values)


async def _replay(body: bytes) -> Message:
    return {"type": "http.request", "body": body, "more_body": False}


def _only(keys: Sequence[str]) -> str:
    """Return the key of a request. Raises Problem 422 for a wrong length, and for keys that differ."""
    if not 1 <= len(keys[0]) <= MAX_KEY:
        raise Problem(422, "invalid_request", f"an Idempotency-Key must have 1 to {MAX_KEY} characters")
    if set(keys) != {keys[0]}:
        raise Problem(422, "invalid_request", "a request must have one Idempotency-Key, and this one has several")
    return keys[0]


def _is_kept(status: int, content: bytes) -> bool:
    """Return whether an answer is given again to a repeated request."""
    if status == 409:
        return orjson.loads(content)["code"] not in PASSING
    return status < 500 and status not in NOT_KEPT


def _named(runtime: Runtime, request: Request, body: bytes) -> Named:
    """Return the collection that a request names, with the id of the collection that has the name now."""
    name = _collection_of(request, body)
    if not name:
        return Named()
    state = runtime.find_collection(name)
    return Named(name, 0 if state is None else state.id)


def _collection_of(request: Request, body: bytes) -> str:
    """Return the name of the collection in the address or, of an erasure, in the body; empty if there is none."""
    asked = request.scope.get(ASKED)
    if asked is not None and asked.collection:
        return str(asked.collection)
    if request.url.path != WITH_COLLECTION_IN_BODY:
        return ""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ""
    name = found.get("collection") if isinstance(found, dict) else None
    return name if isinstance(name, str) else ""


async def _limited_body(request: Request) -> bytes:
    parts: list[bytes] = []
    read = 0
    async for part in request.stream():
        parts.append(part)
        read += len(part)
        if read > MAX_BODY_BYTES:
            raise Problem(413, "payload_too_large", f"a request body must not exceed {MAX_BODY_BYTES} bytes")
    return b"".join(parts)


def _find(runtime: Runtime, key: str) -> Any:
    with runtime.database.read() as connection:
        return find_answer(connection, key, _oldest())


def _oldest() -> str:
    """Return the time since which answers are kept."""
    return rfc3339(datetime.now(UTC) - KEPT)


def forget_old_answers(runtime: Runtime) -> None:
    """Delete the answers that are kept no longer."""
    with runtime.database.write() as connection:
        delete_answers(connection, _oldest())


def _keep(runtime: Runtime, reservation: Reservation, given: NotedAnswer) -> None:
    """Store the answer that was given. Where the write is done, an answer that cannot be stored is no error."""
    try:
        with acting(None), runtime.database.write() as connection:
            reservation.store(connection, given)
    except (OSError, SQLAlchemyError) as error:
        if reservation.stored is None:
            raise
        log.warning("answer_not_stored", reason=str(error))


def _is_no_act(request: Request) -> None:
    """Keep a repeated request out of the audit log, which has the act of the first."""
    asked = request.scope.get(ASKED)
    if asked is not None:
        asked.act = None


def _answer_of(known: Any) -> Response:
    """Return the stored answer of a key; a write whose answer is not known was carried out."""
    if not known.status:
        return Response(orjson.dumps(DONE), 200, media_type="application/json")
    return Response(known.body, known.status, known.headers)


def stored_key(request: Request, key: str) -> str:
    """Return what the answer of a request with this Idempotency-Key is stored under: each API key has its own."""
    asked = request.scope.get(ASKED)
    return digest_of(key if asked is None or asked.caller.key_id is None else f"{asked.caller.key_id}:{key}")


def digest_of(key: str) -> str:
    """Return the SHA-256 of a key, as migration 0016 stores those of earlier releases."""
    return hashlib.sha256(key.encode()).hexdigest()
