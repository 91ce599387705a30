"""Text in, text out over HTTP for a store that has no such server: `python -m benchmarks.servers.app '{...}'`.

Runs in the environment of its store. POST /documents takes `{"documents": [{"id", "text"}], "vectors": [[...]]?}`,
POST /settle ends a bulk load, POST /search takes `{"q", "limit"}` and answers `{"hits": [{"id", "text", "score"}]}`.
Texts are embedded by worker processes, each with a model and a connection: threads would wait for one interpreter.
"""

import asyncio
import importlib
import json
import multiprocessing
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import uvicorn
from fastapi import FastAPI, Request, Response

STORES = {
    "chroma": ("chroma", "ChromaStore"),
    "lancedb": ("lance", "LanceStore"),
    "milvus": ("milvus_standalone", "MilvusStore"),
    "pgvector": ("postgres", "PostgresStore"),
}


@dataclass(frozen=True)
class Start:
    """How an app is started: so many workers, each with so many of torch's threads (0: torch's default)."""

    store: str
    folder: str
    model: str
    port: int
    workers: int
    torch_threads: int


def main(specification: str) -> None:
    """Serve until SIGTERM."""
    start = Start(**json.loads(specification))
    backend = _module(start.store).serve(Path(start.folder))
    context = multiprocessing.get_context("spawn")
    workers = [ProcessPoolExecutor(1, context, _open, (start, backend.address)) for _ in range(start.workers)]
    for ready in [worker.submit(_ready) for worker in workers]:  # a pool starts its process when there is work
        ready.result()

    def close() -> None:
        for worker in workers:
            worker.shutdown()
        backend.stop()

    uvicorn.run(create_app(workers, close), host="127.0.0.1", port=start.port, access_log=False)


def create_app(workers: Sequence[Executor], close: Callable[[], None]) -> FastAPI:
    """Return the app; a request waits for the worker that was free last, whose caches are warm; close ends them."""
    free: asyncio.LifoQueue[Executor] = asyncio.LifoQueue()
    for worker in workers:
        free.put_nowait(worker)

    @asynccontextmanager
    async def closing(_app: FastAPI) -> AsyncIterator[None]:
        yield
        close()

    app = FastAPI(lifespan=closing)

    async def answer(request: Request, work: Callable[[bytes], bytes]) -> Response:
        wanted = await request.body()
        worker = await free.get()
        try:
            body = await asyncio.get_running_loop().run_in_executor(worker, work, wanted)
        finally:
            free.put_nowait(worker)
        return Response(body, media_type="application/json")

    @app.post("/documents")
    async def documents(request: Request) -> Response:
        return await answer(request, _add)

    @app.post("/settle")
    async def settle(request: Request) -> Response:
        return await answer(request, _settle)

    @app.post("/search")
    async def search(request: Request) -> Response:
        return await answer(request, _search)

    return app


_opened: dict[str, Any] = {}
"""The store of a worker's process."""


def _open(start: Start, address: str) -> None:
    if start.torch_threads:
        os.environ["OMP_NUM_THREADS"] = str(start.torch_threads)
    _opened["store"] = getattr(_module(start.store), STORES[start.store][1])(address, start.model)


def _ready() -> bool:
    return bool(_opened)


def _module(store: str) -> Any:
    return importlib.import_module(f"benchmarks.servers.stores.{STORES[store][0]}")


def _add(body: bytes) -> bytes:
    wanted = orjson.loads(body)
    documents = wanted["documents"]
    ids, texts = [one["id"] for one in documents], [one["text"] for one in documents]
    _opened["store"].add(ids, texts, wanted.get("vectors"))
    return orjson.dumps({"added": len(ids)})


def _settle(_body: bytes) -> bytes:
    _opened["store"].settle()
    return b"{}"


def _search(body: bytes) -> bytes:
    wanted = orjson.loads(body)
    return orjson.dumps({"hits": _opened["store"].search(wanted["q"], wanted["limit"])})


if __name__ == "__main__":
    main(sys.argv[1])
