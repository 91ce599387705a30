"""An HTTP server that takes and returns text, for a store without such a server.

`python -m benchmarks.servers.app '{...}'` runs in the environment of its store. POST /documents takes `{"documents":
[{"id", "text"}], "vectors": [[...]]?}`, POST /settle ends a bulk load, POST /search takes `{"q", "limit"}` and answers
`{"hits": [{"id", "text", "score"}]}`. Worker processes encode the texts, each with its own model and connection,
because threads would share an interpreter lock.
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
    "pgvector-same-encoder": ("postgres", "SameEncoderPostgresStore"),
}


@dataclass(frozen=True)
class Start:
    """The start of an app: the number of workers, and of torch threads in each (0: torch's default)."""

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
    for ready in [worker.submit(_ready) for worker in workers]:  # a pool starts its process with its first work
        ready.result()

    def close() -> None:
        for worker in workers:
            worker.shutdown()
        backend.stop()

    uvicorn.run(create_app(workers, close), host="127.0.0.1", port=start.port, access_log=False)


def create_app(workers: Sequence[Executor], close: Callable[[], None]) -> FastAPI:
    """Return the app. A request takes the worker that became free last: its caches are warm. close ends the workers."""
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
"""The store of this worker process."""


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
