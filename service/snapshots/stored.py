"""The snapshots of a data directory: their names, their list, and the deletion of old ones.

A snapshot is named by its time and a random part. No name comes from a request.
"""

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from index.errors import DamagedFile
from index.storage.files import DRAFT, sync_directory
from service.snapshots.archive import read_manifest
from service.storage.database import is_ahead, rfc3339

FOLDER = "snapshots"
PREFIX, SUFFIX, WORKING, CHECKSUM = "softseek-", ".tar", ".working", ".sha256"
SCHEDULED = "-scheduled"
"""The end of the ids of snapshots that the schedule made."""
TIME = "%Y%m%dT%H%M%SZ"
ID = rf"[0-9]{{8}}T[0-9]{{6}}Z-[0-9a-f]{{12}}(?:{SCHEDULED})?"
NAME = re.compile(rf"{PREFIX}({ID})\{SUFFIX}")


@dataclass(frozen=True)
class Stored:
    """A snapshot in the data directory."""

    id: str
    path: Path

    @property
    def made_at(self) -> str:
        """The time in its name, RFC 3339 in UTC."""
        return rfc3339(datetime.strptime(self.id.partition("-")[0], TIME).replace(tzinfo=UTC))

    @property
    def scheduled(self) -> bool:
        """Whether the schedule made it."""
        return is_scheduled(self.path.name)

    def facts(self) -> dict[str, Any]:
        """Return the manifest, {} if it is not readable."""
        try:
            return read_manifest(self.path)
        except (DamagedFile, OSError):
            return {}

    def as_json(self) -> dict[str, Any]:
        """Return the snapshot as JSON."""
        facts = self.facts()
        return {
            "id": self.id,
            "file": f"{FOLDER}/{self.path.name}",
            "bytes": self.path.stat().st_size,
            "sha256": self._sha256(),
            "documents": facts.get("counts", {}).get("documents"),
            "state": facts.get("state", {}).get("sha256"),
            "scheduled": self.scheduled,
            "created_at": self.made_at,
        }

    def delete(self) -> None:
        """Delete the file and the file of its checksum, durably."""
        self.path.with_name(self.path.name + CHECKSUM).unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)
        sync_directory(self.path.parent)

    def _sha256(self) -> str | None:
        try:
            return self.path.with_name(self.path.name + CHECKSUM).read_text(encoding="ascii")[:64]
        except OSError:
            return None


def snapshots_directory(data: Path) -> Path:
    """Return the folder of the snapshots of a data directory. It is created durably, readable by this user only."""
    folder = data / FOLDER
    if not folder.is_dir():
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_directory(data)
    return folder


def is_scheduled(file: str) -> bool:
    """Return whether the schedule made the snapshot with this name of a file, or path."""
    return file.endswith(f"{SCHEDULED}{SUFFIX}")


def name_of(made_at: datetime, unique: str, scheduled: bool) -> str:
    """Return the name of a new snapshot, without its suffix, from its time and a UUID."""
    return f"{PREFIX}{made_at.strftime(TIME)}-{unique[-12:]}{SCHEDULED if scheduled else ''}"


def stored_snapshots(data: Path) -> list[Stored]:
    """Return the snapshots of a data directory, newest first."""
    found = ((NAME.fullmatch(path.name), path) for path in snapshots_directory(data).iterdir() if path.is_file())
    return sorted((Stored(match[1], path) for match, path in found if match), key=lambda one: one.id, reverse=True)


def newest_by_clock(snapshots: Sequence[Stored], moment: datetime) -> list[Stored]:
    """Return snapshots, newest first, and after them those whose time lies ahead of the clock."""
    return sorted(snapshots, key=lambda one: is_ahead(one.made_at, moment))


def delete_unfinished(data: Path) -> None:
    """Delete what an earlier process did not finish: folders of snapshots, half checksums, checksums without a file."""
    for path in snapshots_directory(data).iterdir():
        if path.name.endswith(WORKING):
            shutil.rmtree(path, ignore_errors=True)
            continue
        is_half = path.name.endswith(SUFFIX + CHECKSUM + DRAFT)
        is_sum = path.name.endswith(SUFFIX + CHECKSUM)
        if is_half or (is_sum and not path.with_name(path.name.removesuffix(CHECKSUM)).is_file()):
            path.unlink(missing_ok=True)
