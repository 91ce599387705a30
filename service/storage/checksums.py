"""Checksums of stored rows, which the writer of a row computes and `softseek doctor` compares.

A checksum is two sums of 32 bits, as a signed integer of 64 bits. The lower sum is the CRC-32 of the first columns of a
row. The upper sum is the CRC-32 of its other columns plus the numbers of its owners, modulo 2^32. An UPDATE that gives
a row another owner or another vector changes the checksum without reading the row, and earlier damage stays visible.
The watermarks of a collection are added like the numbers of owners, because every write changes them.
An UPDATE of other columns compares the row with its checksum first (`service.storage.checked_rows`).

A row without a checksum is known to be damaged: it was copied from a row that differed from its checksum.
"""

import json
import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from sqlalchemy import ColumnElement, Connection, Integer, cast

HALF = 32
MASK = 2**HALF - 1
GOLDEN = 0x9E3779B1
"""The factor of the number of a collection, odd and large, so that sums of owners differ."""
NO_NUMBER = 1 << 31
"""Stands for a damaged value in place of the number of an owner."""


@dataclass(frozen=True)
class Checked:
    """The columns of a table that its checksum covers: all but the checksum and the row's own number, if it has one.

    lower, upper: names of the columns of each sum. owners: column with the number of another row, a watermark or a flag
    -> its factor. A flag that is not set adds nothing: rows of before the flag keep their checksums.
    """

    lower: tuple[str, ...]
    upper: tuple[str, ...] = ()
    owners: Mapping[str, int] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns."""
        return (*self.lower, *self.upper, *self.owners)


TABLES = {
    "identity": Checked(("id", "epoch")),
    "documents": Checked(
        ("title", "text"), ("id", "url", "metadata", "created_at"), {"collection_id": GOLDEN}
    ),
    "keys": Checked(
        ("vector",),
        ("kind", "weight", "span_start", "span_end", "query_key", "event_id", "judgment_id", "confirmed_on"),
        {"document_row": 1, "collection_id": GOLDEN},
    ),
    "values": Checked(("vector",), (), {"document_row": 1}),
    "events": Checked(
        (
            "action_name", "grade", "query_id", "query_text", "query_key", "document_id", "position", "client_id",
            "session_id", "timestamp", "body", "created_at",
        ),
        (),
        {"collection_id": GOLDEN, "from_browser": 1},
    ),
    "judgments": Checked(
        ("query_text", "query_key", "document_id", "rating", "rater", "created_at"), (), {"collection_id": GOLDEN}
    ),
    "pending_documents": Checked(("id", "body", "created_at"), (), {"collection_id": GOLDEN}),
    "queries": Checked(
        (
            "query_id", "text", "query_key", "client_id", "session_id", "request", "shown", "null_weight",
            "model_version", "generation", "created_at",
        ),
        (),
        {"collection_id": GOLDEN},
    ),
    "rules": Checked(("vector",), ("id", "body", "created_at"), {"collection_id": GOLDEN}),
    "training_runs": Checked(
        (
            "id", "status", "seed", "promote", "budget_seconds", "click_reading", "resumptions", "cancel_requested",
            "progress_done", "progress_total", "steps", "data", "report", "decision", "model_version", "error",
            "created_at", "finished_at",
        ),
        (),
        {"collection_id": GOLDEN},
    ),
    "collections": Checked(
        ("name", "settings", "encoder", "fingerprint", "dim", "created_at"),
        (),
        {"watermark": GOLDEN, "documents_watermark": 1},
    ),
    "collection_aliases": Checked(("name", "collection", "created_at")),
    "models": Checked(("version", "lineage", "report", "decision", "created_at"), (), {"collection_id": GOLDEN}),
    "model_files": Checked(("version", "name", "body"), (), {"collection_id": GOLDEN}),
    "aliases": Checked(("name", "version"), (), {"collection_id": GOLDEN}),
    "alias_changes": Checked(
        ("name", "from_version", "to_version", "reason", "rollback", "created_at"), (), {"collection_id": GOLDEN}
    ),
    "tasks": Checked(
        (
            "id", "type", "collection", "status", "progress_done", "progress_total", "result", "error", "created_at",
            "finished_at",
        )
    ),
    "idempotent_answers": Checked(("key", "request_sha256", "status", "headers", "body", "created_at")),
    "erasures": Checked(("id", "status", "subject", "receipt", "created_at", "finished_at")),
    "api_keys": Checked(
        (
            "id", "name", "scopes", "collections", "filter", "origins", "rate_per_minute", "digest", "old_digest",
            "old_until", "from_environment", "created_at", "expires_at", "rotated_at", "last_used_at",
        )
    ),
    "audit": Checked(("at", "key_id", "act", "target", "status")),
}  # fmt: skip
REAL = {"weight", "grade", "null_weight"}
"""Columns that SQLite stores as floating-point numbers, also where the value is a whole number."""


def as_json(value: Any) -> str:
    """Return a value as JSON, as the database stores it."""
    return json.dumps(value)


def row_checksum(table: str, values: Mapping[str, Any]) -> int:
    """Return the checksum of a row. values: column -> value as it is written, or as it is read from the file.

    A column that is missing is NULL.
    """
    lower, upper = half_sums(table, values)
    return signed(upper << HALF | lower)


def half_sums(table: str, values: Mapping[str, Any]) -> tuple[int, int]:
    """Return the lower and the upper sum of a row."""
    checked = TABLES[table]
    lower = crc(_stored(name, values.get(name)) for name in checked.lower)
    upper = crc(_stored(name, values.get(name)) for name in checked.upper)
    for name, factor in checked.owners.items():
        owner = values.get(name)
        upper += owner * factor if isinstance(owner, int) else NO_NUMBER * (owner is not None)
    return lower, upper & MASK


def crc(values: Iterable[Any]) -> int:
    """Return the CRC-32 of values with their types and lengths: None, int, float, str or bytes."""
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


def _stored(name: str, value: Any) -> Any:
    """Return the value that SQLite stores for a value that is written; a stored value stays as it is."""
    if isinstance(value, dict | list):
        return as_json(value)
    if name in REAL and isinstance(value, int | float):
        return None if math.isnan(value) else float(value) + 0.0  # SQLite has neither NaN nor -0.0
    return value


def signed(number: int) -> int:
    """Return an integer of 64 bits with a sign, as SQLite stores it."""
    return number - 2**64 if number >= 2**63 else number


def halves(checksum: int) -> tuple[int, int]:
    """Return the lower and the upper sum of a checksum."""
    return checksum & MASK, checksum >> HALF & MASK


def of_new_row(table: str) -> Callable[[Any], int]:
    """Return the default of the column `checksum`: every INSERT of a row writes its checksum in the same statement."""

    def checksum(context: Any) -> int:
        return row_checksum(table, context.get_current_parameters())

    return checksum


@contextmanager
def texts_as_stored(connection: Connection) -> Iterator[None]:
    """Read every text as it is stored, also where it is no UTF-8: such bytes become surrogates.

    Only SQLite stores such texts.
    """
    if connection.dialect.name != "sqlite":
        yield
        return
    driver: Any = connection.connection.driver_connection
    before, driver.text_factory = driver.text_factory, lambda text: text.decode("utf-8", "surrogateescape")
    try:
        yield
    finally:
        driver.text_factory = before


def readable(text: Any) -> str:
    """Return a text that `texts_as_stored` has read, for reports; bytes that are no UTF-8 become question marks."""
    return str(text).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


_WIDTH = cast(HALF, Integer)
"""PostgreSQL shifts by an integer of 32 bits."""


def with_owner_changed(checksum: Any, change: Any) -> ColumnElement[int]:
    """Return the SQL of a checksum after the owner's number times its factor has changed by `change`."""
    upper = (checksum.bitwise_rshift(_WIDTH) + change).bitwise_and(MASK)
    result: ColumnElement[int] = upper.bitwise_lshift(_WIDTH).bitwise_or(checksum.bitwise_and(MASK))
    return result


def with_lower_sum(checksum: Any, lower: Any) -> ColumnElement[int]:
    """Return the SQL of a checksum whose lower sum is replaced."""
    result: ColumnElement[int] = checksum.bitwise_and(~MASK).bitwise_or(lower)
    return result
