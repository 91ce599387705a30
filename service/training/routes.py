"""HTTP routes of training runs."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

import orjson
from fastapi import Body, Request
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from service.http.answers import answers
from service.http.presence import is_stopping
from service.http.responses import accepted
from service.http.routers import new_router
from service.runtime.dependency import Running
from service.training import actions
from service.training.answers import RunAttention, TrainingRun, TrainingRunList
from service.training.attention import attention_of_run
from service.training.schemas import TrainingIn

router = new_router("/v1/collections/{collection}/training-runs", "training")
POLL_SECONDS = 0.3
STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events: `step` for each step, then `end` with the run",
        "content": {
            "text/event-stream": {
                "schema": {"type": "string"},
                "example": 'event: step\ndata: {"phase": "fit", "epoch": 1, "loss": 2.31}\n\n',
            }
        },
    }
}


@router.post(
    "",
    status_code=202,
    responses=answers((202, TrainingRun, "The run; the header Location has its address")),
)
def post_training_run(
    runtime: Running, collection: str, training: Annotated[TrainingIn | None, Body()] = None
) -> Response:
    """Fit the attention to the stored feedback, in a separate process."""
    record = actions.start(runtime, runtime.collection(collection), training or TrainingIn())
    return accepted(record, f"/v1/collections/{collection}/training-runs/{record['id']}")


@router.get("", responses=answers((200, TrainingRunList, "The runs")))
def list_training_runs(runtime: Running, collection: str) -> dict[str, Any]:
    """List the training runs, newest first."""
    return actions.list_runs(runtime, runtime.collection(collection))


@router.get("/{run_id}", responses=answers((200, TrainingRun, "The run")))
def get_training_run(runtime: Running, collection: str, run_id: str) -> dict[str, Any]:
    """Show a training run: its steps, its data, its decision and the reasons."""
    return actions.show(runtime, runtime.collection(collection), run_id)


@router.get("/{run_id}/attention", responses=answers((200, RunAttention, "The weights of both models")))
def get_attention(runtime: Running, collection: str, run_id: str) -> dict[str, Any]:
    """Show the attention before and after a run, for the held-out queries whose ranking changed most."""
    return attention_of_run(runtime, runtime.collection(collection), run_id)


@router.get("/{run_id}/stream", response_class=StreamingResponse, responses=STREAM)
async def stream_training_run(runtime: Running, collection: str, run_id: str, request: Request) -> StreamingResponse:
    """Follow a training run as server-sent events: `step` for each step, `end` with the whole record.

    A run whose collection is deleted ends as canceled. A service that stops ends the stream without `end`.
    """
    state = runtime.collection(collection)
    record = await run_in_threadpool(actions.show, runtime, state, run_id)

    async def events(record: dict[str, Any]) -> AsyncIterator[bytes]:
        sent = 0
        last: list[Any] = []
        while not is_stopping(request.scope):
            steps = record["steps"]
            sent = min(sent, len(steps))
            if steps[:sent][-1:] != last:  # it counts: a later count took its place
                sent -= 1
            for step in steps[sent:]:
                yield b"event: step\ndata: " + orjson.dumps(step) + b"\n\n"
            sent, last = len(steps), steps[-1:]
            if record["status"] in actions.ENDED:
                yield b"event: end\ndata: " + orjson.dumps(record) + b"\n\n"
                return
            await asyncio.sleep(POLL_SECONDS)
            record = await run_in_threadpool(actions.show_again, runtime, state, record)

    return StreamingResponse(events(record), media_type="text/event-stream", headers={"Cache-Control": "no-store"})


@router.post(
    "/{run_id}/cancel",
    status_code=202,
    responses=answers((202, TrainingRun, "The run, which ends soon")),
)
def cancel_training_run(runtime: Running, collection: str, run_id: str) -> dict[str, Any]:
    """Cancel a training run. It makes no model."""
    return actions.cancel(runtime, runtime.collection(collection), run_id)
