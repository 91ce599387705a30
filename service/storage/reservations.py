"""Stores the Idempotency-Key of a request in the transaction of the request's own write.

A process that ends after the commit and before the answer is stored leaves the key as done, so that a repeated request
is not carried out again (docs/decisions/0032). `service.operations.idempotency` reserves a key; `Database.write` stores
it with the first write of the request; an action may note the answer inside its transaction.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import orjson
from sqlalchemy import Connection


@dataclass(frozen=True)
class NotedAnswer:
    """An answer that is known before the request ends. Status 0: the write is done, and its answer is not known."""

    status: int = 0
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Reservation:
    """The key of a request that is being carried out.

    write: writes the key with an answer, and the id of the collection that the answer is of, in place of what is stored
    for the key. collection: the name of the collection that the request is about, empty if it names none.
    """

    write: Callable[[Connection, NotedAnswer, int | None], None]
    collection: str = ""
    collection_id: int | None = None
    """The id of the collection that the operation works on, 0 if there is none of this name; None until it is noted."""
    noted: NotedAnswer = NotedAnswer()
    stored: NotedAnswer | None = None
    """The answer that is committed; None before the first commit of the request."""

    def store(self, connection: Connection, answer: NotedAnswer) -> None:
        """Store the key with an answer in a transaction."""
        self.write(connection, answer, self.collection_id)


CURRENT: ContextVar[Reservation | None] = ContextVar("reservation", default=None)
"""The reservation of the request that this thread works for. Background threads have none."""


@contextmanager
def storing_reservation() -> Iterator[Callable[[Connection], None]]:
    """Give the function that stores the reservation of this request in a transaction, after the work of it.

    The reservation counts as stored once the context ends without an error, which is after the commit.
    """
    reservation = CURRENT.get()
    written: NotedAnswer | None = None

    def store(connection: Connection) -> None:
        nonlocal written
        if reservation is not None and reservation.stored is not reservation.noted:
            written = reservation.noted
            reservation.store(connection, written)

    yield store
    if reservation is not None and written is not None:
        reservation.stored = written


def note_answer(status: int, body: Any, location: str | None = None) -> None:
    """Note the answer of this request inside its transaction; without an Idempotency-Key it does nothing."""
    reservation = CURRENT.get()
    if reservation is not None:
        headers = {"content-type": "application/json", **({"location": location} if location else {})}
        reservation.noted = NotedAnswer(status, orjson.dumps(body), headers)


def note_collection(name: str, collection_id: int | None) -> None:
    """Note which collection a name names now; None if it names none. Without an Idempotency-Key it does nothing.

    A name may be of another collection since the request began. The operation works on the collection that it finds
    first by the name in the request, so the answer is of this one.
    """
    reservation = CURRENT.get()
    if reservation is not None and reservation.collection_id is None and name and name == reservation.collection:
        reservation.collection_id = collection_id or 0


@contextmanager
def not_reserved() -> Iterator[None]:
    """Write without storing the reservation: what is written is not the work of the request."""
    token = CURRENT.set(None)
    try:
        yield
    finally:
        CURRENT.reset(token)
