"""Schemas of answers about snapshots."""

from service.http.answers import Answer, example

SNAPSHOT = {
    "id": "20260920T100000Z-0123456789ab",
    "file": "snapshots/softseek-20260920T100000Z-0123456789ab.tar",
    "bytes": 1048576,
    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "documents": 3,
    "state": "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752",
    "scheduled": False,
    "created_at": "2026-09-20T10:00:00.000Z",
}


class Snapshot(Answer):
    """A snapshot in the data directory."""

    model_config = example(**SNAPSHOT)

    id: str
    """The id: the time, and a random part."""
    file: str
    """The file, relative to the data directory."""
    bytes: int
    """The size of the file."""
    sha256: str | None
    """The sha256 of the file, null if the file beside it that has the sha256 is missing."""
    documents: int | None
    """The number of documents, null if the manifest is not readable."""
    state: str | None
    """The hash of the content of the database, null if the manifest is not readable."""
    scheduled: bool
    """Whether the schedule made the snapshot."""
    created_at: str
    """The time, RFC 3339 in UTC."""


class SnapshotSchedule(Answer):
    """When snapshots are made by themselves."""

    model_config = example(every_hours=24.0, keep=7)

    every_hours: float | None
    """The setting `snapshot_every_hours`; null means never."""
    keep: int
    """The setting `snapshot_keep`: the number of scheduled snapshots that are kept."""


class SnapshotFailure(Answer):
    """The last snapshot failed."""

    model_config = example(
        code="insufficient_storage",
        detail="the disk has 90 MiB free, and a snapshot needs 120 MiB",
        finished_at="2026-09-20T10:00:00.000Z",
    )

    code: str
    """The stable name of the error."""
    detail: str
    """What went wrong."""
    finished_at: str | None
    """The time of the failure."""


class SnapshotList(Answer):
    """The snapshots, newest first, and the schedule."""

    model_config = example(snapshots=[SNAPSHOT], schedule={"every_hours": 24.0, "keep": 7}, last_failure=None)

    snapshots: list[Snapshot]
    """The snapshots, newest first."""
    schedule: SnapshotSchedule
    """When snapshots are made by themselves."""
    last_failure: SnapshotFailure | None
    """Why the last attempt failed; null if a newer snapshot exists, or no attempt failed."""
