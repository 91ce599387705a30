"""Add checksums to the tables of collections, models, aliases, API keys, acts, erasures, tasks and stored answers.

The checksums are computed as by `service.storage.checksums` at this revision, for the rows as they are stored. The
upgrade is a single transaction, so a kill leaves the rows of before, and the next start begins again. It holds CHUNK
rows in memory at a time.

Revision ID: 0011
Revises: 0010
"""

import struct
from collections.abc import Iterable
from typing import Any
from zlib import crc32

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

CHUNK = 200
MASK = 2**32 - 1
GOLDEN = 0x9E3779B1
TABLES: dict[str, tuple[tuple[str, ...], dict[str, int]]] = {
    "collections": (
        ("name", "settings", "encoder", "fingerprint", "dim", "created_at"),
        {"watermark": GOLDEN, "documents_watermark": 1},
    ),
    "collection_aliases": (("name", "collection", "created_at"), {}),
    "models": (("version", "lineage", "report", "decision", "created_at"), {"collection_id": GOLDEN}),
    "aliases": (("name", "version"), {"collection_id": GOLDEN}),
    "alias_changes": (
        ("name", "from_version", "to_version", "reason", "rollback", "created_at"),
        {"collection_id": GOLDEN},
    ),
    "tasks": (
        (
            "id", "type", "collection", "status", "progress_done", "progress_total", "result", "error", "created_at",
            "finished_at",
        ),
        {},
    ),
    "idempotent_answers": (("key", "request_sha256", "status", "headers", "body", "created_at"), {}),
    "erasures": (("id", "status", "subject", "receipt", "created_at", "finished_at"), {}),
    "api_keys": (
        (
            "id", "name", "scopes", "collections", "filter", "origins", "rate_per_minute", "digest", "old_digest",
            "old_until", "from_environment", "created_at", "expires_at", "rotated_at", "last_used_at",
        ),
        {},
    ),
    "audit": (("at", "key_id", "act", "target", "status"), {}),
}  # fmt: skip
"""Table -> the columns of the lower sum, and the columns that the upper sum adds, with their factors."""


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
    lower, added = TABLES[table]
    names = ", ".join(f'"{name}"' for name in (*lower, *added))
    wanted = f'SELECT rowid, {names} FROM "{table}" WHERE rowid > ? ORDER BY rowid LIMIT {CHUNK}'
    last = -(2**63)
    while rows := connection.exec_driver_sql(wanted, (last,)).all():
        sums = []
        for number, *values in rows:
            numbers = zip(values[len(lower) :], added.values(), strict=True)
            high = sum(value * factor for value, factor in numbers) & MASK
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
