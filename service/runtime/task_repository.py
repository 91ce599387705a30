"""SQL of tasks. The caller commits."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from service.storage.checked_rows import is_sound, stored_rows, update_row
from service.storage.checksums import row_checksum
from service.storage.database import now
from service.storage.tables_of_administration import TASKS

UNFINISHED = ("enqueued", "processing")


def insert_task(connection: Connection, **values: Any) -> None:
    """Insert a task with these columns."""
    connection.execute(insert(TASKS).values(created_at=now(), **values))


def update_task(connection: Connection, task_id: str, **values: Any) -> None:
    """Set columns of a task."""
    update_row(connection, "tasks", {"id": task_id}, values)


def rename_tasks(connection: Connection, made: dict[str, str]) -> None:
    """Exchange the names of two collections in their tasks. made: name -> when the collection with it was made.

    Tasks of before then are of an earlier collection with the name.
    """
    renamed = []
    for old, new in zip(made, reversed(made), strict=True):
        for row in stored_rows(connection, "tasks", {"collection": old}):
            if str(row["created_at"]) < made[old]:
                continue
            checksum = row_checksum("tasks", row | {"collection": new}) if is_sound("tasks", row) else None
            renamed.append({"task": row["id"], "new": new, "sound": checksum})
    if renamed:
        mine = update(TASKS).where(TASKS.c.id == bindparam("task"))
        connection.execute(mine.values(collection=bindparam("new"), checksum=bindparam("sound")), renamed)


def fail_unfinished_tasks(connection: Connection, error: dict[str, Any]) -> None:
    """Mark every task that has not ended as failed."""
    unfinished = select(TASKS.c.id).where(TASKS.c.status.in_(UNFINISHED))
    for task_id in connection.execute(unfinished).scalars().all():
        update_task(connection, task_id, status="failed", error=error, finished_at=now())


def find_task(connection: Connection, task_id: str) -> Any | None:
    """Return the row of a task, or None."""
    return connection.execute(select(TASKS).where(TASKS.c.id == task_id)).one_or_none()


def first_task_since(connection: Connection, kind: str, collection: str, since: str) -> Any | None:
    """Return the row of the first known task of a type and a collection that began at a time or later, or None."""
    wanted = select(TASKS).where(TASKS.c.type == kind, TASKS.c.collection == collection, TASKS.c.created_at >= since)
    return connection.execute(wanted.order_by(TASKS.c.id).limit(1)).one_or_none()


def task_statuses(connection: Connection) -> dict[str, str]:
    """Return id -> status of all tasks, oldest first."""
    return {row.id: row.status for row in connection.execute(select(TASKS.c.id, TASKS.c.status).order_by(TASKS.c.id))}


def delete_tasks(connection: Connection, ids: Sequence[str]) -> None:
    """Delete tasks."""
    connection.execute(delete(TASKS).where(TASKS.c.id.in_(ids)))
