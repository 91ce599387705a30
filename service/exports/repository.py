"""SQL of exports and imports: reads all rows in their order, and inserts rows. The caller commits."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Select, delete, exists, insert, select
from sqlalchemy.exc import IntegrityError

from service.documents import imports
from service.exports.record_repository import RecordType
from service.runtime.collection_repository import TOMBSTONE
from service.runtime.model_repository import insert_model_files
from service.runtime.task_repository import UNFINISHED
from service.storage.tables import (
    COLLECTION_ALIASES,
    COLLECTIONS,
    DOCUMENTS,
    EVENTS,
    JUDGMENTS,
    MODELS,
    PENDING_DOCUMENTS,
    RULES,
    TRAINING_RUNS,
)
from service.storage.tables_of_administration import TASKS
from service.storage.unreadable_rows import reading

ROWS_AT_ONCE = 500


class RowRefused(Exception):
    """A row has the key of another row, or refers to no row."""


def stored_rows(
    connection: Connection, kind: RecordType, names: Collection[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a type in the order of their keys, without the collections that are being deleted.

    names: only the rows of these collections; None: of all.
    """
    wanted = _rows_of(kind)
    if names is not None:
        collection = COLLECTION_ALIASES.c.collection if kind.name == "alias" else COLLECTIONS.c.name
        wanted = wanted.where(collection.in_(sorted(names)))
    found = connection.execute(wanted.execution_options(yield_per=ROWS_AT_ONCE))
    with reading(str(kind.table.name)):
        yield from (dict(row) for row in found.mappings())


def _rows_of(kind: RecordType) -> Select[Any]:
    table, name = kind.table, COLLECTIONS.c.name.label("of_collection")
    columns = [column.label(label) for label, column in kind.columns.items()]
    if kind.has_collection:
        extra = [table.c.collection_id] if kind.name == "model" else []
        wanted = select(name, *columns, *extra).join(COLLECTIONS, COLLECTIONS.c.id == table.c.collection_id)
    elif kind.name == "value":
        wanted = select(*columns).join(DOCUMENTS, DOCUMENTS.c.row == table.c.document_row).join(COLLECTIONS)
    else:
        wanted = select(*columns)
    if kind.name != "alias":
        wanted = wanted.where(~COLLECTIONS.c.name.startswith(TOMBSTONE))
    return wanted.order_by(*table.primary_key)


def insert_rows(connection: Connection, kind: RecordType, rows: Sequence[dict[str, Any]]) -> list[int]:
    """Insert rows; return their numbers, in the same order, for a type that other records refer to.

    Raises RowRefused.
    """
    statement: Any = insert(kind.table)
    if kind.number is not None:
        statement = statement.returning(kind.table.c[kind.number], sort_by_parameter_order=True)
    try:
        found = connection.execute(statement, rows)
    except IntegrityError as error:
        raise RowRefused from error
    return list(found.scalars()) if kind.number is not None else []


def insert_files(connection: Connection, collection_id: int, version: int, files: Mapping[str, bytes]) -> None:
    """Insert the files of a model: name -> bytes. Raises RowRefused."""
    try:
        insert_model_files(connection, collection_id, version, files)
    except IntegrityError as error:
        raise RowRefused from error


def insert_collection(connection: Connection, values: dict[str, Any]) -> int:
    """Insert a collection whose first change is its import; return its number. Raises RowRefused."""
    row = {**values, "watermark": 1, "documents_watermark": 1}
    try:
        return int(connection.execute(insert(COLLECTIONS).values(row).returning(COLLECTIONS.c.id)).scalar_one())
    except IntegrityError as error:
        raise RowRefused from error


def delete_aliases(connection: Connection, names: Iterable[str]) -> None:
    """Delete these aliases of collections, where they exist."""
    for name in names:
        connection.execute(delete(COLLECTION_ALIASES).where(COLLECTION_ALIASES.c.name == name))


def is_unused(connection: Connection, collection_id: int, name: str) -> bool:
    """Return whether a collection has no documents, feedback, rules, training runs, trained models and imports.

    An import of documents was accepted, and its documents are in a file until they are read.
    """
    is_import = TASKS.c.type == imports.KIND
    unfinished = exists().where(is_import, TASKS.c.collection == name, TASKS.c.status.in_(UNFINISHED))
    trained = exists().where(MODELS.c.collection_id == collection_id, MODELS.c.version > 0)
    used = [exists().where(one.c.collection_id == collection_id) for one in _CONTENT]
    return not any(connection.execute(select(one)).scalar_one() for one in (trained, unfinished, *used))


_CONTENT: tuple[Any, ...] = (DOCUMENTS, PENDING_DOCUMENTS, EVENTS, JUDGMENTS, RULES, TRAINING_RUNS)
