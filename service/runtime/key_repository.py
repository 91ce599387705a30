"""SQL that reads API keys. `service.keys.repository` writes them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, select

from index.filters.parser import parse_filter
from service.http.access import Caller
from service.runtime.keyring import NEVER, KnownKey
from service.storage.tables import ApiKey


class AnyField:
    """All field names: the filter of a key does not depend on the settings of a collection."""

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 1


def key_rows(connection: Connection) -> Sequence[Row[Any]]:
    """Return the rows of all API keys, the oldest first."""
    return connection.execute(select(ApiKey.__table__).order_by(ApiKey.id)).all()


def known_keys(connection: Connection) -> list[KnownKey]:
    """Return all API keys."""
    return [as_known(row) for row in key_rows(connection)]


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
