"""Makes a snapshot of a running service: copies the database, packs the copy, and renames.

Everything is written to a folder of its own, synced, and renamed in one step: a file with the name of a snapshot is
whole. The next start deletes what a killed process left.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from index.errors import DamagedFile
from index.storage.files import check_files, sync_directory, write_atomically
from service.http.problems import Problem
from service.runtime.model_repository import model_files
from service.runtime.runtime import Runtime
from service.snapshots.archive import ArchiveWriter, check_bytes
from service.snapshots.state import state_hash
from service.snapshots.state_repository import revision_of, table_count, trained_models
from service.snapshots.stored import CHECKSUM, SUFFIX, WORKING, name_of, snapshots_directory
from service.storage.copying import copy_database, opened_copy, pause
from service.storage.database import DATABASE_FILE, new_id, rfc3339

SPARE_BYTES = 64 * 1024 * 1024
"""Bytes that stay free on the disk beside a snapshot."""
COUNTED = {"collections": "collections", "documents": "documents", "models": "models", "events": "events"} | {
    "judgments": "judgments"
}
"""Name of a count -> its table."""
Reached = Callable[[str], None]
"""Called with the name of each finished step. Tests end the work there."""


@dataclass(frozen=True)
class Maker:
    """What makes a snapshot, and who hears of its progress."""

    runtime: Runtime
    scheduled: bool
    advance: Callable[[int], None]
    """Called with the bytes of each finished part. An error that it raises ends the work."""
    reached: Reached = lambda _step: None


def bytes_needed(runtime: Runtime) -> int:
    """Return the bytes that a snapshot needs on the disk while it is made: the database twice."""
    database = sum(path.stat().st_size for path in runtime.settings.data.glob(f"{DATABASE_FILE}*"))
    return 2 * database + SPARE_BYTES


def require_space(folder: Path, needed: int) -> None:
    """Raise Problem 507 if the disk of a folder has fewer free bytes than needed."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        detail = f"the disk has {free // 2**20} MiB free, and a snapshot needs {needed // 2**20} MiB"
        raise Problem(507, "insufficient_storage", detail)


def make_snapshot(maker: Maker) -> dict[str, Any]:
    """Make a snapshot; return its file, bytes, sha256 and number of documents. Raises Problem 507."""
    runtime, made_at = maker.runtime, datetime.now(UTC)
    folder = snapshots_directory(runtime.settings.data)
    require_space(runtime.settings.data, bytes_needed(runtime))
    working = folder / f"{name_of(made_at, new_id(), maker.scheduled)}{WORKING}"
    working.mkdir(mode=0o700)
    try:
        facts = _write(maker, working, made_at)
        maker.reached("written")
        sha256 = check_bytes(working / "archive")  # reads what was written
        target = folder / f"{working.name.removesuffix(WORKING)}{SUFFIX}"
        _publish(maker, working / "archive", target, sha256)
    finally:
        shutil.rmtree(working, ignore_errors=True)
    size = target.stat().st_size
    file = f"{folder.name}/{target.name}"
    return {"file": file, "bytes": size, "sha256": sha256, "documents": facts["counts"]["documents"]} | {
        "damaged_models": facts["damaged_models"]
    }


def _publish(maker: Maker, archive: Path, target: Path, sha256: str) -> None:
    """Write the file of the checksum, and then give the archive its name: a snapshot without the checksum never is."""
    checksum = target.with_name(target.name + CHECKSUM)
    try:
        write_atomically(checksum, f"{sha256}  {target.name}\n".encode())
        maker.reached("summed")
        os.replace(archive, target)
        sync_directory(target.parent)
    except BaseException:
        for path in (target, checksum):
            with suppress(OSError):
                path.unlink()
        raise
    maker.reached("named")


def _write(maker: Maker, working: Path, made_at: datetime) -> dict[str, Any]:
    """Write the copy of the database and the archive into the working folder; return the facts of the manifest."""
    copy, archive = working / DATABASE_FILE, working / "archive"
    copy_database(maker.runtime.database, copy, lambda _done, _total: maker.advance(0))
    maker.reached("copied")
    with (
        opened_copy(copy) as connection,
        os.fdopen(os.open(archive, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file,
    ):
        writer = ArchiveWriter(file, int(made_at.timestamp()), maker.advance)
        writer.add(DATABASE_FILE, copy)
        facts = _facts(maker, connection, made_at)
        writer.finish(facts)
        file.flush()
        os.fsync(file.fileno())
    copy.unlink()
    return facts


def _facts(maker: Maker, connection: Connection, made_at: datetime) -> dict[str, Any]:
    encoder = maker.runtime.encoder

    def rest() -> None:
        maker.advance(0)
        pause()  # searches get their turn

    return {
        "made_at": rfc3339(made_at),
        "softseek": version("softseek"),
        "schema": revision_of(connection),
        "encoder": {"model": Path(maker.runtime.settings.encoder).name, "precision": encoder.precision},
        "counts": {name: table_count(connection, table) for name, table in COUNTED.items()},
        "state": state_hash(connection, rest).as_json(),
        "damaged_models": _damaged_models(connection),
    }


def _damaged_models(connection: Connection) -> list[str]:
    """Return collection and version of every model whose files are damaged. It does not prevent a snapshot."""
    damaged = []
    for collection_id, number in trained_models(connection):
        try:
            check_files(model_files(connection, collection_id, number))
        except DamagedFile:
            damaged.append(f"{collection_id}/{number}")
    return damaged
