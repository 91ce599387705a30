"""SQL of the audit log. The caller commits."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select

from service.storage.database import now
from service.storage.tables import AdminAct


def insert_act(connection: Connection, key_id: str | None, act: str, target: str, status: int, most: int) -> None:
    """Store an act, and delete the acts before the newest `most`."""
    values = {"at": now(), "key_id": key_id, "act": act, "target": target, "status": status}
    newest = int(connection.execute(insert(AdminAct).values(values).returning(AdminAct.id)).scalar_one())
    connection.execute(delete(AdminAct).where(AdminAct.id <= newest - most))


def acts_before(connection: Connection, before: int | None, limit: int) -> Sequence[Row[Any]]:
    """Return the newest acts with an id below `before`, the newest first."""
    wanted = select(AdminAct.__table__).order_by(AdminAct.id.desc()).limit(limit)
    if before is not None:
        wanted = wanted.where(AdminAct.id < before)
    return connection.execute(wanted).all()
