"""The lock of a data directory tells commands of this machine where the server of the directory listens."""

import fcntl
import socket
from pathlib import Path
from typing import cast

import pytest

from service.cli.operating import address_from_here
from service.storage import owner_lock
from service.storage.owner_lock import LOCK_FILE, OwnerLock, address_of_server


def test_the_address_of_a_server_holds_while_it_owns_the_directory_and_in_its_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert address_of_server(tmp_path / "missing") is None
    lock = OwnerLock(tmp_path)
    assert address_of_server(tmp_path) is None
    lock.announce("http://127.0.0.1:8080")
    assert address_of_server(tmp_path) == "http://127.0.0.1:8080"
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(owner_lock, "place", lambda: "another container")
        assert address_of_server(tmp_path) is None
    lock.release()  # as at the end of a process that is killed
    assert address_of_server(tmp_path) is None
    lock = OwnerLock(tmp_path)
    assert address_of_server(tmp_path) is None
    lock.release()


@pytest.mark.parametrize(
    "address", ["http://192.0.2.7:80", "https://127.0.0.1:80", "http://127.0.0.1:80/x", "http://a@b:1"]
)
def test_an_address_beyond_the_loopback_interface_is_not_believed(tmp_path: Path, address: str) -> None:
    lock = OwnerLock(tmp_path)
    lock.announce(address)
    assert address_of_server(tmp_path) is None
    lock.release()


def test_a_lock_file_that_another_user_may_have_written_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = OwnerLock(tmp_path)
    lock.announce("http://127.0.0.1:8080")
    file = tmp_path / LOCK_FILE
    with monkeypatch.context() as other:
        other.setattr(owner_lock.os, "geteuid", lambda: file.stat().st_uid + 1)
        assert address_of_server(tmp_path) is None
    file.chmod(0o622)
    assert address_of_server(tmp_path) is None
    file.chmod(0o600)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / LOCK_FILE).symlink_to(file)
    assert address_of_server(tmp_path / "linked") is None
    assert address_of_server(tmp_path) == "http://127.0.0.1:8080"
    lock.release()


def test_a_start_outlasts_a_command_that_looks_for_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / LOCK_FILE).open("w") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        monkeypatch.setattr(owner_lock.time, "sleep", lambda _: fcntl.flock(looking, fcntl.LOCK_UN))
        OwnerLock(tmp_path).release()


@pytest.mark.parametrize(
    ("name", "address"),
    [
        (("127.0.0.1", 8080), "http://127.0.0.1:8080"),
        (("0.0.0.0", 8080), "http://127.0.0.1:8080"),
        (("::", 80, 0, 0), "http://[::1]:80"),
        (("192.0.2.7", 8080), None),
    ],
)
def test_a_server_is_reached_from_its_machine_by_the_loopback_interface(
    name: tuple[str, int], address: str | None
) -> None:
    class Listening:
        def getsockname(self) -> tuple[str, int]:
            return name

    assert address_from_here(cast("socket.socket", Listening())) == address
