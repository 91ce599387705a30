"""The number of the last write in a PostgreSQL database: whether a transaction is stored whose answer was lost.

A connection may break after the server has committed and before the reply to COMMIT arrives. So each write leaves its
number in its own transaction, and a new connection reads it. In contrast to `pg_xact_status`, it also tells the truth
about a promoted standby, which may give the number of a lost transaction to another one.

The table is no content, as the change log is none.
"""

from sqlalchemy import Connection, text

_BEGUN = text(
    "WITH begun AS (UPDATE last_write SET epoch = :epoch, number = :number)"
    " SELECT epoch = :epoch FROM identity FOR SHARE"
)
"""One statement, so that a write has no further round trip."""
_LAST = text(
    "SELECT identity.epoch = :epoch, last_write.epoch = :epoch AND last_write.number = :number"
    " FROM identity, last_write"
)


def make_last_write(connection: Connection) -> None:
    """Make the table and its row if they are missing."""
    if connection.execute(text("SELECT to_regclass('last_write')")).scalar() is None:
        connection.execute(text("CREATE TABLE last_write (epoch bigint NOT NULL, number bigint NOT NULL)"))
    connection.execute(text("INSERT INTO last_write SELECT 0, 0 WHERE NOT EXISTS (SELECT FROM last_write)"))


def begin_write(connection: Connection, epoch: int, number: int) -> bool:
    """Leave the number of a write; return whether no later service has begun to write. None begins before its end.

    epoch: of this service. number: unique among its writes.
    """
    return bool(connection.execute(_BEGUN, {"epoch": epoch, "number": number}).scalar())


def is_last_write(connection: Connection, epoch: int, number: int) -> bool | None:
    """Return whether a write is the last one that is stored; None if another service has begun to write since."""
    is_ours, is_last = connection.execute(_LAST, {"epoch": epoch, "number": number}).one()
    return bool(is_last) if is_ours else None
