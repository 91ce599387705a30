"""Copies all rows from one database to another, whatever their engines are.

Values are copied as they are stored: JSON as its text, so that the checksums of rows stay right. Both sides have the
newest schema. A row that differs from what its column holds, as a damaged row may, is refused by PostgreSQL.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from hashlib import blake2b
from typing import Any

from sqlalchemy import JSON, Boolean, Column, Connection, Integer, Table, Text, text

from service.storage.base import METADATA
from service.storage.dialects import greatest_number, is_sqlite
from service.storage.postgres_text import escaped, unescaped
from service.storage.tables_of_administration import IDENTITY

ROWS_AT_ONCE = 500
Value = Callable[[Any], Any]


def copy_rows(
    source: Connection,
    target: Connection,
    advance: Callable[[int], None] = lambda _count: None,
    only: Collection[str] | None = None,
    condition: Callable[[str], str | None] = lambda _table: None,
) -> None:
    """Copy the rows of all tables into the tables of a new database. The caller commits.

    source: on a single snapshot. advance: called with the number of further rows. An error that it raises ends the
    copy. only: names of tables; None: all but the identity. condition: name of a table -> what its copied rows fulfil,
    in SQL of the source; None: all rows.
    """
    for table in METADATA.sorted_tables:
        if table is IDENTITY or (only is not None and table.name not in only):
            continue  # both go on separately, so that no index of one is taken for an index of the other
        statement = insertion(target, table)
        for rows in _parts(source, target, table, condition(table.name)):
            target.exec_driver_sql(statement, rows)
            advance(len(rows))
    _go_on_counting(source, target)


def is_copy(source: Connection, target: Connection) -> bool:
    """Return whether the target has the rows that `copy_rows` copies, all columns alike, and no others."""
    for table in METADATA.sorted_tables:
        if table is not IDENTITY and _digest(source, target, table) != _digest(target, target, table):
            return False
    return True


def _digest(source: Connection, target: Connection, table: Table) -> int:
    """Return a digest of the rows of a table of the source, as the target takes them, in any order."""
    rows = (row for part in _parts(source, target, table, None) for row in part)
    return sum(int.from_bytes(blake2b(repr(row).encode("utf-8", "surrogatepass")).digest()) for row in rows)


def _parts(
    source: Connection, target: Connection, table: Table, condition: str | None
) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of a table, ROWS_AT_ONCE at a time, as the target takes them."""
    options = {"yield_per": ROWS_AT_ONCE}
    wanted = selection(source, table) + (f" WHERE {condition}" if condition else "")
    found = source.exec_driver_sql(wanted, execution_options=options)
    for rows in found.partitions():
        yield converted(source, target, table, rows)


def selection(source: Connection, table: Table) -> str:
    """Return the statement that reads the rows of a table as they are stored."""
    return f'SELECT {", ".join(_read(source, column) for column in table.columns)} FROM "{table.name}"'


def converted(source: Connection, target: Connection, table: Table, rows: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return rows that `selection` has read as the target takes them."""
    converters = [_converter(source, target, column) for column in table.columns]
    return [tuple(convert(value) for convert, value in zip(converters, row, strict=True)) for row in rows]


def _read(source: Connection, column: Column[Any]) -> str:
    is_json = isinstance(column.type, JSON) and not is_sqlite(source)
    return f'CAST("{column.name}" AS TEXT)' if is_json else f'"{column.name}"'


def _converter(source: Connection, target: Connection, column: Column[Any]) -> Value:
    """Return the function from a value of the source to a value of the target."""
    if is_sqlite(source) == is_sqlite(target):
        return lambda value: value
    change: Value | None = None
    if isinstance(column.type, Text):
        change = unescaped if is_sqlite(target) else escaped
    elif isinstance(column.type, Boolean):
        change = int if is_sqlite(target) else bool
    if change is None:
        return lambda value: value
    return lambda value: None if value is None else change(value)


def insertion(target: Connection, table: Table) -> str:
    """Return the statement that inserts a row of a table."""
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    mark = "?" if is_sqlite(target) else "%s"
    return f'INSERT INTO "{table.name}" ({names}) VALUES ({", ".join([mark] * len(table.columns))})'


def _go_on_counting(source: Connection, target: Connection) -> None:
    """Let the target give no number that the source has given: numbers are never reused."""
    for table in METADATA.sorted_tables:
        key = list(table.primary_key)
        if len(key) != 1 or not isinstance(key[0].type, Integer) or key[0].foreign_keys:
            continue
        last = greatest_number(source, table)
        if not last:
            continue
        if is_sqlite(target):
            if table.dialect_options["sqlite"]["autoincrement"]:
                target.execute(text("DELETE FROM sqlite_sequence WHERE name = :name"), {"name": table.name})
                target.execute(
                    text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :last)"),
                    {"name": table.name, "last": last},
                )
        else:
            target.execute(
                text("SELECT setval(:sequence, :last)"), {"sequence": f"{table.name}_{key[0].name}_seq", "last": last}
            )
