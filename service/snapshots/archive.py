"""The file of a snapshot: a tar of the database and a manifest, and a last line with its sha256.

`tar -xf` reads it too. The manifest is the last member and has the size and the sha256 of every other member. The last
line has the sha256 of all bytes before it, so that every damaged byte is found: in a member, in a header, in padding.
Members are regular files whose names are in a fixed form. A file with any other member is refused.
"""

import hashlib
import io
import os
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from index.errors import DamagedFile
from service.storage.database import DATABASE_FILE

FORMAT = 1
MANIFEST = "snapshot.json"
MAX_MANIFEST_BYTES = 64 * 1024 * 1024
MEMBER = re.compile(
    rf"{re.escape(DATABASE_FILE)}|models/[0-9]{{1,18}}/[0-9]{{6,18}}/[a-z][a-z0-9_]*\.(json|safetensors)"
)
"""The names of members before the manifest. Snapshots of releases before schema 0012 have the files of models."""
LAST_LINE = re.compile(rb"softseek snapshot sha256 ([0-9a-f]{64})\n")
LAST_LINE_BYTES = len("softseek snapshot sha256 \n") + 64
PART_BYTES = 1024 * 1024
Advance = Callable[[int], None]
"""Called with the bytes of each finished part."""


def ignore(_count: int) -> None:
    """Do nothing with the progress."""


class _Hashed:
    """A file that hashes the bytes that pass through it in order."""

    def __init__(self, file: Any, advance: Advance = ignore) -> None:
        self._file = file
        self._advance = advance
        self.digest = hashlib.sha256()
        self.count = 0

    def write(self, data: Any) -> int:
        self._file.write(data)
        return self._see(data)

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._file.read(size)
        self._see(data)
        return data

    def tell(self) -> int:
        return self.count

    def _see(self, data: Any) -> int:
        self.digest.update(data)
        self.count += len(data)
        self._advance(len(data))
        return len(data)


class ArchiveWriter:
    """Writes a snapshot to an open file."""

    def __init__(
        self, file: BinaryIO, made_at_seconds: int, advance: Advance = ignore, names: re.Pattern[str] = MEMBER
    ) -> None:
        """names: the form of the names of members."""
        self._file, self._names = file, names
        out: Any = _Hashed(file, advance)
        self._out = out
        self._made_at = made_at_seconds
        self._tar = tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT)  # noqa: SIM115
        self.members: dict[str, dict[str, Any]] = {}

    def add(self, name: str, source: Path) -> None:
        """Add a file under a name."""
        assert self._names.fullmatch(name)
        with source.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            hashed: Any = _Hashed(file)
            self._tar.addfile(self._header(name, size), hashed)
        self.members[name] = {"bytes": size, "sha256": hashed.digest.hexdigest()}

    def finish(self, facts: Mapping[str, Any]) -> None:
        """Add the manifest, with these facts, and the last line."""
        body = orjson.dumps({"format": FORMAT, **facts, "members": self.members}, option=orjson.OPT_INDENT_2)
        self._tar.addfile(self._header(MANIFEST, len(body)), io.BytesIO(body))
        self._tar.close()
        self._file.write(b"softseek snapshot sha256 %s\n" % self._out.digest.hexdigest().encode())

    def _header(self, name: str, size: int) -> tarfile.TarInfo:
        header = tarfile.TarInfo(name)
        header.size, header.mode, header.mtime = size, 0o600, self._made_at
        return header


def check_bytes(path: Path, advance: Advance = ignore) -> str:
    """Compare the bytes of a snapshot with its last line; return the sha256 of the whole file. Raises DamagedFile."""
    left = path.stat().st_size - LAST_LINE_BYTES
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while left > 0 and (part := file.read(min(PART_BYTES, left))):
            digest.update(part)
            left -= len(part)
            advance(len(part))
        last = file.read(LAST_LINE_BYTES + 1)
    found = LAST_LINE.fullmatch(last)
    if found is None:
        raise DamagedFile("the file is not a snapshot, or its end is missing")
    if found[1].decode() != digest.hexdigest():
        raise DamagedFile("the bytes of the file differ from the sha256 in its last line")
    digest.update(last)
    return digest.hexdigest()


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the manifest, without a look at the other members. Raises DamagedFile."""
    with _opened(path) as tar:
        for member in tar:
            if member.name == MANIFEST:
                return _manifest(tar, member)
    raise DamagedFile("the file has no manifest")


def unpack(path: Path, folder: Path, advance: Advance = ignore, names: re.Pattern[str] = MEMBER) -> dict[str, Any]:
    """Unpack the members into a folder, durably; return the manifest. names: the form of the names of members.

    Raises DamagedFile for a member with a wrong name, type, size or sha256, and for a member that is missing.
    """
    found: dict[str, dict[str, Any]] = {}
    manifest: dict[str, Any] | None = None
    with _opened(path) as tar:
        for member in tar:
            if manifest is not None or member.type != tarfile.REGTYPE or member.sparse is not None:
                raise DamagedFile("the file has a member that a snapshot does not have")
            if member.name == MANIFEST:
                manifest = _manifest(tar, member)
            elif names.fullmatch(member.name) and member.name not in found:
                found[member.name] = _unpack_member(tar, member, folder / member.name, advance)
            else:
                raise DamagedFile("the file has a member that a snapshot does not have")
    if manifest is None or manifest.get("members") != found or DATABASE_FILE not in found:
        raise DamagedFile("the members of the file differ from its manifest")
    return manifest


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    """Open a tar whose errors are DamagedFile."""
    try:
        with tarfile.open(path, "r:") as tar:
            yield tar
    except (tarfile.TarError, EOFError, OverflowError, ValueError) as error:
        raise DamagedFile("the file is not a whole snapshot") from error


def _manifest(tar: tarfile.TarFile, member: tarfile.TarInfo) -> dict[str, Any]:
    content = tar.extractfile(member)
    try:
        if content is None or member.size > MAX_MANIFEST_BYTES:
            raise ValueError
        found: dict[str, Any] = orjson.loads(content.read())
        if not isinstance(found["format"], int) or not isinstance(found["members"], dict):
            raise TypeError
    except (LookupError, TypeError, ValueError) as error:
        raise DamagedFile("the manifest is not readable") from error
    return found


def _unpack_member(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path, advance: Advance) -> dict[str, Any]:
    source: Any = tar.extractfile(member)
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    hashed = _Hashed(source, advance)
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        while part := hashed.read(PART_BYTES):
            out.write(part)
        out.flush()
        os.fsync(out.fileno())
    return {"bytes": hashed.count, "sha256": hashed.digest.hexdigest()}
