"""The identity of the database, and the epoch of its writer."""

from sqlalchemy import Connection, insert, select

from service.storage.checked_rows import update_row
from service.storage.database import new_id
from service.storage.tables_of_administration import IDENTITY


def identity_of(connection: Connection) -> str:
    """Return the identity of the database."""
    return str(connection.execute(select(IDENTITY.c.id)).scalar_one())


def epoch_of(connection: Connection) -> int:
    """Return the number of services that have begun to write to the database."""
    return int(connection.execute(select(IDENTITY.c.epoch)).scalar_one())


def begin_epoch(connection: Connection) -> int:
    """Count a further service that writes, and return its number. The first one makes the identity."""
    found = connection.execute(select(IDENTITY.c.id, IDENTITY.c.epoch).with_for_update()).one_or_none()
    if found is None:
        connection.execute(insert(IDENTITY), {"id": new_id(), "epoch": 1})
        return 1
    update_row(connection, "identity", {"id": found.id}, {"epoch": found.epoch + 1})
    return int(found.epoch) + 1
