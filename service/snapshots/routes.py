"""HTTP routes of snapshots. Snapshots are verified and restored on the command line only."""

from typing import Annotated, Any

from fastapi import Path
from fastapi.responses import Response

from service.http.answers import TASK_ACCEPTED, answers
from service.http.responses import accepted_task
from service.http.routers import new_router
from service.runtime.dependency import Running
from service.snapshots import actions
from service.snapshots.answers import SnapshotList
from service.snapshots.stored import ID

router = new_router("/v1/snapshots", "snapshots")


@router.post("", status_code=202, responses=TASK_ACCEPTED)
def create_snapshot(runtime: Running) -> Response:
    """Copy the database and the models to one file in the data directory, while the service runs."""
    return accepted_task(runtime.jobs.show(actions.start(runtime)))


@router.get("", responses=answers((200, SnapshotList, "The snapshots and their schedule")))
def list_snapshots(runtime: Running) -> dict[str, Any]:
    """List the snapshots in the data directory, newest first."""
    return actions.show_all(runtime)


@router.delete("/{snapshot_id}", status_code=204)
def delete_snapshot(runtime: Running, snapshot_id: Annotated[str, Path(pattern=f"^{ID}$")]) -> Response:
    """Delete a snapshot."""
    actions.delete(runtime, snapshot_id)
    return Response(status_code=204)
