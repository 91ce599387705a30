"""SQL that reads API keys. `service.keys.repository` writes them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, select

from index.filters.parser import parse_filter
from service.http.access import Caller
from service.runtime.keyring import NEVER, UNKNOWN, KnownKey
from service.storage.checked_rows import is_sound, stored_rows
from service.storage.checksums import readable
from service.storage.tables_of_administration import API_KEYS


class AnyField:
    """All field names: the filter of a key does not depend on the settings of a collection."""

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 1


def key_rows(connection: Connection) -> Sequence[Row[Any]]:
    """Return the rows of the API keys that agree with their checksums, the oldest first."""
    sound = [row["id"] for row in stored_rows(connection, API_KEYS.name) if _is_sound(row)]
    return connection.execute(select(API_KEYS).where(API_KEYS.c.id.in_(sound)).order_by(API_KEYS.c.id)).all()


def damaged_keys(connection: Connection) -> list[str]:
    """Return the ids of the API keys that differ from their checksums.

    Their other columns are not used: a flipped bit may be a right that the key never had, or no JSON.
    """
    return [readable(row["id"]) for row in stored_rows(connection, API_KEYS.name) if not _is_sound(row)]


def _is_sound(row: dict[str, Any]) -> bool:
    return is_sound(API_KEYS.name, row)


def known_keys(connection: Connection) -> list[KnownKey]:
    """Return all API keys. A damaged key is among them and matches no text: without keys a service is open to all."""
    refused = [KnownKey(Caller(key_id), UNKNOWN.digests) for key_id in damaged_keys(connection)]
    return [*refused, *(as_known(row) for row in key_rows(connection))]


def as_known(row: Any) -> KnownKey:
    """Return the key of a row."""
    caller = Caller(
        key_id=row.id,
        scopes=frozenset(row.scopes),
        collections=None if row.collections is None else frozenset(row.collections),
        filter=row.filter,
        condition=None if row.filter is None else parse_filter(row.filter, AnyField()),
        origins=frozenset(row.origins),
        rate_per_minute=row.rate_per_minute,
    )
    digests = [(row.digest, NEVER)]
    if row.old_digest is not None:
        digests.append((row.old_digest, _seconds(row.old_until)))
    return KnownKey(caller, tuple(digests), row.from_environment, _seconds(row.expires_at))


def _seconds(moment: str | None) -> float:
    """Return an RFC 3339 time in seconds since 1970; without a time, NEVER."""
    return NEVER if moment is None else datetime.fromisoformat(moment).timestamp()
