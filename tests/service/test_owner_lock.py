"""The lock of a data directory tells commands of this machine where the server of the directory listens."""

import socket
from pathlib import Path
from typing import cast

import pytest

from service.cli.operating import address_from_here
from service.storage import owner_lock
from service.storage.owner_lock import OwnerLock, address_of_server


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
