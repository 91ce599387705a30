"""A kill at any write of a snapshot leaves no half snapshot that is accepted; of a restore, nothing or all of it.

The data that the snapshot is made of are compared by `test_kills_and_power_cuts.py`, for the same workload.
"""

from pathlib import Path
from shutil import rmtree

import pytest

from index.errors import DamagedFile
from service.snapshots.restoring import restore, verify
from service.snapshots.state import state_hash
from service.snapshots.stored import FOLDER, delete_unfinished, stored_snapshots
from service.storage.copying import opened_copy
from service.storage.database import DATABASE_FILE
from tests.faults.disk import Disk, written
from tests.faults.replay import Image, Point, kills
from tests.faults.sqlite_vfs import find_library
from tests.faults.tally import SOAK, tell
from tests.faults.workloads import Recording, record, restored, snapshot

pytestmark = [
    pytest.mark.sqlite,
    pytest.mark.skipif(find_library() is None, reason="this Python hides the functions of its SQLite"),
]
EACH = 1 if SOAK else 23
"""Every point whose number is a multiple of this is checked."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recording, Path]:
    """The recording of a service that makes snapshots, and the folder with its end."""
    recording = record(snapshot, tmp_path_factory.mktemp("snapshots") / "data")
    return recording, written(last(recording), tmp_path_factory.mktemp("whole"))


def last(recording: Recording) -> Image:
    """Return what is on the disk after all steps."""
    disk = Disk()
    for step in recording.steps:
        if step.is_change:
            disk.apply(step)
    return disk.image()


def accepted(file: Path) -> str | None:
    """Return the state hash of a file that is accepted as a snapshot; None if it is refused."""
    try:
        return str(verify(file)["state"])
    except DamagedFile:
        return None


def half_snapshot(point: Point, states: set[str], data: Path) -> str | None:
    """Return which file is listed or accepted as a snapshot at a point and is none; None if there is no such file."""
    rmtree(data, ignore_errors=True)
    written(point.image, data, [path for path in point.image if path.startswith(FOLDER)])
    (data / FOLDER).mkdir(parents=True, exist_ok=True)
    listed = [one.path for one in stored_snapshots(data)]
    for file in (path for path in (data / FOLDER).rglob("*") if path.is_file() and path.suffix != ".sha256"):
        state = accepted(file)
        if (file in listed and state is None) or state not in (None, *states):
            return f"{point.kind} before step {point.number}: {file.name} is accepted or listed, and has {state}"
    delete_unfinished(data)
    left = [path for path in (data / FOLDER).iterdir() if path.suffix == ".tar" and path not in listed]
    left += [path for path in (data / FOLDER).iterdir() if path.suffix not in (".tar", ".sha256")]
    return f"{point.kind} before step {point.number}: {left} are left after a start" if left else None


def half_restore(point: Point, file: Path, state: str, end: Image, root: Path) -> str | None:
    """Return what is wrong with the restored directory at a point: it is not there and can be restored, or whole."""
    rmtree(root, ignore_errors=True)
    written(point.image, root)
    data = root / "data"
    if not data.exists():
        restore(file, data)
    elif (found := {path for path in point.image if path.startswith("data")}) != set(end):
        return f"{point.kind} before step {point.number}: the directory has {sorted(found)} of {sorted(end)}"
    with opened_copy(data / DATABASE_FILE) as connection:
        found_state = state_hash(connection).sha256
    return None if found_state == state else f"{point.kind} before step {point.number}: the content differs"


def test_a_kill_leaves_no_half_snapshot(made: tuple[Recording, Path], tmp_path: Path) -> None:
    recording, whole = made
    states = {accepted(one.path) for one in stored_snapshots(whole)}
    assert len(states) == 2
    assert None not in states
    known = {state for state in states if state is not None}
    points = kills(recording, lambda number: number % EACH == 0)
    found = [tell("kill: files of a snapshot", half_snapshot(one, known, tmp_path / "data")) for _, one in points]
    assert [loss for loss in found if loss is not None] == []


def test_a_kill_leaves_no_half_restored_directory(made: tuple[Recording, Path], tmp_path: Path) -> None:
    _, whole = made
    file = stored_snapshots(whole)[0].path
    recording = restored(file, tmp_path / "first")
    end = {path: content for path, content in last(recording).items() if path.startswith("data")}
    state = accepted(file)
    assert state is not None
    assert f"data/{DATABASE_FILE}" in end
    points = kills(recording, lambda number: number % (1 if SOAK else 2) == 0)
    found = [tell("kill: restore", half_restore(one, file, state, end, tmp_path / "root")) for _, one in points]
    assert len(found) > 15
    assert [loss for loss in found if loss is not None] == []
