"""The FastAPI dependency that gives a route the runtime of the application."""

from typing import Annotated

from fastapi import Depends, Request

from service.runtime.runtime import Runtime


async def runtime_of(request: Request) -> Runtime:  # async, because FastAPI runs plain functions in a thread
    """Return the runtime of the application."""
    runtime: Runtime = request.app.state.runtime
    return runtime


Running = Annotated[Runtime, Depends(runtime_of)]
