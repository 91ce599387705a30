"""Stored rows that cannot be read: a text that is no JSON or no UTF-8, or a vector without whole numbers.

The engines raise UnreadableRow for them, in place of the errors of the libraries.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, ExceptionContext, Row, Select, event
from sqlalchemy.exc import SQLAlchemyError

from index.errors import SearchError

NO_UTF_8 = "Could not decode to UTF-8"
"""The beginning of a message of `sqlite3`, which goes on with the text."""


class UnreadableRow(SearchError, SQLAlchemyError, ValueError):
    """A stored row is damaged so that it cannot be read. The message has nothing of its content."""

    def __init__(self, table: str | None = None) -> None:
        self.table = table
        where = f" of the table {table}" if table else ""
        super().__init__(f"a stored row{where} is damaged and cannot be read; `softseek doctor` names it")


def stored_json(text: str | bytes) -> Any:
    """Return the value of a stored JSON text. Raises UnreadableRow."""
    try:
        return json.loads(text)
    except (ValueError, TypeError) as error:  # TypeError: the type of the stored value is damaged
        raise UnreadableRow from error


def name_unreadable(engine: Engine) -> None:
    """Let an engine of SQLite raise UnreadableRow for a text that is no UTF-8."""

    @event.listens_for(engine, "handle_error")
    def name(context: ExceptionContext) -> None:
        original = context.original_exception
        if str(original).startswith(NO_UTF_8):
            original.args = (NO_UTF_8,)  # SQLAlchemy makes it the cause, which the log shows, and it quotes the text
            raise UnreadableRow


@contextmanager
def reading(table: str) -> Iterator[None]:
    """Name the table in an UnreadableRow that is raised inside and names none."""
    try:
        yield
    except UnreadableRow as error:
        raise UnreadableRow(error.table or table) from error


def readable_rows(connection: Connection, wanted: Select[Any], *key: Any) -> tuple[list[Row[Any]], list[Row[Any]]]:
    """Return the rows of a statement in its order, and the keys of rows that cannot be read.

    key: the columns that identify a row. Raises UnreadableRow if the key of a row cannot be read.
    """
    try:
        return list(connection.execute(wanted)), []
    except UnreadableRow:
        keys = connection.execute(wanted.with_only_columns(*key)).all()
    rows: list[Row[Any]] = []
    unreadable: list[Row[Any]] = []
    for values in keys:
        same = (column == value for column, value in zip(key, values, strict=True))
        try:
            rows += connection.execute(wanted.where(*same))
        except UnreadableRow:
            unreadable.append(values)
    return rows, unreadable
