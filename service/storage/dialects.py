"""What the engines of the database say in different SQL."""

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, and_, bindparam, column, func, select, text

from service.storage.tables import QUERIES


def is_sqlite(connection: Connection) -> bool:
    """Return whether a connection is of SQLite."""
    return connection.dialect.name == "sqlite"


def is_one_of(connection: Connection, values: Any, wanted: Sequence[int] | Sequence[str]) -> ColumnElement[bool]:
    """Return the condition that a column has one of these numbers, or texts, as one parameter for any number of them.

    A list of parameters makes a statement for each length, and SQLite keeps the last statements with their values.
    """
    if is_sqlite(connection):
        listed = func.json_each(json.dumps(list(wanted))).table_valued("value")
        found: ColumnElement[bool] = values.in_(select(listed.c.value))
    else:
        found = values == func.any(bindparam(None, list(wanted)))
    return found


def unindexed(table: Any, collection_id: int) -> ColumnElement[bool]:
    """Return the condition that a row belongs to a collection, such that SQLite does not use an index for it.

    With the index, SQLite reads all rows of the collection: to sort them by their key, or because it expects fewer of
    them than there are keys in a list. Without it, it reads the rows by their keys.
    """
    condition: ColumnElement[bool] = table.c.collection_id + 0 == collection_id
    return condition


def numbered(table: Any, key: Any, collection_id: int, after: int, until: int, by_number: bool) -> ColumnElement[bool]:
    """Return the condition that a row belongs to a collection and that its key is after a number, until another.

    by_number: SQLite reads these numbers, of all collections, and not an index of the collection.
    """
    mine = unindexed(table, collection_id) if by_number else table.c.collection_id == collection_id
    return and_(mine, key > after, key <= until)


def newest_first(connection: Connection) -> list[ColumnElement[Any]]:
    """Return the order of impressions, the newest first: SQLite numbers rows as they come."""
    if is_sqlite(connection):
        return [column("rowid").desc()]
    return [QUERIES.c.created_at.desc(), QUERIES.c.query_id.desc()]


def contains(connection: Connection, body: Any, part: bytes) -> ColumnElement[bool]:
    """Return the condition that a column of bytes contains a part, which is ASCII."""
    found = func.instr(body, part) if is_sqlite(connection) else func.strpos(func.encode(body, "escape"), part.decode())
    return found > 0


def contains_text(connection: Connection, column: Any, part: str) -> ColumnElement[bool]:
    """Return the condition that a column of texts contains a part, in the same case."""
    found = func.instr(column, part) if is_sqlite(connection) else func.strpos(column, part)
    return found > 0


def greatest_number(connection: Connection, table: Table) -> int:
    """Return the greatest number that a table has given to a row, 0 for none.

    Of a table whose numbers may be reused, it is the greatest number of a row.
    """
    (key,) = table.primary_key
    if not is_sqlite(connection):
        last = connection.execute(text(f'SELECT last_value, is_called FROM "{table.name}_{key.name}_seq"')).one()
        return int(last.last_value) if last.is_called else 0
    if not table.dialect_options["sqlite"]["autoincrement"]:
        return int(connection.execute(select(func.max(key))).scalar() or 0)
    wanted = text("SELECT seq FROM sqlite_sequence WHERE name = :name")
    return int(connection.execute(wanted, {"name": table.name}).scalar() or 0)


def integrity(connection: Connection) -> str:
    """Return `ok`, or what SQLite's integrity check found. PostgreSQL checks its pages by itself, at each read."""
    return str(connection.exec_driver_sql("PRAGMA integrity_check").scalar_one()) if is_sqlite(connection) else "ok"


def orphan_count(connection: Connection) -> int:
    """Return the number of rows that violate a foreign key, as a damaged file may. PostgreSQL is not checked."""
    return len(connection.exec_driver_sql("PRAGMA foreign_key_check").all()) if is_sqlite(connection) else 0
