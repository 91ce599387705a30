"""Files are written atomically, and a file that differs from its manifest is found."""

import json
import os
from pathlib import Path

import pytest

from index.errors import DamagedFile
from index.storage.files import MANIFEST, read_manifest, sha256_file, write_atomically, write_manifest

FACTS = {"watermark": 7, "language": "english"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two files, one of them in a subfolder, and their manifest."""
    (tmp_path / "words").mkdir()
    (tmp_path / "keys.npy").write_bytes(b"keys")
    (tmp_path / "words" / "meta.json").write_bytes(b"")
    write_manifest(tmp_path, ["keys.npy", "words/meta.json"], FACTS)
    return tmp_path


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_a_file_is_written_and_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for data in (b"a longer first text", b"short", b""):
        write_atomically(path, data)
        assert path.read_bytes() == data
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file_unchanged_and_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def full_disk(descriptor: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_is_synced_before_the_rename_and_the_folder_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, str]] = []
    fsync, rename = os.fsync, os.replace

    def recorded_fsync(descriptor: int) -> None:
        done.append(("sync", Path(os.readlink(f"/proc/self/fd/{descriptor}")).name))
        fsync(descriptor)

    def recorded_rename(source: Path, target: Path) -> None:
        done.append(("rename", target.name))
        rename(source, target)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, "replace", recorded_rename)
    write_atomically(tmp_path / "file", b"new")
    assert done == [("sync", "file.tmp"), ("rename", "file"), ("sync", tmp_path.name)]


def test_files_are_synced_before_their_manifest_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def recorded_fsync(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        fsync(descriptor)

    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"data")
    monkeypatch.setattr(os, "fsync", recorded_fsync)
    write_manifest(tmp_path, ["b", "a"], FACTS)
    assert synced == ["a", "b", f"{MANIFEST}.tmp", tmp_path.name]


def test_a_manifest_holds_the_facts_and_the_size_and_sha256_of_every_file(folder: Path) -> None:
    manifest = read_manifest(folder)
    assert {name: manifest[name] for name in FACTS} == FACTS
    assert manifest["files"] == {
        name: {"bytes": (folder / name).stat().st_size, "sha256": sha256_file(folder / name)}
        for name in ("keys.npy", "words/meta.json")
    }


def test_the_sha256_of_a_file_is_the_sha256_of_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256_file(tmp_path / "file") == expected


def test_a_flipped_bit_in_any_byte_of_a_file_is_found(folder: Path) -> None:
    for at in range(4):
        (folder / "keys.npy").write_bytes(flipped(b"keys", at))
        with pytest.raises(DamagedFile, match=r"keys\.npy"):
            read_manifest(folder)
    (folder / "keys.npy").write_bytes(b"keys")
    read_manifest(folder)


@pytest.mark.parametrize("data", [b"", b"key", b"keys "])
def test_a_file_of_another_size_is_found(folder: Path, data: bytes) -> None:
    (folder / "keys.npy").write_bytes(data)
    with pytest.raises(DamagedFile):
        read_manifest(folder)


def test_only_the_size_of_a_file_with_its_own_checksums_is_compared(tmp_path: Path) -> None:
    (tmp_path / "keys.f32").write_bytes(b"keys")
    write_manifest(tmp_path, [], FACTS, with_own_checksums=["keys.f32"])
    (tmp_path / "keys.f32").write_bytes(b"kezs")
    assert read_manifest(tmp_path)["files"] == {"keys.f32": {"bytes": 4, "sha256": None}}
    (tmp_path / "keys.f32").write_bytes(b"key")
    with pytest.raises(DamagedFile, match=r"keys\.f32"):
        read_manifest(tmp_path)


def test_a_missing_file_is_found(folder: Path) -> None:
    (folder / "words" / "meta.json").unlink()
    with pytest.raises(DamagedFile, match=r"words/meta\.json"):
        read_manifest(folder)


def test_a_folder_in_place_of_a_file_is_found(folder: Path) -> None:
    (folder / "words" / "meta.json").unlink()
    (folder / "words" / "meta.json").mkdir()
    with pytest.raises(DamagedFile):
        read_manifest(folder)


def test_a_missing_manifest_and_a_missing_folder_are_found(folder: Path) -> None:
    (folder / MANIFEST).unlink()
    for directory in (folder, folder / "nowhere"):
        with pytest.raises(DamagedFile, match="no readable manifest"):
            read_manifest(directory)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe", b"[]", b"7", b"{}", b'{"files": []}', b'{"files": {"keys.npy": {}}}',
     b'{"files": {"keys.npy": null}}'],
)  # fmt: skip
def test_an_unreadable_manifest_is_damage(folder: Path, body: bytes) -> None:
    (folder / MANIFEST).write_bytes(body)
    with pytest.raises(DamagedFile):
        read_manifest(folder)


def test_a_flipped_bit_in_any_byte_of_the_manifest_is_found(folder: Path) -> None:
    body = (folder / MANIFEST).read_bytes()
    assert json.loads(body)["watermark"] == 7
    unnoticed = []
    for at in range(len(body)):
        (folder / MANIFEST).write_bytes(flipped(body, at))
        try:
            read_manifest(folder)
        except DamagedFile:
            continue
        unnoticed.append(body[max(0, at - 12) : at + 12])
    assert unnoticed == []
