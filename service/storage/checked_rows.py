"""Reads rows with checksums as they are stored, and changes their columns without accepting earlier damage."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import JSON, ColumnElement, Connection, Text, bindparam, cast, select, type_coerce, update
from sqlalchemy.types import NullType

from service.storage.base import METADATA
from service.storage.checksums import TABLES, row_checksum, texts_as_stored
from service.storage.dialects import is_sqlite


def update_row(connection: Connection, table: str, where: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    """Set columns of the row with these values in the columns `where`; return whether there is such a row.

    A row that differed from its checksum loses it, and stays known as damaged. The caller commits. Raises ValueError
    if there are several such rows.
    """
    found = stored_rows(connection, table, where)
    if len(found) > 1:
        raise ValueError(f"several rows of {table} have the same key")
    stored = METADATA.tables[table]
    mine = update(stored).where(*(stored.c[name] == value for name, value in where.items()))
    for before in found:
        connection.execute(mine.values(dict(values)))
        (after,) = stored_rows(connection, table, where)
        checksum = row_checksum(table, after) if is_sound(table, before) else None
        connection.execute(mine.values(checksum=checksum))
    return bool(found)


def set_column(
    connection: Connection, table: str, rows: Sequence[Mapping[str, Any]], name: str, values: Sequence[str]
) -> None:
    """Set a column of texts in rows that `stored_rows` has read, each to its value, by one statement.

    The rows agree with their checksums. One that has changed since stays as it is. The caller commits.
    """
    stored = METADATA.tables[table]
    (key,) = stored.primary_key
    mine = update(stored).where(key == bindparam("of_key"), stored.c.checksum == bindparam("of_checksum"))
    changes = [
        {
            "of_key": row[key.name],
            "of_checksum": row["checksum"],
            name: value,
            "checksum": row_checksum(table, {**row, name: value}),
        }
        for row, value in zip(rows, values, strict=True)
    ]
    if changes:
        connection.execute(mine.values({name: bindparam(name), "checksum": bindparam("checksum")}), changes)


def stored_rows(connection: Connection, table: str, where: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return the columns of rows as they are stored, with `checksum`, in the order of their keys.

    where: column -> value that the rows have; None: all rows. Texts that are no UTF-8 have surrogates.
    """
    columns = METADATA.tables[table].c
    keys = [*TABLES[table].columns, "checksum"]
    wanted = select(*(as_stored(connection, columns[key]) for key in keys))
    wanted = wanted.where(*(columns[key] == value for key, value in (where or {}).items()))
    with texts_as_stored(connection):
        rows = connection.execute(wanted.order_by(*METADATA.tables[table].primary_key)).all()
    return [dict(zip(keys, row, strict=True)) for row in rows]


def as_stored(connection: Connection, column: Any) -> ColumnElement[Any]:
    """Return a column whose values are those of a checksum: JSON as its text, in SQLite whatever the file has."""
    if is_sqlite(connection):
        return type_coerce(column, NullType())
    return cast(column, Text) if isinstance(column.type, JSON) else column


def is_sound(table: str, values: Mapping[str, Any]) -> bool:
    """Return whether a stored row agrees with its checksum; a row without a checksum does not."""
    return bool(row_checksum(table, values) == values["checksum"])
