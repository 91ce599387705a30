"""Makes a snapshot of a running service: copies the database, adds the models that the copy names, and renames.

Everything is written to a folder of its own, synced, and renamed in one step: a file with the name of a snapshot is
whole. The next start deletes what a killed process left.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from index.errors import DamagedFile
from index.storage.files import read_manifest as read_model
from index.storage.files import sync_directory, write_atomically
from service.http.problems import Problem
from service.runtime.model_files import model_directory
from service.runtime.runtime import Runtime
from service.snapshots.archive import ArchiveWriter, check_bytes
from service.snapshots.state import state_hash
from service.snapshots.state_repository import revision_of, table_count, trained_models
from service.snapshots.stored import CHECKSUM, SUFFIX, WORKING, name_of, snapshots_directory
from service.storage.copying import copy_database, opened_copy, pause
from service.storage.database import DATABASE_FILE, new_id, rfc3339

SPARE_BYTES = 64 * 1024 * 1024
"""Bytes that stay free on the disk beside a snapshot."""
TRIES = 3
"""Copies of the database, at most: a collection that is deleted meanwhile takes its models with it."""
COUNTED = {"collections": "collections", "documents": "documents", "models": "models", "events": "events"} | {
    "judgments": "judgments"
}
"""Name of a count -> its table."""
Reached = Callable[[str], None]
"""Called with the name of each finished step. Tests end the work there."""


class ModelsGone(Exception):
    """A collection and its models were deleted while its snapshot was made."""


@dataclass(frozen=True)
class Maker:
    """What makes a snapshot, and who hears of its progress."""

    runtime: Runtime
    scheduled: bool
    advance: Callable[[int], None]
    """Called with the bytes of each finished part. An error that it raises ends the work."""
    reached: Reached = lambda _step: None


def bytes_needed(runtime: Runtime) -> int:
    """Return the bytes that a snapshot needs on the disk while it is made: the database twice, and the models."""
    data = runtime.settings.data
    database = sum(path.stat().st_size for path in data.glob(f"{DATABASE_FILE}*"))
    models = sum(path.stat().st_size for path in (data / "models").rglob("*") if path.is_file())
    return 2 * database + models + SPARE_BYTES


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
        for attempt in range(TRIES):
            try:
                facts = _write(maker, working, made_at)
                break
            except ModelsGone:
                if attempt == TRIES - 1:
                    raise
        maker.reached("written")
        sha256 = check_bytes(working / "archive")  # reads what was written
        target = folder / f"{working.name.removesuffix(WORKING)}{SUFFIX}"
        os.replace(working / "archive", target)
        sync_directory(folder)
    finally:
        shutil.rmtree(working, ignore_errors=True)
    maker.reached("named")
    write_atomically(target.with_name(target.name + CHECKSUM), f"{sha256}  {target.name}\n".encode())
    maker.reached("summed")
    size = target.stat().st_size
    file = f"{folder.name}/{target.name}"
    return {"file": file, "bytes": size, "sha256": sha256, "documents": facts["counts"]["documents"]} | {
        "damaged_models": facts["damaged_models"]
    }


def _write(maker: Maker, working: Path, made_at: datetime) -> dict[str, Any]:
    """Write the copy of the database and the archive into the working folder; return the facts of the manifest."""
    copy, archive = working / DATABASE_FILE, working / "archive"
    for leftover in (copy, archive):
        leftover.unlink(missing_ok=True)
    copy_database(maker.runtime.database, copy, lambda _done, _total: maker.advance(0))
    maker.reached("copied")
    with (
        opened_copy(copy) as connection,
        os.fdopen(os.open(archive, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file,
    ):
        writer = ArchiveWriter(file, int(made_at.timestamp()), maker.advance)
        writer.add(DATABASE_FILE, copy)
        facts = _facts(maker, connection, made_at)
        facts["damaged_models"] = _add_models(maker.runtime, connection, writer)
        maker.reached("models")
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
    }


def _add_models(runtime: Runtime, connection: Connection, writer: ArchiveWriter) -> list[str]:
    """Add the files of every model that the copy names; return the models whose files are damaged.

    A damaged model does not prevent a snapshot of the rest. Raises ModelsGone if the collection no longer exists,
    or its files go meanwhile.
    """
    damaged = []
    for collection_id, number in trained_models(connection):
        folder = model_directory(runtime.settings.data, collection_id, number)
        try:
            names = sorted([*read_model(folder)["files"], "manifest.json"])
        except DamagedFile:
            if not _exists(runtime, collection_id):
                raise ModelsGone from None
            damaged.append(f"{collection_id}/{number}")
            continue
        for name in names:
            try:
                writer.add(f"models/{collection_id}/{folder.name}/{name}", folder / name)
            except FileNotFoundError:
                raise ModelsGone from None
    return damaged


def _exists(runtime: Runtime, collection_id: int) -> bool:
    return any(state.id == collection_id for state in list(runtime.collections.values()))
