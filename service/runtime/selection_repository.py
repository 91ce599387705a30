"""SQL of filters on documents."""

from collections.abc import Iterable

from sqlalchemy import Connection, select

from index.filters.parser import FilterNode
from service.storage.filter_sql import to_sql
from service.storage.tables import Document


def filtered_rows(connection: Connection, collection_id: int, node: FilterNode) -> Iterable[int]:
    """Return the rows of the documents that pass a filter."""
    passes = to_sql(node, Document.__table__.c.metadata)
    return connection.execute(select(Document.row).where(Document.collection_id == collection_id, passes)).scalars()


def filtered_ids(connection: Connection, collection_id: int, node: FilterNode) -> list[str]:
    """Return the ids of the documents that pass a filter."""
    passes = to_sql(node, Document.__table__.c.metadata)
    wanted = select(Document.id).where(Document.collection_id == collection_id, passes)
    return list(connection.execute(wanted).scalars())
