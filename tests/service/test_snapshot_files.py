"""A snapshot that differs in a byte, has strange members or does not fit is refused. A kill leaves all or nothing."""

import errno
import hashlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from index.encoding.hashing_encoder import HashingEncoder
from index.errors import DamagedFile
from index.storage.files import sha256_file
from service.cli import main
from service.http.access import Asked
from service.keys.actions import create_key
from service.keys.schemas import KeyIn
from service.runtime.runtime import Runtime
from service.settings import Settings
from service.snapshots.archive import ArchiveWriter
from service.snapshots.creating import Maker, make_snapshot
from service.snapshots.restoring import NotRestorable, restore, verify
from service.snapshots.state import StateHash, state_hash
from service.snapshots.stored import delete_unfinished, stored_snapshots
from service.storage.copying import opened_copy
from service.storage.sqlite_database import SqliteDatabase
from tests.service.test_snapshots import filled
from tests.test_migrations_killed import made


@contextmanager
def running(data: Path) -> Iterator[Runtime]:
    """Yield a runtime without HTTP and without housekeeping. It does what a start does with leftovers."""
    runtime = Runtime.open(Settings(encoder="hashing", data=data, log_level="error"), HashingEncoder())
    try:
        delete_unfinished(data)
        yield runtime
    finally:
        runtime.close()


def snapshot_of(runtime: Runtime, reached: Any = lambda _step: None) -> Path:
    """Make a snapshot; return its path."""
    made = make_snapshot(Maker(runtime, False, lambda _count: None, reached))
    return runtime.settings.data / str(made["file"])


def state_of(runtime: Runtime) -> StateHash:
    with runtime.database.read() as connection:
        return state_hash(connection)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with a snapshot."""
    data = tmp_path_factory.mktemp("files") / "data"
    filled(data)
    with running(data) as runtime:
        snapshot_of(runtime)
    return data


@pytest.fixture(scope="module")
def file(data: Path) -> Path:
    return stored_snapshots(data)[0].path


def test_every_damaged_byte_is_found(file: Path, tmp_path: Path) -> None:
    """The places are in every header, in every member, in the padding behind it, and in the last line."""
    whole = file.read_bytes()
    with tarfile.open(file) as tar:
        members = tar.getmembers()
    places = {0, len(whole) - 1, len(whole) - 30, len(whole) - 100, len(whole) - 5000}
    for member in members:
        places |= {member.offset + at for at in (5, 100, 130, 257, 400, 500)}
        places |= {member.offset_data + member.size * part // 4 for part in range(4)} | {
            member.offset_data + member.size - 1
        }
        places.add(min(len(whole) - 1, member.offset_data + member.size + 1))
    damaged = tmp_path / "damaged.tar"
    for place in sorted(places):
        damaged.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(DamagedFile):
            verify(damaged)
    assert len(places) > 25


@pytest.mark.parametrize("keep", [0, 100, 5000, -1, -139, -2000])
def test_a_cut_file_is_refused(file: Path, tmp_path: Path, keep: int) -> None:
    cut = tmp_path / "cut.tar"
    cut.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(DamagedFile):
        verify(cut)


def rebuilt(file: Path, target: Path, change: Any, more: tuple[tarfile.TarInfo, ...] = ()) -> Path:
    """Write a snapshot with other members or another manifest and a right last line, as an attacker can."""
    out = io.BytesIO()
    with tarfile.open(file) as source, tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for header in more:
            tar.addfile(header)
        for member in source.getmembers():
            content = source.extractfile(member)
            assert content is not None
            body = content.read()
            if member.name == "snapshot.json":
                body = orjson.dumps(change(orjson.loads(body)))
                member.size = len(body)
            tar.addfile(member, io.BytesIO(body))
    body = out.getvalue()
    target.write_bytes(body + f"softseek snapshot sha256 {hashlib.sha256(body).hexdigest()}\n".encode())
    return target


def header(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


@pytest.mark.parametrize(
    "strange",
    [
        header("../evil"),
        header("/tmp/evil"),
        header("models/../../evil.json"),
        header("models/1/000001/../../../../evil.json"),
        header("models/1/000001/run.sh"),
        header("softseek.db-wal"),
        header("models/1/000001/head.json", tarfile.SYMTYPE, "/etc/passwd"),
        header("softseek.db", tarfile.LNKTYPE, "/etc/passwd"),
        header("models/1/000001/head.json", tarfile.DIRTYPE),
        header("models/1/000001/head.json", tarfile.FIFOTYPE),
        header("models/9/000009/head.json"),
    ],
    ids=lambda one: f"{one.name} {one.type.decode()}",
)
def test_a_member_that_a_snapshot_does_not_have_is_refused(file: Path, tmp_path: Path, strange: Any) -> None:
    bad = rebuilt(file, tmp_path / "bad.tar", lambda manifest: manifest, (strange,))
    with pytest.raises(DamagedFile):
        restore(bad, tmp_path / "inner" / "data")
    assert [path.name for path in tmp_path.rglob("*")] in (["bad.tar", "inner"], ["inner", "bad.tar"])


def test_a_file_is_unpacked_in_the_same_way_when_nothing_is_changed(file: Path, tmp_path: Path) -> None:
    same = rebuilt(file, tmp_path / "same.tar", lambda manifest: manifest)
    assert verify(same)["state"] == verify(file)["state"]


@pytest.mark.parametrize("change", [{"format": 2}, {"schema": "9999"}])
def test_a_snapshot_of_a_newer_version_is_refused(file: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    newer = rebuilt(file, tmp_path / "newer.tar", lambda manifest: manifest | change)
    with pytest.raises(NotRestorable, match="newer version"):
        restore(newer, tmp_path / "data")


def test_a_snapshot_of_an_earlier_schema_is_verified_restored_and_upgraded(
    file: Path, tmp_path: Path, capsys: Any
) -> None:
    made(tmp_path / "softseek.db", "0001")
    with opened_copy(tmp_path / "softseek.db") as connection:
        state = state_hash(connection)
    facts = verify(file) | {"schema": "0001", "state": state.as_json()}
    with (tmp_path / "old.tar").open("wb") as target:
        writer = ArchiveWriter(target, 0)
        writer.add("softseek.db", tmp_path / "softseek.db")
        writer.finish(facts)
    verified = verify(tmp_path / "old.tar")
    assert verified["state"] == state.sha256 != verified["upgraded_state"]
    assert command("snapshot", "verify", str(tmp_path / "old.tar")) == 0
    assert f"state {verified['upgraded_state']} after" in capsys.readouterr().out
    restore(tmp_path / "old.tar", tmp_path / "data")
    database = SqliteDatabase(tmp_path / "data" / "softseek.db")
    database.migrate()
    with database.read() as connection:
        upgraded = state_hash(connection)
        assert upgraded.tables["documents"] == state.tables["documents"]
        assert upgraded.sha256 == verified["upgraded_state"]
    database.close()


def test_a_content_that_differs_from_the_state_hash_is_refused(file: Path, tmp_path: Path) -> None:
    other = rebuilt(file, tmp_path / "other.tar", lambda manifest: manifest | {"state": {"sha256": "0" * 64}})
    with pytest.raises(DamagedFile, match="state hash"):
        verify(other)


def test_only_a_new_or_an_empty_directory_is_restored_into(file: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "note").touch()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    for name in ("used", "used/note", "link"):
        with pytest.raises(NotRestorable, match="not an empty directory"):
            restore(file, tmp_path / name)
    restore(file, tmp_path / "empty")
    restore(file, tmp_path / "new" / "data")
    assert sorted(path.name for path in (tmp_path / "empty").iterdir()) == ["owner.lock", "softseek.db"]


def test_a_restore_needs_space(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.snapshots.restoring.SPARE_BYTES", 2**60)
    with pytest.raises(NotRestorable, match="MiB free"):
        restore(file, tmp_path / "data")
    assert list(tmp_path.iterdir()) == []


def test_a_kill_at_any_step_of_a_snapshot_leaves_the_data_and_whole_snapshots(data: Path, tmp_path: Path) -> None:
    """The files at each step are what a killed process leaves. A service starts on them, with equal content."""
    kept = len(stored_snapshots(data))
    steps: list[str] = []

    def kill(step: str) -> None:
        steps.append(step)
        shutil.copytree(data, tmp_path / step)

    with running(data) as runtime:
        state = state_of(runtime)
        snapshot_of(runtime, kill)
    assert steps == ["copied", "written", "summed", "named"]
    for step in steps:
        left = tmp_path / step
        with running(left) as runtime:
            assert state_of(runtime) == state
            assert not list((left / "snapshots").glob("*.working"))
            assert len(stored_snapshots(left)) == kept + (step == "named")
            assert verify(snapshot_of(runtime))["state"] == state.sha256
        assert all(verify(one.path)["state"] == state.sha256 for one in stored_snapshots(left))
        assert all(one.as_json()["sha256"] == sha256_file(one.path) for one in stored_snapshots(left))
        assert len(list((left / "snapshots").iterdir())) == 2 * len(stored_snapshots(left)), "a checksum for each"


@pytest.mark.parametrize("full", ["the checksum", "the name", "the folder"])
def test_a_disk_that_is_full_at_the_end_leaves_no_snapshot(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    copy = shutil.copytree(data, tmp_path / "data")
    before = sorted(path.name for path in (copy / "snapshots").iterdir())
    replace = os.replace

    def refuse(source: Path, target: Path) -> None:
        if target.parent.name == "snapshots" and target.suffix == (".sha256" if full == "the checksum" else ".tar"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    def refuse_folder(_folder: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with running(copy) as runtime:
        with monkeypatch.context() as patched:
            if full == "the folder":
                patched.setattr("service.snapshots.creating.sync_directory", refuse_folder)
            else:
                patched.setattr(os, "replace", refuse)
            with pytest.raises(OSError, match="No space left"):
                snapshot_of(runtime)
        assert sorted(path.name for path in (copy / "snapshots").iterdir()) == before
        assert snapshot_of(runtime).is_file()


def test_a_kill_at_any_step_of_a_restore_leaves_nothing_or_all(file: Path, tmp_path: Path) -> None:
    state = verify(file)["state"]
    steps: list[str] = []

    def kill(step: str) -> None:
        steps.append(step)
        shutil.copytree(tmp_path / "to", tmp_path / step)

    restore(file, tmp_path / "to" / "data", reached=kill)
    assert steps == ["prepared", "unpacked", "renamed"]
    for step in steps:
        target = tmp_path / step / "data"
        assert target.exists() == (step == "renamed")
        if step != "renamed":
            assert restore(file, target)["state"] == state
        assert [path.name for path in (tmp_path / step).iterdir()] == ["data"]
        database = SqliteDatabase(target / "softseek.db")
        with database.read() as connection:
            assert state_hash(connection).sha256 == state
        database.close()


def command(*arguments: str) -> int:
    """Run a command; return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(str(ended.value.code))


def test_the_command_line_verifies_and_restores(file: Path, tmp_path: Path, capsys: Any) -> None:
    assert command("snapshot", "verify", str(file), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["upgraded_state"] == found["state"]
    assert (found["documents"], found["counts"]["judgments"]) == (30, 30)
    restored = ("snapshot", "restore", str(file), "--data", str(tmp_path / "data"))
    assert command(*restored, "--json") == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["state"] == found["state"]
    assert json.loads(told.out)["keys"] == 0
    assert "no API keys" in told.err
    assert command(*restored) == 1
    assert "not an empty directory" in capsys.readouterr().err
    cut = tmp_path / "cut.tar"
    cut.write_bytes(file.read_bytes()[:-1])
    assert command("snapshot", "verify", str(cut)) == 1
    assert capsys.readouterr().out == ""


def test_a_restore_tells_how_many_keys_the_directory_has(tmp_path: Path, capsys: Any) -> None:
    with running(tmp_path / "data") as runtime:
        create_key(runtime, KeyIn(name="first", scopes=["admin"]), Asked())
        file = snapshot_of(runtime)
    assert command("snapshot", "restore", str(file), "--data", str(tmp_path / "restored")) == 0
    told = capsys.readouterr()
    assert "API keys: 1" in told.out
    assert "valid again" in told.err
    with running(tmp_path / "restored") as runtime:
        assert len(runtime.keyring) == 1


def test_the_command_line_creates_lists_and_deletes(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setenv("SOFTSEEK_ENCODER", "hashing")
    place = ["--data", str(tmp_path / "data"), "--json"]
    assert command("collections", "set", "books", *place) == 0
    capsys.readouterr()
    assert command("snapshot", "create", *place) == 0
    made = json.loads(capsys.readouterr().out)
    assert command("snapshot", "list", *place) == 0
    (listed,) = json.loads(capsys.readouterr().out)["snapshots"]
    assert (listed["file"], listed["sha256"]) == (made["file"], made["sha256"])
    assert command("snapshot", "delete", listed["id"], *place) == 0
    assert not (tmp_path / "data" / made["file"]).exists()
    assert command("snapshot", "delete", listed["id"], *place) == 1


def test_a_start_deletes_what_a_killed_process_left_of_a_checksum(tmp_path: Path) -> None:
    with running(tmp_path / "data") as runtime:
        file = snapshot_of(runtime)
    draft = file.with_name(f"{file.name}.sha256.tmp")
    draft.write_bytes(b"half")
    delete_unfinished(tmp_path / "data")
    assert not draft.exists()
    assert file.exists()
