"""A read-only connection for each thread, so that a search reads its few rows without taking a connection of a pool.

Knows neither tables nor SQLAlchemy.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

Row = tuple[Any, ...]


class ReadingConnection(Protocol):
    """A connection of a driver that begins no transaction by itself."""

    def execute(self, statement: Any, parameters: Any, /) -> Any:
        """Return a cursor on the rows."""

    def close(self) -> None:
        """Close the connection."""


class _Owned:
    """A connection that is closed as its thread ends, which drops the last reference to this object.

    The library closes a connection only when the garbage collector finds it: a connection refers to itself.
    """

    def __init__(self, connection: ReadingConnection) -> None:
        self.connection = connection

    def __del__(self) -> None:
        self.connection.close()


class ThreadConnections:
    """Opens a connection at the first statement of a thread, and closes it when the thread ends, or in `close`.

    Between two statements a connection has no transaction. So it keeps neither VACUUM nor the emptying of the
    write-ahead log from their work.
    """

    def __init__(self, connect: Callable[[], ReadingConnection]) -> None:
        self._connect = connect
        self._own = threading.local()

    def fetch(self, statement: str, parameters: Sequence[Any]) -> list[Row]:
        """Return the rows of a SELECT. It reads its own snapshot."""
        own = self._own
        owned: _Owned | None = getattr(own, "owned", None)
        if owned is None:
            owned = own.owned = _Owned(self._connect())
        cursor = owned.connection.execute(statement, parameters)
        try:
            rows: list[Row] = cursor.fetchall()
            return rows
        finally:
            cursor.close()  # ends the snapshot of a statement that failed after its first rows

    def drop(self) -> None:
        """Close the connection of this thread. Its next statement opens another."""
        self._own.owned = None

    def close(self) -> None:
        """Close the connections of all threads, each as soon as it runs no statement.

        A later statement opens a connection.
        """
        self._own = threading.local()  # the connections belong to the object before it
