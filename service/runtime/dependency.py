"""The FastAPI dependency that gives a route the runtime of the application."""

from typing import Annotated

from fastapi import Depends, Request

from service.runtime.runtime import Runtime
from service.runtime.search_runtime import SearchRuntime


async def runtime_of(request: Request) -> Runtime:  # async, because FastAPI runs plain functions in a thread
    """Return the runtime of the application."""
    runtime: Runtime = request.app.state.runtime
    return runtime


async def search_runtime_of(request: Request) -> SearchRuntime:
    """Return the runtime of an application that may be a worker's."""
    runtime: SearchRuntime = request.app.state.runtime
    return runtime


Running = Annotated[Runtime, Depends(runtime_of)]
Searching = Annotated[SearchRuntime, Depends(search_runtime_of)]
"""The same for routes that workers have too."""
