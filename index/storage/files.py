"""Atomic file writes (temporary file, fsync, rename) and directory manifests with the sha256 of each file.

Neither faiss nor safetensors syncs or renames, and both load many damaged files without an error
(docs/operations.md). Every derived file is therefore described by a manifest and verified before a library opens it.
"""

import hashlib
import json
import os
from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from index.errors import DamagedFile

MANIFEST = "manifest.json"
DRAFT = ".tmp"
"""The end of the name of a file that is being written."""


def sha256_file(path: Path) -> str:
    """Return the sha256 of the file's bytes in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_directory(path: Path) -> None:
    """Make new and renamed entries of the directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_durable_directory(path: Path) -> None:
    """Make a directory with its parents, where they are missing, and make their entries durable."""
    if path.is_dir():
        return
    make_durable_directory(path.parent)
    path.mkdir(exist_ok=True)
    sync_directory(path.parent)


def sync_file(path: Path) -> None:
    """Make the bytes of the file durable."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def write_at(descriptor: int, data: memoryview, offset: int) -> None:
    """Write all of the data from an offset of a file on. Raises OSError, such as for a full disk."""
    while len(data):
        written = os.pwrite(descriptor, data, offset)
        data, offset = data[written:], offset + written


def write_atomically(path: Path, data: bytes) -> None:
    """Write the file atomically: temporary file, fsync, rename, fsync of the directory.

    A temporary file that cannot be written is deleted.
    """
    temporary = path.with_name(path.name + DRAFT)
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_directory(path.parent)


def write_manifest(
    directory: Path, names: Iterable[str], facts: Mapping[str, Any], with_own_checksums: Iterable[str] = ()
) -> None:
    """Write the manifest of a directory: the facts, and the size and sha256 of each named file.

    with_own_checksums names files whose parts have checksums elsewhere. They are not read: the manifest has their size,
    and null as sha256. The manifest is written last, so a directory with a manifest is complete.
    """
    files: dict[str, dict[str, Any]] = {}
    for name in sorted(names):
        sync_file(directory / name)
        files[name] = {"bytes": (directory / name).stat().st_size, "sha256": sha256_file(directory / name)}
    for name in with_own_checksums:
        files[name] = {"bytes": (directory / name).stat().st_size, "sha256": None}
    write_atomically(directory / MANIFEST, _body({**facts, "files": files}))


def manifest_of(files: Mapping[str, bytes], facts: Mapping[str, Any]) -> bytes:
    """Return the manifest of files in memory (name -> bytes), as `write_manifest` writes it."""
    described = {
        name: {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()} for name, body in sorted(files.items())
    }
    return _body({**facts, "files": described})


def read_manifest(directory: Path, later: Container[str] = ()) -> dict[str, Any]:
    """Return the manifest after checking every file that it names.

    later: files of which only the size is checked; the caller that reads them calls `is_intact` first. Raises
    DamagedFile if the manifest is missing, unreadable or differs from its own checksum, or if the size or sha256 of a
    file differs.
    """
    try:
        manifest = _parsed((directory / MANIFEST).read_bytes())
    except OSError as error:
        raise DamagedFile(f"{directory.name}: no readable manifest") from error
    except DamagedFile as error:
        raise DamagedFile(f"{directory.name}: {error}") from error
    for name, facts in manifest["files"].items():
        if not is_intact(directory / name, facts | {"sha256": None} if name in later else facts):
            raise DamagedFile(f"{directory.name}/{name} differs from its manifest")
    return manifest


def read_files(directory: Path) -> dict[str, bytes]:
    """Return the files that a manifest names, and the manifest: name -> bytes. Raises DamagedFile."""
    try:
        names = [*read_manifest(directory)["files"], MANIFEST]
        return {name: (directory / name).read_bytes() for name in names}
    except OSError as error:
        raise DamagedFile(f"{directory.name}: a file cannot be read") from error


def check_files(files: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the manifest among files in memory (name -> bytes) after checking every file that it names.

    Raises DamagedFile as `read_manifest` does.
    """
    manifest = _parsed(files.get(MANIFEST, b""))
    for name, facts in manifest["files"].items():
        body = files.get(name, b"")
        if len(body) != facts["bytes"] or hashlib.sha256(body).hexdigest() != facts["sha256"]:
            raise DamagedFile(f"{name} differs from its manifest")
    return manifest


def _body(manifest: Mapping[str, Any]) -> bytes:
    return json.dumps({**manifest, "sha256": _digest(manifest)}, indent=1, sort_keys=True).encode()


def _parsed(body: bytes) -> dict[str, Any]:
    """Return a manifest without its own checksum. Raises DamagedFile."""
    try:
        manifest: dict[str, Any] = json.loads(body)
        if manifest.pop("sha256") != _digest(manifest):
            raise ValueError("the manifest differs from its own checksum")
        if not all({"bytes", "sha256"} <= facts.keys() for facts in manifest["files"].values()):
            raise KeyError("files")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedFile("no readable manifest") from error
    return manifest


def is_intact(path: Path, facts: Mapping[str, Any]) -> bool:
    """Return whether a file is as its manifest says. facts: its `bytes` and `sha256`; null is not compared."""
    if not path.is_file() or path.stat().st_size != facts["bytes"]:
        return False
    return facts["sha256"] is None or sha256_file(path) == facts["sha256"]


def _digest(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
