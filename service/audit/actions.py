"""Records and lists acts of administration. The log keeps a number of acts, the newest."""

from typing import Any

from service.audit import repository
from service.runtime.runtime import Runtime

MOST_ACTS = 10_000
MAX_TARGET = 512
"""Characters of a target; the rest is cut."""


def record(runtime: Runtime, key_id: str | None, act: str, target: str, status: int) -> None:
    """Store an act durably. key_id: None without a key. target: the path of the object; status: of the answer."""
    with runtime.database.write() as connection:
        repository.insert_act(connection, key_id, act, target[:MAX_TARGET], status, MOST_ACTS)


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
