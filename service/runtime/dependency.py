"""How a route gets the runtime: the one that the application was made with."""

from typing import Annotated

from fastapi import Depends, Request

from service.runtime.runtime import Runtime


async def runtime_of(request: Request) -> Runtime:  # a plain function would be sent to a thread, for every request
    """Return the runtime that the app was made with."""
    runtime: Runtime = request.app.state.runtime
    return runtime


Running = Annotated[Runtime, Depends(runtime_of)]
