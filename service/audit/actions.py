"""Records and lists acts of administration. The log keeps a number of acts, the newest."""

from typing import Any

from service.audit import repository
from service.runtime.runtime import Runtime

MOST_ACTS = 10_000
"""Acts that were not refused."""
MOST_REFUSED = 1_000
"""Refused acts. They have their own number, so that refusals do not push out what was done."""
TOO_OFTEN = 429
"""The status of a request beyond the rate of its key. The log does not have it."""
MAX_TARGET = 512
"""Characters of a target; the rest is cut."""


def record(runtime: Runtime, key_id: str | None, act: str, target: str, status: int) -> None:
    """Store an act durably, unless its request came too often.

    key_id: None without a key. target: the path of the object. status: of the answer.
    """
    if status == TOO_OFTEN:
        return
    refused = 400 <= status < 500
    with runtime.database.write() as connection:
        repository.insert_act(connection, key_id, act, target[:MAX_TARGET], status)
        repository.delete_oldest(connection, refused, MOST_REFUSED if refused else MOST_ACTS)


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
