"""Add checksums to documents, keys, values, events and judgments, and fill them for the stored rows.

The checksums are computed as by `service.storage.checksums` at this revision. The upgrade is a single transaction, so a
kill leaves the rows of before. It holds CHUNK rows in memory at a time.

Revision ID: 0009
Revises: 0008
"""

import struct
from collections.abc import Iterable
from typing import Any
from zlib import crc32

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

CHUNK = 200
MASK = 2**32 - 1
GOLDEN = 0x9E3779B1
TABLES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...], dict[str, int]]] = {
    "documents": ("row", ("title", "text"), ("id", "url", "metadata", "created_at"), {"collection_id": GOLDEN}),
    "keys": (
        "id",
        ("vector",),
        ("kind", "weight", "span_start", "span_end", "source", "event_id", "judgment_id", "confirmed_on"),
        {"document_row": 1, "collection_id": GOLDEN},
    ),
    "values": ("document_row", ("vector",), (), {"document_row": 1}),
    "events": (
        "id",
        (
            "action_name", "grade", "query_id", "query_text", "source", "document_id", "position", "client_id",
            "session_id", "timestamp", "body", "created_at",
        ),
        (),
        {"collection_id": GOLDEN},
    ),
    "judgments": (
        "id",
        ("query_text", "source", "document_id", "rating", "rater", "created_at"),
        (),
        {"collection_id": GOLDEN},
    ),
}  # fmt: skip
"""Table -> the column with the row's number, the columns of both sums, and the owners with their factors."""


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
    """Write the checksum of every row, in the order of the rows' numbers."""
    number, lower, upper, owners = TABLES[table]
    names = ", ".join(f'"{name}"' for name in (number, *lower, *upper, *owners))
    wanted = f'SELECT {names} FROM "{table}" WHERE "{number}" > ? ORDER BY "{number}" LIMIT {CHUNK}'
    last = -1
    while rows := connection.exec_driver_sql(wanted, (last,)).all():
        sums = []
        for row in rows:
            high = _crc(row[1 + len(lower) : 1 + len(lower) + len(upper)])
            high += sum(owner * factor for owner, factor in zip(row[-len(owners) :], owners.values(), strict=True))
            both = (high & MASK) << 32 | _crc(row[1 : 1 + len(lower)])
            sums.append((both - 2**64 if both >= 2**63 else both, row[0]))
        connection.exec_driver_sql(f'UPDATE "{table}" SET checksum = ? WHERE "{number}" = ?', sums)
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
