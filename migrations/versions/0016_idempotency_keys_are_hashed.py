"""Store answers under the SHA-256 of their Idempotency-Keys: clients put their ids into keys.

A request that is repeated after the upgrade finds its answer. Checksums are computed as by `service.storage.checksums`
at this revision; a row that differs from its checksum still differs from it. A key that is no text or no UTF-8 is
damaged, and stays until its row is deleted.

Revision ID: 0016
Revises: 0015
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from zlib import crc32

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

COLUMNS = ("key", "request_sha256", "status", "headers", "body", "created_at")
ESCAPE = "\ufdd0"
"""Stands for characters that PostgreSQL refuses, in stored texts (`service.storage.postgres_text`)."""


def upgrade() -> None:
    connection = op.get_bind()
    driver: Any = connection.connection.driver_connection
    is_sqlite = connection.dialect.name == "sqlite"
    before = driver.text_factory if is_sqlite else None
    if is_sqlite:
        driver.text_factory = _as_stored
    try:
        keys = connection.execute(sa.text("SELECT key FROM idempotent_answers")).scalars().all()
        hashes = {key: _hashed(_written(connection, key)) for key in keys if _is_sound(key)}
        for key in _in_order(hashes):
            _hash(connection, key, hashes[key])
    finally:
        if is_sqlite:
            driver.text_factory = before


def downgrade() -> None:
    """Leave the hashes: no key can be made from them. An earlier release deletes the rows after 24 hours."""


def _as_stored(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


def _is_sound(key: Any) -> bool:
    return isinstance(key, str) and not any("\udc80" <= character <= "\udcff" for character in key)


def _hashed(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _in_order(hashes: Mapping[str, str]) -> Iterator[str]:
    """Yield the keys so that a key comes after the key that equals its hash. hashes: key -> hash."""
    left = set(hashes)
    for key in hashes:
        following = []
        while key in left:
            left.remove(key)
            following.append(key)
            key = hashes[key]
        yield from reversed(following)


def _hash(connection: sa.Connection, key: str, after: str) -> None:
    names = ", ".join("CAST(headers AS TEXT)" if name == "headers" else name for name in COLUMNS)
    mine = sa.text(f"SELECT {names}, checksum FROM idempotent_answers WHERE key = :key")
    *values, checksum = connection.execute(mine, {"key": key}).one()
    row = [_written(connection, value) for value in values]
    changed = {"key": key, "after": after, "checksum": _crc([after, *row[1:]]) if checksum == _crc(row) else checksum}
    update = "UPDATE idempotent_answers SET key = :after, checksum = :checksum WHERE key = :key"
    connection.execute(sa.text(update), changed)


def _written(connection: sa.Connection, value: Any) -> Any:
    """Return a stored value as it was before PostgreSQL's escapes."""
    if connection.dialect.name != "postgresql" or not isinstance(value, str):
        return value
    return value.replace(f"{ESCAPE}0", "\0").replace(f"{ESCAPE}1", ESCAPE)


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
        else:
            head, body = b"i%d;" % value, b""
        total = crc32(body, crc32(head, total))
    return total
