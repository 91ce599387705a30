"""Add checksums to pending documents, logged searches, rules and training runs, and fill them for the stored rows.

The checksums are computed as by `service.storage.checksums` at this revision. The upgrade is a single transaction, so a
kill leaves the rows of before, and the next start begins again. It holds CHUNK rows in memory at a time.

Revision ID: 0010
Revises: 0009
"""

import struct
from collections.abc import Iterable
from typing import Any
from zlib import crc32

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

CHUNK = 200
MASK = 2**32 - 1
GOLDEN = 0x9E3779B1
"""The factor of the number of the collection, in the upper sum."""
TABLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "pending_documents": (("id", "body", "created_at"), ()),
    "queries": (
        (
            "query_id", "text", "source", "client_id", "session_id", "request", "shown", "null_weight",
            "model_version", "generation", "created_at",
        ),
        (),
    ),
    "rules": (("vector",), ("id", "body", "created_at")),
    "training_runs": (
        (
            "id", "status", "seed", "promote", "budget_seconds", "click_reading", "resumptions", "cancel_requested",
            "progress_done", "progress_total", "steps", "data", "report", "decision", "model_version", "error",
            "created_at", "finished_at",
        ),
        (),
    ),
}  # fmt: skip
"""Table -> the columns of the lower and of the upper sum."""


def upgrade() -> None:
    for table in TABLES:
        op.add_column(table, sa.Column("checksum", sa.Integer(), nullable=True))
    connection = op.get_bind()
    driver: Any = connection.connection.driver_connection
    before, driver.text_factory = driver.text_factory, _as_stored
    try:
        for table in TABLES:
            _fill(connection, table)
    finally:
        driver.text_factory = before


def downgrade() -> None:
    for table in TABLES:
        op.drop_column(table, "checksum")


def _as_stored(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


def _fill(connection: sa.Connection, table: str) -> None:
    """Write the checksum of every row, in the order of SQLite's numbers of the rows."""
    lower, upper = TABLES[table]
    names = ", ".join(f'"{name}"' for name in ("collection_id", *lower, *upper))
    wanted = f'SELECT rowid, {names} FROM "{table}" WHERE rowid > ? ORDER BY rowid LIMIT {CHUNK}'
    last = -(2**63)
    while rows := connection.exec_driver_sql(wanted, (last,)).all():
        sums = []
        for number, collection, *values in rows:
            high = (_crc(values[len(lower) :]) + collection * GOLDEN) & MASK
            both = high << 32 | _crc(values[: len(lower)])
            sums.append((both - 2**64 if both >= 2**63 else both, number))
        connection.exec_driver_sql(f'UPDATE "{table}" SET checksum = ? WHERE rowid = ?', sums)
        last = rows[-1][0]


def _crc(values: Iterable[Any]) -> int:
    total = 0
    for value in values:
        if value is None:
            head, body = b"n", b""
        elif isinstance(value, str):
            body = value.encode("utf-8", "surrogateescape")
            head = b"t%d:" % len(body)
        elif isinstance(value, bytes):
            head, body = b"b%d:" % len(value), value
        elif isinstance(value, float):
            head, body = b"r", struct.pack("<d", value)
        else:
            head, body = b"i%d;" % value, b""
        total = crc32(body, crc32(head, total))
    return total
