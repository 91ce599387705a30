"""Settings: flags precede the environment, .env and the defaults; unknown names and invalid values are errors."""

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from service.cli.connection import settings_from
from service.cli.failures import Failure
from service.settings import PREFIX, Settings, UnknownSetting, load_settings


@pytest.fixture(autouse=True)
def _empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Use an empty folder and an environment without settings."""
    for name in [name for name in os.environ if name.upper().startswith(PREFIX)]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def test_the_default_values_apply() -> None:
    settings = load_settings(data=None, port=None)
    assert (settings.data, settings.host, settings.port) == (Path("data"), "127.0.0.1", 8080)


def test_each_source_overrides_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".env").write_text("SOFTSEEK_PORT=1\nSOFTSEEK_HOST=from-dotenv\nSOFTSEEK_ENCODER=from-dotenv\nOTHER=1\n")
    monkeypatch.setenv("SOFTSEEK_PORT", "2")
    monkeypatch.setenv("SOFTSEEK_ENCODER", "from-environment")
    settings = load_settings(port=3)
    assert (settings.port, settings.encoder, settings.host) == (3, "from-environment", "from-dotenv")
    assert settings.search_queue == Settings.model_fields["search_queue"].default
    assert load_settings().port == 2
    monkeypatch.delenv("SOFTSEEK_PORT")
    assert load_settings().port == 1


@pytest.mark.parametrize("name", ["SOFTSEEK_PROT", "softseek_prot", "SOFTSEEK_"])
def test_an_unknown_name_in_the_environment_is_an_error(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "1")
    with pytest.raises(UnknownSetting, match=f"unknown setting {name}; known are .*SOFTSEEK_PORT"):
        load_settings()


def test_an_unknown_name_in_dotenv_is_an_error() -> None:
    Path(".env").write_text("SOFTSEEK_PROT=1\n")
    with pytest.raises(UnknownSetting, match="SOFTSEEK_PROT"):
        load_settings()


@pytest.mark.parametrize(
    ("name", "value"), [("PORT", "65536"), ("PORT", "x"), ("SEARCH_THREADS", "0"), ("MAX_TASKS", "1")]
)
def test_a_value_out_of_range_is_an_error(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"{PREFIX}{name}", value)
    with pytest.raises(ValidationError, match=name.lower()):
        load_settings()


@pytest.mark.parametrize(
    "hosts",
    [
        "https://search.example.org", "a b;c", "search.example.org:443", "localhost,search.example.org/", "**",
        "a.*.org", "*example.org", "-a.org", "a..org", "b\u00fccher.example", "[::1]:8080", "[::1", "[a]",
    ],
)  # fmt: skip
def test_names_that_no_request_has_are_an_error(monkeypatch: pytest.MonkeyPatch, hosts: str) -> None:
    monkeypatch.setenv("SOFTSEEK_ALLOWED_HOSTS", hosts)
    with pytest.raises(Failure, match=r"^setting allowed_hosts: must be names such as"):
        settings_from()


@pytest.mark.parametrize(
    "hosts",
    [
        "", "*", "localhost", "search.example.org,*.example.net", " a , b ,", "Search.Example.org.", "xn--bcher-kva.de",
        "my_host.local", "10.0.0.1,::1,[::1]", "*.a-b.org",
    ],
)  # fmt: skip
def test_names_of_requests_are_accepted(monkeypatch: pytest.MonkeyPatch, hosts: str) -> None:
    monkeypatch.setenv("SOFTSEEK_ALLOWED_HOSTS", hosts)
    assert load_settings().allowed_hosts == hosts


@pytest.mark.parametrize("name", ["DATA", "GENERATION_FILE"])
@pytest.mark.parametrize("path", ["", " "])
def test_an_empty_path_is_an_error(monkeypatch: pytest.MonkeyPatch, name: str, path: str) -> None:
    monkeypatch.setenv(f"{PREFIX}{name}", path)
    with pytest.raises(Failure, match=f"^setting {name.lower()}: must not be empty"):
        settings_from()
    monkeypatch.delenv(f"{PREFIX}{name}")
    Path(".env").write_text(f"{PREFIX}{name}={path}\n")
    with pytest.raises(Failure, match=f"^setting {name.lower()}: must not be empty"):
        settings_from()


@pytest.mark.parametrize(
    ("cores", "given", "wanted"),
    [
        (16, {"workers": 12}, 1),
        (16, {"workers": 10}, 2),
        (16, {"workers": 11}, 1),
        (2, {"workers": 4}, 2),
        (8, {}, 1),
        (8, {"role": "searcher"}, 2),
        (16, {"workers": 12, "search_threads": 3}, 3),
    ],
)
def test_many_processes_run_one_search_at_a_time_each(
    monkeypatch: pytest.MonkeyPatch, cores: int, given: dict[str, Any], wanted: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))
    database = {"database": "postgresql+psycopg://localhost/s"} if "role" in given else {}
    assert Settings(**given, **database).searches_at_once == wanted


@pytest.mark.parametrize("key", ["", "short", "x" * 513, "a key with spaces, long enough"])
def test_an_admin_key_that_cannot_be_one_is_an_error_in_words(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("SOFTSEEK_ADMIN_KEY", key)
    with pytest.raises(Failure) as failure:
        settings_from()
    wanted = "visible ASCII characters without spaces" if " " in key else "must have 22 to 512 characters"
    assert wanted in str(failure.value)
    assert str(failure.value).startswith("setting admin_key: must")
    assert not key or key not in str(failure.value)


@pytest.mark.parametrize("level", ["loud", ""])
def test_an_unknown_log_level_is_an_error(monkeypatch: pytest.MonkeyPatch, level: str) -> None:
    monkeypatch.setenv("SOFTSEEK_LOG_LEVEL", level)
    with pytest.raises(ValidationError, match="log_level"):
        load_settings()


def test_settings_are_immutable() -> None:
    with pytest.raises(ValidationError):
        load_settings().port = 1  # type: ignore[misc]


@pytest.mark.parametrize(("cores", "expected"), [(1, 1), (2, 2), (16, 8)])
def test_there_is_a_process_for_each_core_up_to_eight(
    monkeypatch: pytest.MonkeyPatch, cores: int, expected: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    assert load_settings().processes == expected
    assert load_settings(workers=12).processes == 12
