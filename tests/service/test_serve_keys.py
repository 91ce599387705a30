"""`serve` asks for an API key where other machines reach it; commands send a key to a server."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.cli import main
from service.cli.failures import Failure
from service.cli.protection import is_loopback, protect, refuse_unprotected
from service.settings import Settings
from tests.service.authorised import Keys
from tests.service.browser import served
from tests.service.client import opened, runtime_of


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("serve") / "data") as client:
        yield client


@pytest.fixture
def softseek(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """Run a command in this process; return its exit code, stdout and stderr."""
    for name in [name for name in os.environ if name.upper().startswith("SOFTSEEK_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SOFTSEEK_ENCODER", "hashing")
    monkeypatch.chdir(tmp_path)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def command(*arguments: Any) -> tuple[Any, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as raised:
            main([str(argument) for argument in arguments])
        return (raised.value.code, *capsys.readouterr())

    yield command
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    """A socket that other machines could reach; it does not listen."""
    with socket.socket() as bound:
        bound.bind(("0.0.0.0", 0))
        yield bound


@pytest.mark.parametrize(
    ("address", "expected"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("0.0.0.0", False), ("::", False), ("10.0.0.7", False)],
)
def test_a_loopback_address_is_recognised(address: str, expected: bool) -> None:
    assert is_loopback(address) == expected


def test_an_address_that_others_reach_needs_a_key(softseek: Any) -> None:
    for _ in range(2):  # without a database, and with one without a key
        code, _, err = softseek("serve", "--host", "0.0.0.0", "--port", "0")
        assert code == 2
        assert "there are no API keys" in err
        assert "softseek keys create" in err
        assert "--insecure" in err
        assert "listens on" not in err
        softseek("collections", "list")


def test_a_refused_server_makes_no_data_directory(tmp_path: Path, softseek: Any) -> None:
    assert softseek("serve", "--host", "0.0.0.0", "--port", "0", "--data", tmp_path / "new")[0] == 2
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "more",
    [
        {"insecure": True},
        {"admin_key": "a-key-with-enough-letters-to-be-taken"},
        {"database": "postgresql+psycopg://a:b@127.0.0.1/c"},
    ],
)
def test_a_server_that_may_have_a_key_is_not_refused_before_it_opens(
    tmp_path: Path, listening: socket.socket, more: dict[str, Any]
) -> None:
    refuse_unprotected(Settings(data=tmp_path / "new", **more), listening, makes_admin_key=False)
    settings = Settings(data=tmp_path / "new")
    refuse_unprotected(settings, listening, makes_admin_key=True)
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        refuse_unprotected(settings, own, makes_admin_key=False)
    with pytest.raises(Failure, match="no API keys"):
        refuse_unprotected(settings, listening, makes_admin_key=False)


@pytest.mark.parametrize("key", ["too-short", "with a space in it 0123456789"])
def test_a_weak_admin_key_is_refused(softseek: Any, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("SOFTSEEK_ADMIN_KEY", key)
    code, out, err = softseek("serve", "--host", "0.0.0.0", "--port", "0")
    assert code == 2
    assert "admin_key" in err
    assert key not in out + err


def test_insecure_says_so_and_starts(
    tmp_path: Path, listening: socket.socket, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(tmp_path / "data", insecure=True) as client:
        protect(runtime_of(client), listening, makes_admin_key=False)
    assert "INSECURE" in capsys.readouterr().err


def test_the_first_admin_key_may_be_made_in_a_file(
    tmp_path: Path, listening: socket.socket, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(tmp_path / "data") as client:
        for _ in range(2):
            protect(runtime_of(client), listening, makes_admin_key=True)
    said = capsys.readouterr().err
    key = (tmp_path / "data" / "admin.key").read_text().strip()
    assert said.count("admin.key") == 1
    assert key not in said


def test_a_service_without_keys_is_not_protected(client: TestClient, listening: socket.socket) -> None:
    with pytest.raises(Failure, match="no API keys"):
        protect(runtime_of(client), listening, makes_admin_key=False)


def test_commands_on_a_directory_need_no_key_and_make_the_first(softseek: Any) -> None:
    code, out, _ = softseek("keys", "create", "--name", "first", "--scopes", "admin")
    assert code == 0
    assert out.startswith("sk_")
    code, out, _ = softseek("keys", "list")
    assert code == 0
    assert "first" in out
    assert softseek("search", "anything")[0] == 0


def test_commands_send_the_key_of_the_option_or_of_the_setting(
    tmp_path: Path, softseek: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "served") as client, served(client) as url:
        keys = Keys.first(client)
        code, _, err = softseek("collections", "list", "--url", url)
        assert (code, "unauthorized" in err, "SOFTSEEK_KEY" in err) == (1, True, True)
        code, out, _ = softseek("collections", "list", "--url", url, "--key", keys.admin, "--json")
        assert (code, '"default"' in out) == (0, True)
        monkeypatch.setenv("SOFTSEEK_KEY", keys.admin)
        assert softseek("keys", "list", "--url", url, "--json")[0] == 0
        assert softseek("keys", "list", "--url", url, "--key", "wrong")[0] == 1
        key = [
            "--name",
            "box",
            "--scope",
            "search",
            "--scope",
            "events",
            "--collection",
            "default",
            "--filter",
            'tenant = "a"',
        ]
        limits = ["--origin", "https://shop.example", "--rate-per-minute", "60", "--expires-at", "2999-01-01T00:00:00Z"]
        code, out, _ = softseek("keys", "create", *key, *limits, "--url", url, "--json")
        assert code == 0
        made = keys.act("GET", "/v1/keys").json()["keys"][-1]
        assert (made["scopes"], made["collections"], made["filter"]) == (
            ["events", "search"],
            ["default"],
            'tenant = "a"',
        )
        assert (made["origins"], made["rate_per_minute"]) == (["https://shop.example"], 60)
        assert softseek("keys", "rotate", made["id"], "--grace-seconds", "5", "--url", url)[1].startswith("sk_")
        assert softseek("keys", "delete", made["id"], "--url", url, "--json")[0] == 0
        code, out, _ = softseek("audit", "--limit", "1", "--url", url)
        assert (code, "delete_key" in out) == (0, True)
        assert softseek("doctor", "--url", url)[0] == 0
