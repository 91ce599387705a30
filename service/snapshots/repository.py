"""SQL of the tasks that made snapshots, and the integrity check of a copy."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, func, inspect, select

from service.http.answers import TaskType
from service.storage.tables_of_administration import API_KEYS, TASKS

KIND: TaskType = "snapshot"
"""The type of the tasks."""
ATTEMPTS = 20


def attempts(connection: Connection) -> Sequence[Row[Any]]:
    """Return the latest tasks that made snapshots, newest first."""
    wanted = select(TASKS).where(TASKS.c.type == KIND).order_by(TASKS.c.id.desc()).limit(ATTEMPTS)
    return connection.execute(wanted).all()


def key_count(connection: Connection) -> int:
    """Return the number of API keys; 0 for a database of a release without keys."""
    if not inspect(connection).has_table(API_KEYS.name):
        return 0
    return int(connection.execute(select(func.count()).select_from(API_KEYS)).scalar_one())
