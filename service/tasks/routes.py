"""HTTP of tasks."""

from typing import Any

from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from service.http.access import Asking, Caller
from service.http.answers import TASK_ACCEPTED, Task, answers
from service.http.problems import not_found
from service.http.responses import accepted_task
from service.http.routers import new_router
from service.runtime.dependency import Running
from service.runtime.runtime import Runtime

router = new_router("/v1/tasks", "tasks")


@router.get("/{task_id}", responses=answers((200, Task, "The task")))
def get_task(runtime: Running, asking: Asking, task_id: str) -> dict[str, Any]:
    """Show a task: its status, progress, result or error."""
    return _shown(runtime, asking.caller, task_id)


@router.post("/{task_id}/cancel", status_code=202, responses=TASK_ACCEPTED)
async def cancel_task(runtime: Running, asking: Asking, task_id: str) -> Response:
    """Stop a task at its next step. Completed steps are kept."""
    return await run_in_threadpool(_cancel, runtime, asking.caller, task_id)


def _cancel(runtime: Runtime, caller: Caller, task_id: str) -> Response:
    """Stop a task. It writes nothing, so it does not wait with the writes for the task that it stops."""
    _shown(runtime, caller, task_id)
    runtime.jobs.cancel(task_id)
    return accepted_task(runtime.jobs.show(task_id))


def _shown(runtime: Runtime, caller: Caller, task_id: str) -> dict[str, Any]:
    """Return a task. Raises Problem 404 also for a task of a collection that the caller does not cover."""
    task = runtime.jobs.show(task_id)
    collection = task["collection"]
    if not caller.is_admin and (collection is None or not runtime.covers(caller, collection)):
        raise not_found("task")
    return task
