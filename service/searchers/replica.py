"""The copy of the database in the data directory of a searcher: a SQLite file with the rows that answers need.

The rows, and the position in the change log up to which they are copied, change in one transaction. So the copy is a
state that the database had, also after a kill.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import Connection, Table, delete, select, text, tuple_

from index.records import KeyKind
from service.runtime.first_start import NOTE
from service.searchers.document_part import DocumentPart
from service.storage.base import METADATA
from service.storage.change_log import FOLLOWED, Position, Touched, key_columns
from service.storage.moving import converted, copy_rows, insertion, selection
from service.storage.sqlite_database import SqliteDatabase
from service.storage.tables import COLLECTIONS, DOCUMENTS, KEYS, QUERIES

ROWS_AT_ONCE = 500


@dataclass
class Effects:
    """What copied rows change in the memory of a searcher. Numbers are of collections."""

    tables: frozenset[str] = frozenset()
    """The tables with touched rows."""
    documents: dict[int, set[int]] = field(default_factory=dict)
    """Collection -> rows of documents that came, left, or have other vectors."""
    confirmations: dict[int, set[int]] = field(default_factory=dict)
    """Collection -> ids of the keys of feedback that came, changed or left."""
    searched: dict[int, set[str]] = field(default_factory=dict)
    """Collection -> query keys of impressions that left."""


class Replica:
    """The copy. One thread writes it. part: the documents that it has; None: all."""

    def __init__(self, path: Path, part: DocumentPart | None = None) -> None:
        self._part = part
        self.database = SqliteDatabase(path, is_whole=part is None)
        self.database.migrate()
        with self.database.write() as connection:
            connection.execute(
                text(f"CREATE TABLE IF NOT EXISTS {NOTE} (identity TEXT, epoch INTEGER, number INTEGER, at TEXT)")
            )

    @property
    def position(self) -> Position | None:
        """The position in the log up to which rows are copied; None before the first copy."""
        with self.database.read() as connection:
            found = connection.execute(text(f"SELECT identity, epoch, number, at FROM {NOTE}")).one_or_none()
        return Position(*found) if found else None

    def note(self, position: Position) -> None:
        """Note a position between which and the last one no row was touched."""
        with self.database.write() as connection:
            _note(connection, position)

    def copy_all(self, source: Connection, position: Position) -> None:
        """Copy all rows of a snapshot to the empty copy, and note its position; durably on return."""
        with self.database.write() as connection:
            copy_rows(source, connection, only=FOLLOWED, condition=lambda table: _of_part(self._part, table))
            _note(connection, position)

    def copy(self, source: Connection, touched: Touched, position: Position) -> Effects:
        """Copy the touched rows of a snapshot, and note its position; durably on return."""
        keys = {name: touched[name] for name in FOLLOWED if touched.get(name)}
        with self.database.write() as connection:
            connection.execute(text("PRAGMA defer_foreign_keys=ON"))
            effects = Effects(frozenset(touched))
            _add_effects(connection, keys, effects)
            collections = keys.get(COLLECTIONS.name, set())
            _free_names(connection, collections)
            for table in reversed(METADATA.sorted_tables):
                if table.name in keys and table is not COLLECTIONS:
                    _delete_gone(source, connection, table, keys[table.name])
            for table in METADATA.sorted_tables:
                if table.name in keys:
                    _copy_rows(source, connection, table, keys[table.name], _of_part(self._part, table.name))
            # last, because it deletes the documents that the copy has in it, and these may have moved to another
            _delete_gone(source, connection, COLLECTIONS, collections)
            _add_effects(connection, {name: keys[name] for name in keys if name != "queries"}, effects)
            _note(connection, position)
        return effects

    def differing(self, source: Connection) -> Touched:
        """Return the rows in which the database and the copy differ, by their checksums."""
        with self.database.read() as connection:
            return differing(source, connection, self._part)


def differing(source: Connection, replica: Connection, part: DocumentPart | None = None) -> Touched:
    """Return the rows in which a database and its copy differ, by their checksums.

    A row without a checksum is known to be damaged; it is copied again.
    """
    touched: Touched = {}
    for name in FOLLOWED:
        wanted = f'SELECT {", ".join(key_columns(METADATA.tables[name]))}, checksum FROM "{name}"'
        condition = _of_part(part, name)
        theirs = set(_rows(source, f"{wanted} WHERE {condition}" if condition else wanted))
        ours = set(_rows(replica, wanted))
        differ = {row[:-1] for row in theirs ^ ours} | {row[:-1] for row in theirs if row[-1] is None}
        if differ:
            touched[name] = differ
    return touched


def _of_part(part: DocumentPart | None, table: str) -> str | None:
    return None if part is None else part.condition(table)


def _rows(connection: Connection, statement: str) -> Iterator[tuple[Any, ...]]:
    for row in connection.exec_driver_sql(statement, execution_options={"yield_per": 10 * ROWS_AT_ONCE}):
        yield tuple(row)


def _note(connection: Connection, position: Position) -> None:
    connection.execute(text(f"DELETE FROM {NOTE}"))
    connection.exec_driver_sql(
        f"INSERT INTO {NOTE} (identity, epoch, number, at) VALUES (?, ?, ?, ?)", astuple(position)
    )


def _parts(keys: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the keys in their order, some at a time: rows are inserted in the order of their numbers."""
    ordered = sorted(keys)
    for start in range(0, len(ordered), ROWS_AT_ONCE):
        yield ordered[start : start + ROWS_AT_ONCE]


def _in(connection: Connection, table: Table, keys: Sequence[tuple[Any, ...]]) -> tuple[str, tuple[Any, ...]]:
    """Return the condition that a row of the database has one of these keys, with its parameter."""
    columns = key_columns(table)
    if len(columns) == 1:
        return f"{columns[0]} = ANY(%s)", ([key for (key,) in keys],)
    listed = "SELECT jsonb_array_elements(CAST(%s AS jsonb))"
    return f"jsonb_build_array({', '.join(columns)}) IN ({listed})", (orjson.dumps(keys).decode(),)


def _existing(source: Connection, table: Table, keys: Sequence[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    condition, parameters = _in(source, table, keys)
    statement = f'SELECT {", ".join(key_columns(table))} FROM "{table.name}" WHERE {condition}'
    return {tuple(row) for row in source.exec_driver_sql(statement, parameters)}


def _delete_gone(source: Connection, replica: Connection, table: Table, keys: set[tuple[Any, ...]]) -> None:
    """Delete the rows that the database no longer has: a new row may have the name of one of them."""
    for part in _parts(keys):
        gone = set(part) - _existing(source, table, part)
        if gone:
            replica.execute(delete(table).where(_has_key(table, sorted(gone))))


def _free_names(replica: Connection, collections: set[tuple[Any, ...]]) -> None:
    """Rename collections: names are unique, and other collections may have theirs now."""
    for (number,) in sorted(collections):
        replica.exec_driver_sql("UPDATE collections SET name = ? WHERE id = ?", (f"/copied {number}", number))


def _has_key(table: Table, keys: Sequence[tuple[Any, ...]]) -> Any:
    columns = list(table.primary_key)
    return columns[0].in_([key for (key,) in keys]) if len(columns) == 1 else tuple_(*columns).in_(keys)


def _copy_rows(
    source: Connection, replica: Connection, table: Table, keys: set[tuple[Any, ...]], of_part: str | None
) -> None:
    """Insert the rows that the database has, or give them its values. Rows that refer to them stay.

    of_part: a condition on the rows that the copy has; None for all.
    """
    own = [column.name for column in table.primary_key]
    changes = ", ".join(f'"{column.name}" = excluded."{column.name}"' for column in table.columns)
    named = ", ".join(f'"{name}"' for name in own)
    statement = f"{insertion(replica, table)} ON CONFLICT ({named}) DO UPDATE SET {changes}"
    for part in _parts(keys):
        condition, parameters = _in(source, table, part)
        condition += f" AND {of_part}" if of_part else ""
        found = source.exec_driver_sql(f"{selection(source, table)} WHERE {condition} ORDER BY {named}", parameters)
        if rows := converted(source, replica, table, found):
            replica.exec_driver_sql(statement, rows)


def _add_effects(replica: Connection, keys: Mapping[str, set[tuple[Any, ...]]], effects: Effects) -> None:
    """Add what touched rows of the copy affect. It is called before and after they change.

    A new impression affects nothing until an event refers to it.
    """
    for part in _parts(keys.get("documents", ())):
        wanted = select(DOCUMENTS.c.collection_id, DOCUMENTS.c.row).where(_has_key(DOCUMENTS, part))
        _add(replica.execute(wanted), effects.documents)
    for part in _parts(keys.get("values", ())):
        wanted = select(DOCUMENTS.c.collection_id, DOCUMENTS.c.row).where(DOCUMENTS.c.row.in_([row for (row,) in part]))
        _add(replica.execute(wanted), effects.documents)
    for part in _parts(keys.get("keys", ())):
        mine = KEYS.c.id.in_([number for (number,) in part])
        own = select(KEYS.c.collection_id, KEYS.c.document_row).where(mine, KEYS.c.kind != KeyKind.QUERY)
        _add(replica.execute(own), effects.documents)
        _add(
            replica.execute(select(KEYS.c.collection_id, KEYS.c.id).where(mine, KEYS.c.kind == KeyKind.QUERY)),
            effects.confirmations,
        )
    for part in _parts(keys.get("queries", ())):
        mine = QUERIES.c.query_id.in_([id for (id,) in part])
        _add(replica.execute(select(QUERIES.c.collection_id, QUERIES.c.query_key).where(mine)), effects.searched)


def _add(found: Iterable[Any], sets: dict[int, set[Any]]) -> None:
    for number, value in found:
        sets.setdefault(number, set()).add(value)
