"""SQL that writes API keys, and the records of those that no request made. The caller commits."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select

from service.runtime.key_repository import key_row, key_rows
from service.storage.checked_rows import is_sound, set_column, stored_rows, update_row
from service.storage.database import now
from service.storage.tables_of_administration import API_KEYS, AUDIT


def find_key(connection: Connection, key_id: str) -> Row[Any] | None:
    """Return the row of a key, or None. A damaged row is none."""
    return key_row(connection, key_id)


def key_of_environment(connection: Connection) -> Row[Any] | None:
    """Return the row of the key that the setting `admin_key` gave, or None. A damaged row is none."""
    return next((row for row in key_rows(connection) if row.from_environment), None)


def key_count(connection: Connection) -> int:
    """Return the number of keys."""
    return int(connection.execute(select(func.count()).select_from(API_KEYS)).scalar_one())


def insert_key(connection: Connection, values: Mapping[str, Any]) -> None:
    """Store a new key."""
    connection.execute(insert(API_KEYS).values(dict(values)))


def change_key(connection: Connection, key_id: str, values: Mapping[str, Any]) -> None:
    """Change columns of a key."""
    update_row(connection, "api_keys", {"id": key_id}, values)


def stored_keys(connection: Connection) -> list[dict[str, Any]]:
    """Return the keys as they are stored, without those that differ from their checksums."""
    return [row for row in stored_rows(connection, API_KEYS.name) if is_sound(API_KEYS.name, row)]


def store_last_uses(connection: Connection, rows: Sequence[Mapping[str, Any]], times: Sequence[str]) -> None:
    """Store the last use of keys of `stored_keys`, but of those that have changed since."""
    set_column(connection, API_KEYS.name, rows, "last_used_at", times)


def delete_key(connection: Connection, key_id: str) -> bool:
    """Delete a key; return whether it existed."""
    return connection.execute(delete(API_KEYS).where(API_KEYS.c.id == key_id)).rowcount > 0


def record_creation(connection: Connection, key_id: str) -> None:
    """Store in the audit log that the owner made a key, with the act and the status of the request for it."""
    _record(connection, key_id, "create_key", 201)


def record_rotation(connection: Connection, key_id: str) -> None:
    """Store in the audit log that the owner changed the text of a key, as `record_creation` does."""
    _record(connection, f"{key_id}/rotate", "rotate_key", 200)


def _record(connection: Connection, target: str, act: str, status: int) -> None:
    values = {"at": now(), "key_id": None, "act": act, "target": f"/v1/keys/{target}", "status": status}
    connection.execute(insert(AUDIT).values(values))
