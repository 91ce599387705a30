"""Give queries that were written with İ or with invisible characters the query keys of this release.

The keys of earlier releases had a combining dot after the i of İ, and invisible characters such as a soft hyphen. Rows
that have the same key then are those of one query: their feedback is added up. Of two judgments of a rater on the same
document the later one stays. Anonymous keys are named after a hash, and keep their names. Checksums are computed as by
`service.storage.checksums` at this revision; a row that differs from its checksum still differs from it. A row
that cannot be found by its texts, since one is no UTF-8, keeps its key.

Revision ID: 0015
Revises: 0014
"""

import re
import struct
import unicodedata
from collections.abc import Iterable
from functools import partial
from typing import Any
from zlib import crc32

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

INVISIBLE = re.compile("[\u00ad\u034f\u180b-\u180d\u2060\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef]+")
SMALL_CAPITAL_I = re.compile("i\u0307+")
ANONYMOUS = " "
ESCAPE = "\ufdd0"
"""Stands for characters that PostgreSQL refuses, in stored texts (`service.storage.postgres_text`)."""
MASK = 2**32 - 1
GOLDEN = 0x9E3779B1
CHUNK = 200
"""Rows that are in memory at a time."""
JSON_COLUMNS = {"body", "request", "shown"}
TABLES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...], dict[str, int]]] = {
    "judgments": (
        "id",
        ("query_text", "source", "document_id", "rating", "rater", "created_at"),
        (),
        {"collection_id": GOLDEN},
    ),
    "events": (
        "id",
        (
            "action_name", "grade", "query_id", "query_text", "source", "document_id", "position", "client_id",
            "session_id", "timestamp", "body", "created_at",
        ),
        (),
        {"collection_id": GOLDEN},
    ),
    "queries": (
        "query_id",
        (
            "query_id", "text", "source", "client_id", "session_id", "request", "shown", "null_weight",
            "model_version", "generation", "created_at",
        ),
        (),
        {"collection_id": GOLDEN},
    ),
    "keys": (
        "id",
        ("vector",),
        ("kind", "weight", "span_start", "span_end", "source", "event_id", "judgment_id", "confirmed_on"),
        {"document_row": 1, "collection_id": GOLDEN},
    ),
}  # fmt: skip
"""Table -> the column with the row's number or id, the columns of both sums, and the owners with their factors."""


def upgrade() -> None:
    connection = op.get_bind()
    driver: Any = connection.connection.driver_connection
    is_sqlite = connection.dialect.name == "sqlite"
    before = driver.text_factory if is_sqlite else None
    if is_sqlite:
        driver.text_factory = _as_stored
    try:
        for table in TABLES:
            for collection_id, source, key in _changed_keys(connection, table):
                _change(connection, table, collection_id, source, key)
    finally:
        if is_sqlite:
            driver.text_factory = before


def downgrade() -> None:
    """Leave the keys: the ones of before cannot be made from them, and an earlier release reads these too."""


def _as_stored(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


def _changed_keys(connection: sa.Connection, table: str) -> list[tuple[int, str, str]]:
    """Return (collection, stored key, key of this release) of the keys that differ. An index has all stored keys."""
    wanted = sa.text(f'SELECT DISTINCT collection_id, source FROM "{table}" WHERE source IS NOT NULL{_indexed(table)}')
    found = connection.execute(wanted, execution_options={"yield_per": 1000})
    changed = [
        (collection_id, source, _query_key(source))
        for collection_id, source in found
        if (SMALL_CAPITAL_I.search(source) or INVISIBLE.search(source)) and not source.startswith(ANONYMOUS)
    ]
    return sorted(one for one in changed if _is_utf_8(one[1]))


def _indexed(table: str) -> str:
    """Return the condition of the partial index of a table by query key, or nothing."""
    return " AND kind = 3" if table == "keys" else ""


def _query_key(stored: str) -> str:
    """Return a stored key as `index.memory.query_key` makes it at this revision."""
    folded = unicodedata.normalize("NFKC", INVISIBLE.sub("", stored)).casefold()
    if SMALL_CAPITAL_I.search(folded):
        folded = unicodedata.normalize("NFKC", SMALL_CAPITAL_I.sub("i", folded)).casefold()
    return " ".join(folded.split())


def _is_utf_8(text: str) -> bool:
    """Return whether a text was read from UTF-8. Other texts are damaged, and stay as they are."""
    return not any("\udc80" <= character <= "\udcff" for character in text)


def _change(connection: sa.Connection, table: str, collection_id: int, source: str, key: str) -> None:
    """Give all rows with a stored key another key."""
    number, lower, upper, owners = TABLES[table]
    names = (number, *lower, *upper, *owners, "checksum")
    columns = ", ".join(f'CAST("{name}" AS TEXT)' if name in JSON_COLUMNS else f'"{name}"' for name in names)
    # Without statistics, SQLite prefers the index by collection and kind, which has all past queries of a collection.
    index = " INDEXED BY ix_keys_memory" if table == "keys" and connection.dialect.name == "sqlite" else ""
    same = f"collection_id = :c AND source = :s{_indexed(table)}"
    mine = sa.text(f'SELECT {columns} FROM "{table}"{index} WHERE {same} LIMIT {CHUNK} OFFSET :kept')
    update = sa.text(f'UPDATE "{table}" SET source = :key, checksum = :checksum WHERE "{number}" = :number')
    sum_of = partial(_checksum, table, connection.dialect.name == "postgresql")
    kept = 0  # SQLite returns the rows of a key in the order of their arrival: these come first
    while rows := connection.execute(mine, {"c": collection_id, "s": source, "kept": kept}).all():
        for values in rows:
            row = dict(zip(names, values, strict=True))
            found_by = (row["document_id"], row["rater"]) if table == "judgments" else (str(row[number]),)
            if not all(map(_is_utf_8, found_by)):
                kept += 1
                continue
            if table == "judgments" and not _is_latest(connection, row, key):
                continue
            is_sound = row["checksum"] == sum_of(row)
            checksum = sum_of(row | {"source": key}) if is_sound else row["checksum"]
            connection.execute(update, {"key": key, "checksum": checksum, "number": row[number]})


def _is_latest(connection: sa.Connection, row: dict[str, Any], key: str) -> bool:
    """Return whether a judgment is later than the one with the new key, if there is one. The earlier one is deleted."""
    same = sa.text(
        "SELECT id FROM judgments"
        " WHERE collection_id = :collection_id AND source = :key AND document_id = :document_id AND rater = :rater"
    )
    other = connection.execute(same, row | {"key": key}).scalar()
    if other is None:
        return True
    earlier = {"id": min(other, row["id"])}
    connection.execute(sa.text("DELETE FROM keys WHERE judgment_id = :id"), earlier)
    connection.execute(sa.text("DELETE FROM judgments WHERE id = :id"), earlier)
    return bool(row["id"] > other)


def _checksum(table: str, is_escaped: bool, row: dict[str, Any]) -> int:
    _, lower, upper, owners = TABLES[table]
    if is_escaped:
        row = {name: _unescaped(value) if isinstance(value, str) else value for name, value in row.items()}
    high = _crc(row[name] for name in upper) + sum(row[name] * factor for name, factor in owners.items())
    both = (high & MASK) << 32 | _crc(row[name] for name in lower)
    return both - 2**64 if both >= 2**63 else both


def _unescaped(stored: str) -> str:
    return stored.replace(f"{ESCAPE}0", "\0").replace(f"{ESCAPE}1", ESCAPE)


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
