"""SQL of the state hash: reads the rows of every table without the numbers that an engine gives to rows.

The tables are read as the database has them, not as this version knows them, so that a copy of an earlier schema can
be hashed. A number of a row is replaced by what names the row: the name of a collection, the id of a document.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, Integer, MetaData, Table, func, select, text

from service.storage.checksums import TABLES
from service.storage.dialects import is_sqlite
from service.storage.postgres_text import unescaped
from service.storage.unreadable_rows import reading

NOT_CONTENT = {
    "alembic_version", "identity", "changes", "last_write", "tasks", "idempotent_answers", "sqlite_sequence",
    "api_keys", "audit", "erasures",
}  # fmt: skip
"""Tables about requests, the engine and the administration of an installation. The state hash does not read them."""
FOREIGN = "_litestream_"
"""The beginning of the names of the tables of a replicating process."""
NOT_HASHED = {
    **dict.fromkeys(TABLES, ("checksum",)),
    "collections": ("watermark", "documents_watermark", "checksum"),
}
"""Table -> columns that count changes, or are derived from the row and from numbers of rows."""
NAMES: Mapping[str, tuple[str, ...]] = {
    "collections": ("name",),
    "documents": ("id",),
    "events": ("timestamp", "action_name", "source", "document_id", "query_id", "client_id", "created_at"),
    "judgments": ("source", "document_id", "rater"),
}
"""Table -> the columns that name a row of it, where another table refers to it by number."""
ROWS_AT_ONCE = 500


@dataclass(frozen=True)
class StoredState:
    """The tables of a database with content, as the database has them."""

    tables: list[Table]

    @classmethod
    def of(cls, connection: Connection) -> "StoredState":
        """Read the tables of a database."""
        metadata = MetaData()
        metadata.reflect(connection)
        found = [table for table in metadata.sorted_tables if not table.name.startswith(FOREIGN)]
        return cls([table for table in found if table.name not in NOT_CONTENT])

    def rows(self, connection: Connection, table: Table) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table, in any order: column -> value."""
        columns: list[Any] = []
        joined: Any = table
        skipped = NOT_HASHED.get(table.name, ())
        for column in table.columns:
            if column.foreign_keys:
                target = next(iter(column.foreign_keys)).column
                named = target.table.alias(f"of_{column.name}")
                joined = joined.outerjoin(named, column == named.c[target.name])
                columns += [named.c[name].label(f"{column.name}.{name}") for name in NAMES[target.table.name]]
            elif column.name not in skipped and not _is_number_of_row(table, column):
                columns.append(column)
        wanted = select(*columns).select_from(joined).execution_options(yield_per=ROWS_AT_ONCE)
        found = connection.execute(wanted)
        names = [str(name) for name in found.keys()]  # noqa: SIM118  # names with quotes are a subclass of str
        convert = _as_it_is if is_sqlite(connection) else _unescaped
        with reading(str(table.name)):
            yield from (dict(zip(names, map(convert, row), strict=True)) for row in found)


def _as_it_is(value: Any) -> Any:
    return value


def _unescaped(value: Any) -> Any:
    return unescaped(value) if isinstance(value, str) else value


def _is_number_of_row(table: Table, column: Column[Any]) -> bool:
    """Return whether the engine numbers the rows of a table in this column."""
    return isinstance(column.type, Integer) and [one.name for one in table.primary_key] == [column.name]


def revision_of(connection: Connection) -> str:
    """Return the revision of the schema of a database."""
    return str(connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one())


def table_count(connection: Connection, name: str) -> int:
    """Return the number of rows of a table."""
    table = Table(name, MetaData(), autoload_with=connection)
    return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def trained_models(connection: Connection) -> list[tuple[int, int]]:
    """Return collection number and version of every model with files."""
    wanted = text("SELECT collection_id, version FROM models WHERE version > 0 ORDER BY collection_id, version")
    return [(row[0], row[1]) for row in connection.execute(wanted)]
