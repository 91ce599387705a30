"""Files that are whole or not there: written aside, synced, renamed, and described by a manifest of checksums.

Neither faiss nor safetensors syncs or renames, and both load many damaged files without an error
(docs/operations.md), so every derived file goes through here and is verified before a library may open it.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from index.errors import DamagedFile

MANIFEST = "manifest.json"


def sha256_file(path: Path) -> str:
    """Return the hex sha256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_directory(path: Path) -> None:
    """Make renames and new names in this directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """Make the bytes that a library wrote to this file durable."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def write_atomically(path: Path, data: bytes) -> None:
    """Write the file whole or not at all: temporary name, fsync, rename, fsync of the directory."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_directory(path.parent)


def write_manifest(
    directory: Path, names: Iterable[str], facts: Mapping[str, Any], with_own_checksums: Iterable[str] = ()
) -> None:
    """Describe the named files of a directory: size and sha256 of each, and the facts given.

    Files whose parts have checksums elsewhere are not read: their size alone is told, and sha256 is null. The
    manifest is written last, so a directory with a manifest is complete.
    """
    files: dict[str, dict[str, Any]] = {}
    for name in sorted(names):
        sync_file(directory / name)
        files[name] = {"bytes": (directory / name).stat().st_size, "sha256": sha256_file(directory / name)}
    for name in with_own_checksums:
        files[name] = {"bytes": (directory / name).stat().st_size, "sha256": None}
    manifest = {**facts, "files": files}
    body = json.dumps({**manifest, "sha256": _digest(manifest)}, indent=1, sort_keys=True).encode()
    write_atomically(directory / MANIFEST, body)


def read_manifest(directory: Path) -> dict[str, Any]:
    """Return the manifest after checking every file that it names.

    Raises DamagedFile when the manifest is missing, unreadable or not as it was written, or a file's size or sha256
    differs.
    """
    try:
        manifest: dict[str, Any] = json.loads((directory / MANIFEST).read_bytes())
        if manifest.pop("sha256") != _digest(manifest):
            raise ValueError("the manifest differs from its own checksum")
        expected = manifest["files"].items()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedFile(f"{directory.name}: no readable manifest") from error
    for name, facts in expected:
        if not _agrees(directory / name, facts):
            raise DamagedFile(f"{directory.name}/{name} differs from its manifest")
    return manifest


def _agrees(path: Path, facts: Mapping[str, Any]) -> bool:
    if not path.is_file() or path.stat().st_size != facts["bytes"]:
        return False
    return facts["sha256"] is None or sha256_file(path) == facts["sha256"]


def _digest(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
