"""A restore into a mount point, such as the volume of a container, and files that this user may not write."""

import os
import shutil
from pathlib import Path

import pytest

from service.runtime.first_start import RestoreUnfinished
from service.snapshots import restoring
from service.snapshots.restoring import NotRestorable, restore, verify
from service.storage.database import UnsuitableDatabase
from tests.service.test_snapshot_files import data, file, running, state_of

__all__ = ["data", "file"]


@pytest.fixture
def mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that counts as a mount point, which cannot be renamed."""
    target = tmp_path / "volume"
    target.mkdir()
    (target / "lost+found").mkdir()
    monkeypatch.setattr(restoring, "is_mount_point", lambda path: path == target)
    return target


def test_an_empty_mount_point_is_restored_into(file: Path, mount: Path) -> None:
    assert restore(file, mount)["state"] == verify(file)["state"]
    assert sorted(path.name for path in mount.iterdir()) == ["lost+found", "owner.lock", "softseek.db"]
    with running(mount) as runtime:
        assert state_of(runtime).sha256 == verify(file)["state"]
    with pytest.raises(NotRestorable, match="not an empty directory"):
        restore(file, mount)


def test_a_killed_restore_into_a_mount_point_is_repeated_and_no_service_starts(
    file: Path, mount: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.rename

    class Killed(BaseException):
        pass

    for moves in (0, 1):
        with monkeypatch.context() as patched:
            patched.setattr(shutil, "rmtree", lambda *_arguments, **_more: None)  # a killed process deletes nothing
            patched.setattr("service.snapshots.restoring._delete_moved", lambda *_arguments: None)
            left = [moves]

            def kill(source: Path, target: Path, left: list[int] = left) -> None:
                if not left[0]:
                    raise Killed
                left[0] -= 1
                rename(source, target)

            patched.setattr(os, "rename", kill)
            patched.setattr(Path, "rmdir", lambda _path: (_ for _ in ()).throw(Killed()))
            with pytest.raises(Killed):
                restore(file, mount)
        assert (mount / "softseek.db").exists() == bool(moves)
        with pytest.raises(RestoreUnfinished, match="run `softseek snapshot restore` again"), running(mount):
            pass
    restore(file, mount)
    with running(mount) as runtime:
        assert state_of(runtime).sha256 == verify(file)["state"]


def test_a_file_that_another_user_owns_is_named_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(tmp_path / "data"):
        pass
    denied = tmp_path / "data" / "softseek.db"
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != denied and access(path, mode))
    with pytest.raises(UnsuitableDatabase, match=f"{denied} cannot be read and written"), running(tmp_path / "data"):
        pass


def test_a_database_that_came_meanwhile_is_not_deleted(
    file: Path, mount: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = restoring.check_bytes

    def check_and_serve(path: Path, advance: restoring.Advance) -> str:
        with running(mount):
            pass
        return check(path, advance)

    monkeypatch.setattr(restoring, "check_bytes", check_and_serve)
    with pytest.raises(NotRestorable, match="not an empty directory"):
        restore(file, mount)
    assert (mount / "softseek.db").exists()


def test_a_folder_that_is_mounted_from_the_same_file_system_is_a_mount_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    table = tmp_path / "mountinfo"
    table.write_text(f"1 2 0:3 / {str(folder).replace(' ', chr(92) + '040')} rw - ext4 /dev/sda rw\n")
    monkeypatch.setattr(restoring, "MOUNTS", table)
    assert restoring.is_mount_point(folder)
    assert not restoring.is_mount_point(tmp_path)
