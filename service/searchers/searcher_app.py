"""Creates the application of a searcher."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

from index.filters.parser import build_parser
from service.app import create_reading_app
from service.operations.authority import SearchAuthority
from service.runtime.log_lines import configure_logging
from service.searchers.searcher_runtime import SearcherRuntime
from service.settings import Settings


def create_searcher_app(settings: Settings, runtime: SearcherRuntime | None = None) -> FastAPI:
    """Return the application. Without a runtime, it opens its own runtime at start and closes it at the end."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        opened = runtime if runtime is not None else await run_in_threadpool(lambda: SearcherRuntime.open(settings))
        app.state.runtime, app.state.authority = opened, SearchAuthority(opened)
        await run_in_threadpool(build_parser)  # otherwise the first filter waits for it
        try:
            yield
        finally:
            if runtime is None:
                await run_in_threadpool(opened.close)

    configure_logging(settings.log_level)
    return create_reading_app(settings, lifespan, refuses_others=True)
