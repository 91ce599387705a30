"""Records and lists acts of administration. The log keeps a number of acts, the newest."""

from typing import Any

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from service.audit import repository
from service.http.access import Asked
from service.runtime.runtime import Runtime
from service.storage.pending_acts import acting

MOST_ACTS = 10_000
"""Acts that were not refused."""
MOST_REFUSED = 1_000
"""Refused acts. They have their own number, so that refusals do not push out what was done."""
TOO_OFTEN = 429
"""The status of a request beyond the rate of its key. The log does not have it."""
MAX_TARGET = 512
"""Characters of a target; the rest is cut."""
NO_ANSWER = 0
"""The status of an act that is done and not answered. It stays where the process ends before the answer.

An export and a deletion of a snapshot are recorded when they begin."""
log = structlog.get_logger()


class Act:
    """The record of a request that may be an act. The first transaction that the request commits stores it."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._inserted: int | None = None

    def insert(self, connection: Connection) -> None:
        """Store the record with the status NO_ANSWER, unless it is stored, or the request is no act."""
        self._inserted = None
        if self._asked.act is not None and self._asked.record_id is None:
            self._inserted = _insert(connection, self._asked, NO_ANSWER)

    def committed(self) -> None:
        """The transaction of the last `insert` is durable."""
        if self._inserted is not None:
            self._asked.record_id = self._inserted


def record(runtime: Runtime, asked: Asked, status: int) -> None:
    """Store the status of the answer to an act; first the act, if no transaction of the act has stored it.

    Acts whose request came too often are not stored. Raises the error of the database if an act that is done has no
    record.
    """
    if status == TOO_OFTEN:
        return
    try:
        with acting(None), runtime.database.write() as connection:
            if asked.record_id is None:
                number = _insert(connection, asked, status)
            else:
                number = asked.record_id
                repository.set_status(connection, number, status)
        asked.record_id = number
    except (OSError, SQLAlchemyError) as error:
        if asked.record_id is None and status < 400:
            raise
        log.warning("status_of_act_not_stored", act=asked.act, status=status, reason=str(error))


def _insert(connection: Connection, asked: Asked, status: int) -> int:
    """Store an act and delete the oldest beyond the number that is kept; return the number of the record."""
    assert asked.act is not None
    refused = 400 <= status < 500
    target = asked.target[:MAX_TARGET]
    number = repository.insert_act(connection, asked.caller.key_id, asked.act, target, status)
    repository.delete_oldest(connection, refused, MOST_REFUSED if refused else MOST_ACTS)
    return number


def list_acts(runtime: Runtime, limit: int, cursor: int | None) -> dict[str, Any]:
    """Return acts, the newest first, and the cursor of the next page; None where there is none."""
    with runtime.database.read() as connection:
        rows = repository.acts_before(connection, cursor, limit + 1)
    acts = [
        {
            "at": row.at,
            "key_id": row.key_id,
            "act": row.act,
            "target": row.target,
            "status": row.status,
            "outcome": "done" if row.status < 400 else "refused" if row.status < 500 else "failed",
        }
        for row in rows[:limit]
    ]
    return {"acts": acts, "cursor": str(rows[limit - 1].id) if len(rows) > limit else None}
