"""SQL of the tasks that made snapshots, and the integrity check of a copy."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, func, inspect, select

from service.storage.tables_of_administration import ApiKey, Task

KIND = "snapshot"
"""The type of the tasks."""
ATTEMPTS = 20


def attempts(connection: Connection) -> Sequence[Row[Any]]:
    """Return the latest tasks that made snapshots, newest first."""
    wanted = select(Task.__table__).where(Task.type == KIND).order_by(Task.id.desc()).limit(ATTEMPTS)
    return connection.execute(wanted).all()


def key_count(connection: Connection) -> int:
    """Return the number of API keys; 0 for a database of a release without keys."""
    if not inspect(connection).has_table(ApiKey.__tablename__):
        return 0
    return int(connection.execute(select(func.count()).select_from(ApiKey)).scalar_one())
