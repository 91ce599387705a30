"""Whether the service is alive, ready and sound."""

import shutil
import sys
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from sqlalchemy import func, select

from index.errors import DamagedFile, DamagedKeys
from service.http.metrics import REGISTRY
from service.http.problems import Problem
from service.runtime.collection import CollectionState, load_version
from service.runtime.dependency import Running
from service.runtime.runtime import Runtime
from service.storage.tables import Document, Model

router = APIRouter(tags=["health"])
MIN_FREE_BYTES = 200 * 1024 * 1024
LIBRARIES = (
    "torch",
    "faiss-cpu",
    "sentence-transformers",
    "onnxruntime",
    "openvino",
    "fastapi",
    "sqlalchemy",
    "tantivy",
)


@router.get("/livez")
async def livez() -> dict[str, str]:
    """Say that the process answers."""
    return {"status": "alive"}


@router.get("/readyz", responses={503: {"description": "Not ready"}})
async def readyz(request: Request) -> dict[str, Any]:
    """Say whether searches can be answered."""
    runtime: Runtime | None = getattr(request.app.state, "runtime", None)
    if runtime is None:
        raise Problem(503, "starting", "the service is starting")
    degraded = {name: list(state.serving.degraded) for name, state in list(runtime.collections.items())}
    return {"status": "ready", "degraded": {name: why for name, why in degraded.items() if why}}


@router.get("/metrics")
def metrics(runtime: Running) -> Response:
    """Return counters and timings for Prometheus."""
    lines = [generate_latest(REGISTRY), b"# TYPE softseek_documents gauge\n"]
    lines += [
        f'softseek_documents{{collection="{name}"}} {state.generation.count}\n'.encode()
        for name, state in sorted(runtime.collections.items())
    ]
    return Response(b"".join(lines), media_type=CONTENT_TYPE_LATEST)


def diagnose(runtime: Runtime) -> list[dict[str, Any]]:
    """Return what was checked of an installation and its data: name, ok, detail."""
    checks = [_check("python", sys.version_info[:2] == (3, 11), sys.version.split()[0])]
    checks += [_check(name, True, version(name)) for name in LIBRARIES]
    encoder = runtime.encoder
    told = f"{runtime.settings.encoder}, fingerprint {encoder.fingerprint[:12]}, {encoder.precision}"
    checks.append(_check("encoder", True, told))
    with runtime.database.read() as connection:
        integrity = connection.exec_driver_sql("PRAGMA integrity_check").scalar_one()
        orphans = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
        checks.append(_check("database", integrity == "ok", str(integrity)))
        checks.append(_check("foreign keys", not orphans, f"{len(orphans)} rows without their owner"))
        for name, state in sorted(runtime.collections.items()):
            rows = connection.execute(
                select(func.count()).select_from(Document).where(Document.collection_id == state.id)
            ).scalar_one()
            found, words = state.generation.count, state.generation.words.count
            same = rows == found == words
            checks.append(_check(f"index of {name}", same, f"{rows} documents, {found} indexed, {words} in words"))
            whole = _keys_are_whole(state)
            checks.append(_check(f"keys of {name}", whole, "as saved" if whole else "differ from their checksums"))
            same_encoder = state.fingerprint == runtime.encoder.fingerprint
            checks.append(_check(f"encoder of {name}", same_encoder, state.fingerprint[:12]))
            versions = connection.execute(select(Model.version).where(Model.collection_id == state.id)).scalars().all()
            damaged = [one for one in versions if not _model_is_sound(runtime, state, one)]
            checks.append(_check(f"models of {name}", not damaged, f"{len(versions)} versions, damaged: {damaged}"))
    free = shutil.disk_usage(runtime.settings.data).free
    checks.append(_check("free disk", free > MIN_FREE_BYTES, f"{free // 2**20} MiB"))
    return checks


def _check(name: str, ok: bool, detail: str) -> dict[str, Any]:
    return {"name": name, "ok": ok, "detail": detail}


def _keys_are_whole(state: CollectionState) -> bool:
    generation = state.generation
    try:
        generation.key_guard.check_all(generation.keys)
        generation.value_guard.check_all(generation.values)
    except DamagedKeys:
        return False
    return True


def _model_is_sound(runtime: Runtime, state: CollectionState, number: int) -> bool:
    try:
        load_version(state.id, state.initial, number, runtime.settings.data)
    except DamagedFile:
        return False
    return True
