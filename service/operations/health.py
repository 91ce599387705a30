"""HTTP routes of liveness, readiness and metrics, and the checks of `softseek doctor`."""

import shutil
import sqlite3
import sys
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson
from fastapi import Request
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError
from starlette.types import Scope

from index.errors import DamagedFile, DamagedKeys
from service.http.access import Asked, Asking
from service.http.answers import answers
from service.http.metrics import exposition, gauge
from service.http.problems import Problem
from service.http.routers import router_of
from service.http.server import LIVE
from service.operations import repository
from service.operations.answers import Liveness, Readiness
from service.operations.comparison import differing_documents
from service.operations.row_checks import FIRST_KINDS, KINDS, OUTSIDE, Damage, StoredRows, check_rows, listed
from service.operations.row_repairs import repair_outside, repair_rows
from service.runtime.collection import CollectionState
from service.runtime.dependency import Running
from service.runtime.model_files import load_version
from service.runtime.runtime import Runtime
from service.snapshots.state import state_hash
from service.snapshots.stored import stored_snapshots
from service.storage import dialects
from service.storage.database import is_ahead
from service.storage.sqlite_database import SqliteDatabase
from service.storage.unreadable_rows import UnreadableRow

router = router_of(tags=["health"])
ALIVE = {"status": "alive"}
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


@router.get(LIVE, responses=answers((200, Liveness, "The process responds")))
async def livez() -> dict[str, str]:
    """Report that the process responds."""
    return ALIVE


async def livez_directly(_scope: Scope, _asked: Asked, _body: bytes) -> Response:
    """Report the same as `livez`."""
    return Response(orjson.dumps(ALIVE), media_type="application/json")


@router.get(
    "/readyz",
    responses={**answers((200, Readiness, "Searches are answered")), 503: {"description": "Not ready"}},
)
async def readyz(request: Request, asking: Asking) -> dict[str, Any]:
    """Report whether the service can answer searches, and to `admin` which collections are degraded."""
    runtime: Runtime | None = getattr(request.app.state, "runtime", None)
    if runtime is None:
        raise Problem(503, "starting", "the service is starting")
    if runtime.obstacle is not None:
        raise runtime.obstacle
    await runtime.require_database()
    if not asking.caller.is_admin:
        return {"status": "ready"}
    encoder = runtime.encoder
    degraded = {name: list(state.degraded_under(encoder)) for name, state in list(runtime.collections.items())}
    body: dict[str, Any] = {"status": "ready"}
    body["degraded"] = {name: reasons for name, reasons in degraded.items() if reasons}
    if runtime.workers is not None:
        body["workers"] = {"ready": runtime.workers.ready, "wanted": runtime.workers.count}
    return body | runtime.standing


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(runtime: Running) -> Response:
    """Return counters and timings in the text format of Prometheus."""
    others = runtime.workers.samples if runtime.workers is not None else ()
    counts = {name: state.generation.count for name, state in sorted(runtime.collections.items())}
    parts = [exposition(others), gauge("softseek_documents", counts, "collection")]
    for member, values in runtime.standing.items():
        for name, value in (values if isinstance(values, dict) else {member: values}).items():
            parts.append(gauge(f"softseek_searcher_{name}", {"": value}))
    if not runtime.settings.only_reads:  # the snapshots are those of the writer
        moment = datetime.now(UTC)
        made = [one.made_at for one in stored_snapshots(runtime.settings.data) if not is_ahead(one.made_at, moment)]
        newest = datetime.fromisoformat(made[0]).timestamp() if made else 0
        parts.append(gauge("softseek_newest_snapshot_timestamp_seconds", {"": round(newest)}))
    return Response(b"".join(parts), media_type=CONTENT_TYPE_LATEST)


def diagnose(runtime: Runtime, repair: bool = False) -> list[dict[str, Any]]:
    """Return the checks of an installation and its data: name, ok, detail.

    repair: after the checks, rebuild damaged indexes from the database, make damaged vectors again from sound texts and
    accept missing changes.
    """
    checks = [_check("python", sys.version_info[:2] == (3, 11), sys.version.split()[0])]
    checks += [_check(name, True, version(name)) for name in LIBRARIES]
    checks.append(_encoder_check(runtime))
    with runtime.database.read() as connection:
        stored = check_rows(connection)
        checks += _database_checks(connection, stored)
        if repair:
            checks += repair_outside(stored.outside)
        checks += _missing_collections(runtime, repair)
        for name, state in sorted(runtime.collections.items()):
            damage = stored.of(state.id)
            found = _collection_checks(runtime, connection, name, state, damage)
            checks += found
            if repair:
                checks += _repaired(runtime, state, found) + repair_rows(runtime, state, damage)
    checks.append(_rights(runtime.settings.data))
    free = shutil.disk_usage(runtime.settings.data).free
    checks.append(_check("free disk", free > MIN_FREE_BYTES, f"{free // 2**20} MiB"))
    return checks


def diagnose_database(path: Path) -> list[dict[str, Any]]:
    """Return the checks of the stored rows alone, for a directory that does not open, such as for a damaged row."""
    database = SqliteDatabase(path)
    try:
        with database.read() as connection:
            stored, names = check_rows(connection), repository.collection_names(connection)
            checks = _database_checks(connection, stored)
        for number, damage in sorted(stored.collections.items()):
            checks += [_rows_check(names.get(number, str(number)), kind, damage) for kind in KINDS]
        return checks
    except (SQLAlchemyError, sqlite3.Error) as error:  # a file that is no database fails before SQLAlchemy wraps errors
        return [_check("database", False, str(getattr(error, "orig", None) or error))]
    finally:
        with suppress(sqlite3.Error):  # the end of the last connection checkpoints, which reads the file
            database.close()


def _database_checks(connection: Connection, stored: StoredRows) -> list[dict[str, Any]]:
    integrity, orphans = dialects.integrity(connection), dialects.orphan_count(connection)
    return [
        _check("database", integrity == "ok", integrity),
        _content_check(connection),
        _check("foreign keys", not orphans, f"{orphans} rows without the row that they refer to"),
        _check("rows", not stored.faults, "; ".join(stored.faults) or "all were compared with their checksums"),
        *(_written_check(kind, kind, stored.outside) for kind in OUTSIDE.values()),
    ]


def _missing_collections(runtime: Runtime, repair: bool) -> list[dict[str, Any]]:
    """Return the check that the database knows all collections that were changed; repair: accept the loss."""
    count = len(runtime.missing_collections)
    found = f"{count} collections are missing, with all their changes" if count else "complete"
    checks = [_check("collections", not count, found)]
    if count and repair:
        runtime.accept_missing_collections()
        checks.append(_check("repair of the collections", True, f"{count} are lost; they are reported no longer"))
    return checks


def _content_check(connection: Connection) -> dict[str, Any]:
    try:
        return _check("content", True, f"state hash {state_hash(connection).sha256}")
    except UnreadableRow as error:
        return _check("content", False, str(error))
    except (SQLAlchemyError, ValueError) as error:
        return _check("content", False, f"a stored row cannot be read: {error}")


def _collection_checks(
    runtime: Runtime, connection: Connection, name: str, state: CollectionState, damage: Damage
) -> list[dict[str, Any]]:
    rows = repository.document_count(connection, state.id)
    indexed, words = state.generation.count, state.generation.words.count
    intact = _keys_are_intact(state)
    same_encoder = state.fingerprint == runtime.encoder.fingerprint
    versions = repository.model_versions(connection, state.id)
    damaged = [one for one in versions if not _model_is_intact(connection, state, one)]
    counts = f"{rows} documents, {indexed} indexed, {words} in words"
    return [
        _check(f"index of {name}", rows == indexed == words, counts),
        _check(
            f"changes of {name}",
            not state.missing_changes,
            f"{state.missing_changes} committed changes are missing" if state.missing_changes else "complete",
        ),
        _check(f"keys of {name}", intact, "as saved" if intact else "differ from their checksums"),
        _stored_check(connection, state, intact, damage),
        *(_rows_check(name, kind, damage) for kind in KINDS if kind not in FIRST_KINDS),
        _check(f"encoder of {name}", same_encoder, state.fingerprint[:12]),
        _check(f"models of {name}", not damaged, f"{len(versions)} versions, damaged: {damaged}"),
    ]


def _stored_check(
    connection: Connection, state: CollectionState, keys_are_intact: bool, damage: Damage
) -> dict[str, Any]:
    """Return the check of stored documents and vectors against checksums, and against the index if it is intact."""
    differing = differing_documents(connection, state) if keys_are_intact else []
    faults = {
        "differ from their checksums": damage.named("documents"),
        "have vectors that differ from their checksums": damage.named("vectors"),
        "differ from the index": listed(differing, len(differing)),
    }
    named = ". ".join(f"{fault}: {names}" for fault, names in faults.items() if names)
    return _check(f"documents of {state.name}", not named, named or "as written and as indexed")


def _rows_check(name: str, kind: str, damage: Damage) -> dict[str, Any]:
    return _written_check(f"{kind} of {name}", kind, damage)


def _written_check(name: str, kind: str, damage: Damage) -> dict[str, Any]:
    """Return the check that the rows of a kind are as they were written."""
    named = damage.named(kind)
    return _check(name, not named, f"differ from their checksums: {named}" if named else "as written")


def _rights(directory: Path) -> dict[str, Any]:
    """Return the check of the rights on the data directory. Wider rights are named, and are no failure."""
    mode = directory.stat().st_mode & 0o777
    advice = f"; other users have rights, which chmod 700 {directory} takes away" if mode & 0o077 else ""
    return _check("rights", True, f"{mode:o}{advice}")


def _repaired(runtime: Runtime, state: CollectionState, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mend what can be mended of a collection; return a check of each repair."""
    mended = []
    failed = {check["name"] for check in found if not check["ok"]}
    if failed & {f"index of {state.name}", f"keys of {state.name}"}:
        state.behind = True
        healed = state.heal(rebuild=True)
        mended.append(_check(f"repair of the index of {state.name}", healed, "rebuilt from the database"))
    if state.missing_changes:
        detail = f"{state.missing_changes} changes are lost; they are reported no longer"
        runtime.accept_missing_changes(state)
        mended.append(_check(f"repair of the changes of {state.name}", True, detail))
    return mended


def _encoder_check(runtime: Runtime) -> dict[str, Any]:
    """Encode a text as a document: a start does not read the files for documents."""
    encoder = runtime.encoder
    described = f"{runtime.settings.encoder}, fingerprint {encoder.fingerprint[:12]}, {encoder.precision}"
    try:
        encoder.encode(["text"])
    except Exception as error:  # a runtime, a library, a file or the disk
        return _check("encoder", False, f"{described}; no document can be encoded: {type(error).__name__}: {error}")
    return _check("encoder", True, described)


def _check(name: str, ok: bool, detail: str) -> dict[str, Any]:
    return {"name": name, "ok": ok, "detail": detail}


def _keys_are_intact(state: CollectionState) -> bool:
    generation = state.generation
    try:
        generation.key_guard.check_all(generation.keys)
        generation.value_guard.check_all(generation.values)
    except DamagedKeys:
        return False
    return True


def _model_is_intact(connection: Connection, state: CollectionState, number: int) -> bool:
    try:
        load_version(connection, state.id, state.initial, number)
    except DamagedFile:
        return False
    return True
