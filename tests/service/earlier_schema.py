"""Makes a database of this release one of an earlier schema, so that a test can upgrade it."""

from sqlalchemy import Connection, text

LATER_COLUMNS = {"0017": (("events", "from_browser"),)}
"""Revision -> the table and name of each column that it adds, since 0014."""


def return_to(connection: Connection, revision: str) -> None:
    """Give a database the columns and the number of an earlier revision, 0014 or later."""
    for later, columns in LATER_COLUMNS.items():
        for table, column in columns if later > revision else ():
            connection.execute(text(f"ALTER TABLE {table} DROP COLUMN {column}"))
    connection.execute(text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision})
