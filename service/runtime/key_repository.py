"""SQL that reads API keys. `service.keys.repository` writes them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, select

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
    return _sound_rows(connection, stored_rows(connection, API_KEYS.name))


def key_row(connection: Connection, key_id: str) -> Row[Any] | None:
    """Return the row of an API key; None without one that agrees with its checksum."""
    return next(iter(_sound_rows(connection, _stored(connection, key_id), API_KEYS.c.id == key_id)), None)


def is_damaged(connection: Connection, key_id: str) -> bool:
    """Return whether an API key differs from its checksum."""
    return not all(map(_is_sound, _stored(connection, key_id)))


def _stored(connection: Connection, key_id: str) -> list[dict[str, Any]]:
    return stored_rows(connection, API_KEYS.name, {"id": key_id})


def _sound_rows(
    connection: Connection, stored: Sequence[dict[str, Any]], *where: ColumnElement[bool]
) -> list[Row[Any]]:
    """Return the rows that agree with their checksums. stored: as `stored_rows` returns those that meet `where`."""
    sound = {row["id"] for row in stored if _is_sound(row)}
    damaged = len(sound) < len(stored)  # a damaged row may be unreadable
    wanted = select(API_KEYS).where(*where).order_by(API_KEYS.c.id)
    if damaged:
        wanted = wanted.where(API_KEYS.c.id.in_(sound))
    return list(connection.execute(wanted))


def damaged_keys(connection: Connection) -> list[str]:
    """Return the ids of the API keys that differ from their checksums.

    Their other columns are not used: a flipped bit may be a right that the key never had, or no JSON.
    """
    return [readable(row["id"]) for row in stored_rows(connection, API_KEYS.name) if not _is_sound(row)]


def _is_sound(row: dict[str, Any]) -> bool:
    return is_sound(API_KEYS.name, row)


def known_keys(connection: Connection) -> list[KnownKey]:
    """Return all API keys. A damaged key is among them and matches no text: without keys a service is open to all."""
    stored = stored_rows(connection, API_KEYS.name)
    refused = [_refused(readable(row["id"])) for row in stored if not _is_sound(row)]
    return [*refused, *map(as_known, _sound_rows(connection, stored))]


def known_key(connection: Connection, key_id: str) -> KnownKey | None:
    """Return the API key with an id as `known_keys` does, None if there is none."""
    stored = _stored(connection, key_id)
    if not all(map(_is_sound, stored)):
        return _refused(key_id)
    return next(map(as_known, _sound_rows(connection, stored, API_KEYS.c.id == key_id)), None)


def _refused(key_id: str) -> KnownKey:
    return KnownKey(Caller(key_id), UNKNOWN.digests)


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
