"""Verifies snapshots, and restores them into an empty data directory. No service runs on the directory meanwhile.

A restore unpacks into a folder beside the target, verifies there, and renames the folder in one step: a process that is
killed leaves nothing, or the whole directory. The next restore deletes what a killed process left.

A mount point, such as the volume of a container, cannot be renamed. There the folder is in the target, and its members
are moved out of it, the database last. No service starts in a directory where a restore has not ended.
"""

import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from index.errors import DamagedFile, SearchError
from index.storage.files import sync_directory
from index.storage.full_disk import is_full, lacks_space
from service.snapshots.archive import FORMAT, Advance, check_bytes, ignore, read_manifest, unpack
from service.snapshots.repository import key_count
from service.snapshots.state import state_hash
from service.storage.copying import opened_copy
from service.storage.database import DATABASE_FILE, NEWEST_REVISION, RESTORING
from service.storage.dialects import integrity
from service.storage.owner_lock import LOCK_FILE, OwnerLock
from service.storage.sqlite_database import SqliteDatabase

MODELS = "models"
"""The folder of models in snapshots of schemas before 0012."""
OF_A_MOUNT = {"lost+found", LOCK_FILE, RESTORING}
"""What an empty mount point may have."""
MOUNTS = Path("/proc/self/mountinfo")
SPARE_BYTES = 64 * 1024 * 1024


class NotRestorable(SearchError):
    """The snapshot cannot be restored here: the target, the disk or the version of the snapshot is unsuitable."""


def verify(path: Path, scratch: Path | None = None, advance: Advance = ignore) -> dict[str, Any]:
    """Return what a snapshot contains, after every check. It is unpacked into a temporary folder in `scratch`.

    `state` is the state hash of the snapshot as it is. `upgraded_state` is the state hash of a restored directory after
    this version has upgraded its schema, which adds columns. Raises DamagedFile if a byte differs, and NotRestorable if
    the disk lacks space or a newer version made the file.
    """
    sha256 = check_bytes(path, advance)
    with tempfile.TemporaryDirectory(prefix="softseek-", dir=scratch) as folder:
        manifest = _unpack_checked(path, Path(folder), advance)
        upgraded = _upgraded_state(Path(folder), advance) if _is_earlier(manifest) else manifest["state"]["sha256"]
    return _result(manifest) | {"upgraded_state": upgraded, "bytes": path.stat().st_size, "sha256": sha256}


def restore(
    path: Path, data: Path, advance: Advance = ignore, reached: Callable[[str], None] = lambda _step: None
) -> dict[str, Any]:
    """Make a data directory of a snapshot; return what it contains. Raises DamagedFile, NotRestorable, DirectoryOwned.

    data: a path where nothing is, or an empty directory, which may be a mount point.
    """
    data = data.absolute()
    is_mount = is_mount_point(data)
    unpacked = data / RESTORING if is_mount else data.with_name(data.name + RESTORING)
    _require_empty(data, is_mount)
    sha256 = check_bytes(path, advance)
    data.parent.mkdir(parents=True, exist_ok=True)
    lock = OwnerLock(data if is_mount else unpacked)  # no second restore and no service uses the folder
    begun = not is_mount
    try:
        _require_empty(data, is_mount)  # a service may have begun to use it meanwhile
        begun = True
        if is_mount and unpacked.exists():
            _delete_moved(data)
        unpacked.mkdir(mode=0o700, exist_ok=True)
        _empty(unpacked)
        reached("prepared")
        manifest = _unpack_checked(path, unpacked, advance)
        reached("unpacked")
        for folder in (*(one for one in unpacked.rglob("*") if one.is_dir()), unpacked):
            sync_directory(folder)
        _require_empty(data, is_mount)
        try:
            _move_into_place(unpacked, data, is_mount)
        except OSError as error:
            raise NotRestorable(f"the unpacked directory cannot be moved into place: {error.strerror}") from error
        reached("renamed")
        sync_directory(data if is_mount else data.parent)
    except BaseException:
        with suppress(OSError):
            if begun and is_mount:
                _delete_moved(data)
            if begun:
                shutil.rmtree(unpacked)
        raise
    finally:
        lock.release()
    return _result(manifest) | {"bytes": path.stat().st_size, "sha256": sha256}


def _unpack_checked(path: Path, folder: Path, advance: Advance) -> dict[str, Any]:
    """Unpack a snapshot whose bytes are as written, and check the database; return the manifest with `keys`."""
    _require_known_version(read_manifest(path))
    needed, free = path.stat().st_size + SPARE_BYTES, shutil.disk_usage(folder).free
    if free < needed:
        raise NotRestorable(f"the disk has {free // 2**20} MiB free, and the snapshot needs {needed // 2**20} MiB")
    manifest = unpack(path, folder, advance)
    try:
        with opened_copy(folder / DATABASE_FILE) as connection:
            found = integrity(connection)
            if found != "ok":
                raise DamagedFile("the database of the snapshot does not pass SQLite's integrity check")
            state = state_hash(connection, lambda: advance(0)).sha256
            expected = manifest["state"]["sha256"]
            manifest["keys"] = key_count(connection)
    except (SQLAlchemyError, LookupError) as error:
        raise DamagedFile("the database of the snapshot is not readable") from error
    if state != expected:
        raise DamagedFile("the content of the database differs from the state hash of the snapshot")
    return manifest


def _require_known_version(manifest: dict[str, Any]) -> None:
    schema = str(manifest.get("schema", ""))
    if manifest["format"] != FORMAT or schema > NEWEST_REVISION:
        maker = str(manifest.get("softseek", "unknown"))
        raise NotRestorable(f"a newer version of Softseek ({maker}) made the snapshot; use that version")


def _is_earlier(manifest: dict[str, Any]) -> bool:
    return str(manifest["schema"]) < NEWEST_REVISION


def _upgraded_state(folder: Path, advance: Advance) -> str:
    """Upgrade an unpacked database; return its state hash. Raises DamagedFile if it cannot be upgraded."""
    database = SqliteDatabase(folder / DATABASE_FILE)
    try:
        database.migrate()
        with database.read() as connection:
            return state_hash(connection, lambda: advance(0)).sha256
    except (SQLAlchemyError, LookupError, ValueError, OSError) as error:
        if is_full(error) or lacks_space(folder):
            raise NotRestorable("the disk has too little space to upgrade the unpacked database") from error
        raise DamagedFile("the database of the snapshot cannot be upgraded to the schema of this version") from error
    finally:
        database.close()


def _require_empty(data: Path, is_mount: bool) -> None:
    """Raise NotRestorable if something is at a path. A mount point may have what a killed restore left there."""
    there = {path.name for path in data.iterdir()} if data.is_dir() else set()
    if is_mount:
        there -= OF_A_MOUNT | ({MODELS, DATABASE_FILE} if RESTORING in there else set())
    if there or data.is_symlink() or (data.exists() and not data.is_dir()):
        raise NotRestorable(f"{data} is not an empty directory; restore into a new one")


def _move_into_place(unpacked: Path, data: Path, is_mount: bool) -> None:
    if not is_mount:
        os.rename(unpacked, data)
        return
    for member in sorted(unpacked.iterdir(), key=lambda path: path.name == DATABASE_FILE):
        os.rename(member, data / member.name)
    sync_directory(data)
    unpacked.rmdir()


def _delete_moved(data: Path) -> None:
    """Delete what a restore that did not end has moved into a mount point."""
    for name in (MODELS, DATABASE_FILE):
        _delete(data / name)


def is_mount_point(path: Path) -> bool:
    """Return whether something is mounted at a path, also a folder of the same file system (Linux)."""
    if os.path.ismount(path):
        return True
    with suppress(OSError):
        lines = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        mounted = {line.split(" ")[4] for line in lines}
        return str(path.resolve()).replace(" ", "\\040") in mounted
    return False


def _empty(folder: Path) -> None:
    """Delete what an earlier restore left in a folder."""
    for path in folder.iterdir():
        if path.name != LOCK_FILE:
            _delete(path)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _result(manifest: dict[str, Any]) -> dict[str, Any]:
    names = ("made_at", "softseek", "schema", "encoder", "counts", "damaged_models", "keys")
    return {name: manifest[name] for name in names} | {
        "documents": manifest["counts"]["documents"],
        "state": manifest["state"]["sha256"],
    }
