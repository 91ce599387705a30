"""SQL of the audit log. The caller commits."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, not_, select

from service.storage.checked_rows import update_row
from service.storage.database import now
from service.storage.tables_of_administration import AUDIT


def insert_act(connection: Connection, key_id: str | None, act: str, target: str, status: int) -> int:
    """Store an act; return the number of its record."""
    values = {"at": now(), "key_id": key_id, "act": act, "target": target, "status": status}
    number: int = connection.execute(insert(AUDIT).values(values).returning(AUDIT.c.id)).scalar_one()
    return number


def set_status(connection: Connection, number: int, status: int) -> None:
    """Store the status of the answer to an act."""
    update_row(connection, "audit", {"id": number}, {"status": status})


def delete_oldest(connection: Connection, refused: bool, most: int) -> None:
    """Delete the acts before the newest `most`: of the refused acts, or of the others."""
    is_refused = AUDIT.c.status.between(400, 499)
    kind = is_refused if refused else not_(is_refused)
    last = select(AUDIT.c.id).where(kind).order_by(AUDIT.c.id.desc()).offset(most).limit(1).scalar_subquery()
    connection.execute(delete(AUDIT).where(kind, AUDIT.c.id <= last))


def acts_before(connection: Connection, before: int | None, limit: int) -> Sequence[Row[Any]]:
    """Return the newest acts with an id below `before`, the newest first."""
    wanted = select(AUDIT).order_by(AUDIT.c.id.desc()).limit(limit)
    if before is not None:
        wanted = wanted.where(AUDIT.c.id < before)
    return connection.execute(wanted).all()
