"""SQL that gives the rows of an export of an earlier release the query keys of this one. The caller commits."""

from sqlalchemy import Connection, delete, select

from index.memory.query_key import renewed_query_key
from index.records import KeyKind
from service.storage.checked_rows import update_row
from service.storage.tables import EVENTS, JUDGMENTS, KEYS, QUERIES

RENEWED = "0015"
"""The schema whose query keys are those of this release."""


def renew_query_keys(connection: Connection, collection_id: int, schema: str) -> None:
    """Give all feedback of a collection the query keys of this release, as the migration 0015 does.

    schema: the schema of the export. Where two judgments of a rater become judgments of the same query and document,
    the later one stays.
    """
    if schema >= RENEWED:
        return
    for table in (JUDGMENTS, EVENTS, QUERIES, KEYS):
        (number,) = table.primary_key
        mine = select(number, table.c.query_key).where(table.c.collection_id == collection_id)
        of_query = mine.where(table.c.query_key.is_not(None)).order_by(number)
        if table is KEYS:
            of_query = of_query.where(table.c.kind == KeyKind.QUERY)  # the index has past queries only
        found = connection.execute(of_query, execution_options={"yield_per": 1000})
        renewed = [(row, key) for row, stored in found if (key := renewed_query_key(stored)) != stored]
        for row, key in renewed:
            if table is not JUDGMENTS or _is_latest(connection, row, key):
                update_row(connection, table.name, {number.key: row}, {"query_key": key})


def _is_latest(connection: Connection, judgment: int, key: str) -> bool:
    """Return whether a judgment is later than the one with this key, if there is one. The earlier one is deleted."""
    columns = JUDGMENTS.c
    mine = select(columns.collection_id, columns.document_id, columns.rater).where(columns.id == judgment)
    collection_id, document_id, rater = connection.execute(mine).one()
    same = (columns.collection_id == collection_id, columns.document_id == document_id, columns.rater == rater)
    other = connection.execute(select(columns.id).where(*same, columns.query_key == key)).scalar()
    if other is None:
        return True
    connection.execute(delete(KEYS).where(KEYS.c.judgment_id == min(judgment, other)))
    connection.execute(delete(JUDGMENTS).where(columns.id == min(judgment, other)))
    return bool(judgment > other)
