"""`softseek deploy ray` and `serve --role coordinator`, before they reach a cluster."""

import pytest

from service.cli import connection
from service.cli.failures import ERROR, USAGE
from tests.service.test_cli_directory import Run, run

__all__ = ["run"]
ADDRESS = "postgresql+psycopg://softseek@127.0.0.1:1/wood"


def test_partitions_and_coordinators_need_a_database(run: Run) -> None:
    for command in (("deploy", "ray", "--partitions", 2), ("serve", "--role", "coordinator", "--port", 0)):
        ended = run(*command)
        assert ended.code == USAGE
        assert "SOFTSEEK_DATABASE" in ended.err


def test_a_missing_library_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setenv("SOFTSEEK_DATABASE", ADDRESS)
    monkeypatch.setattr(connection, "import_module", missing)
    ended = run("deploy", "ray", "--partitions", 2)
    assert ended.code == ERROR
    assert "pip install 'softseek[ray]'" in ended.err


def test_the_number_of_partitions_is_bounded(run: Run) -> None:
    for count in (0, 257):
        assert run("deploy", "ray", "--partitions", count).code == USAGE
    assert run("deploy", "ray").code == USAGE
