"""HTTP of the audit log."""

from typing import Annotated, Any

from fastapi import Query

from service.audit import actions
from service.audit.answers import ActPage
from service.http.answers import answers
from service.http.routers import new_router
from service.runtime.dependency import Running

router = new_router("/v1/audit", "keys")


@router.get("", responses=answers((200, ActPage, "A page of acts")))
def list_acts(
    runtime: Running,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Annotated[str, Query(pattern=r"^\d{0,18}$")] = "",
) -> dict[str, Any]:
    """List acts of administration, the newest first."""
    return actions.list_acts(runtime, limit, int(cursor) if cursor else None)
