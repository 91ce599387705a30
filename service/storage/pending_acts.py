"""Stores the record of an act of administration in the transaction of the act.

A process that ends at any moment has carried out and recorded the act, or neither (docs/decisions/0030). An act that
changes no row is recorded before it is carried out (`Database.store_act`).
`service.audit` makes the pending record of a request; `Database.write` stores it with the first write of the request.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from sqlalchemy import Connection


class PendingAct(Protocol):
    """The record of a request that may be an act of administration."""

    def insert(self, connection: Connection) -> None:
        """Store the record, unless it is stored, or the request is no act."""

    def committed(self) -> None:
        """The transaction of the last `insert` is durable."""


CURRENT: ContextVar[PendingAct | None] = ContextVar("pending_act", default=None)
"""The act of the request that this thread works for. Background threads have none."""


@contextmanager
def storing_act() -> Iterator[Callable[[Connection], None]]:
    """Give the function that stores the pending act in a transaction, after the work of it.

    The record counts as stored once the context ends without an error, which is after the commit.
    """
    pending = CURRENT.get()

    def store(connection: Connection) -> None:
        if pending is not None:
            pending.insert(connection)

    yield store
    if pending is not None:
        pending.committed()


@contextmanager
def acting(pending: PendingAct | None) -> Iterator[None]:
    """Store this act with the first write of the context; None: what is written is not the work of an act."""
    token = CURRENT.set(pending)
    try:
        yield
    finally:
        CURRENT.reset(token)
