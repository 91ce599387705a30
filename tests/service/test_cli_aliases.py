"""The commands of aliases, on a data directory."""

import json
import shutil
from pathlib import Path

import pytest

from tests.service.client import create, opened
from tests.service.test_cli import Run, run

__all__ = ["run"]


@pytest.fixture(autouse=True)
def hashing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTSEEK_ENCODER", "hashing")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with the collections `old` and `new`, each with a document that names it."""
    folder = tmp_path_factory.mktemp("prepared") / "data"
    with opened(folder) as client:
        for name in ("old", "new"):
            create(client, name).add({"id": f"document-{name}", "text": f"the {name} text"})
    return folder


@pytest.fixture
def data(prepared: Path, tmp_path: Path) -> tuple[object, ...]:
    """The option of a copy of the data directory."""
    return ("--data", shutil.copytree(prepared, tmp_path / "data"))


def found(run: Run, name: str, data: tuple[object, ...]) -> list[str]:
    answer = json.loads(run("search", "text", "--collection", name, "--json", *data).out)
    return [hit["id"] for hit in answer["hits"]]


def test_aliases_are_set_listed_and_deleted(run: Run, data: tuple[object, ...]) -> None:
    assert run("aliases", "set", "shop", "old", *data).out == "alias shop names old\n"
    assert found(run, "shop", data) == ["document-old"]
    moved = json.loads(run("aliases", "set", "shop", "new", "--json", *data).out)
    assert (moved["alias"], moved["collection"]) == ("shop", "new")
    assert found(run, "shop", data) == ["document-new"]
    assert json.loads(run("aliases", "list", "--json", *data).out) == {"aliases": [moved]}
    listed = run("aliases", "list", *data).out
    assert all(word in listed for word in ("alias", "shop", "new", moved["created_at"]))
    assert run("aliases", "delete", "shop", *data).out == "alias shop is deleted\n"
    gone = run("aliases", "delete", "shop", *data)
    assert (gone.code, gone.err) == (1, "alias_not_found: there is no such alias\n")
    assert found(run, "new", data) == ["document-new"]


def test_two_collections_are_swapped(run: Run, data: tuple[object, ...]) -> None:
    assert run("aliases", "swap", "old", "new", *data).out == "swapped: new and old\n"
    assert found(run, "old", data) == ["document-new"]
    back = json.loads(run("aliases", "swap", "old", "new", "--json", *data).out)
    assert [one["name"] for one in back["collections"]] == ["new", "old"]
    assert found(run, "old", data) == ["document-old"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("set", "shop", "nowhere"), "collection_not_found"),
        (("set", "old", "new"), "name_is_taken"),
        (("set", "a b", "new"), "invalid_request"),
        (("swap", "old", "old"), "invalid_request"),
        (("swap", "old", "nowhere"), "collection_not_found"),
        (("delete", "../collections/old"), ""),
    ],
)
def test_a_refused_alias_changes_nothing(
    run: Run, data: tuple[object, ...], arguments: tuple[str, ...], code: str
) -> None:
    ended = run("aliases", *arguments, *data)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(code)
    assert json.loads(run("aliases", "list", "--json", *data).out) == {"aliases": []}
    assert found(run, "old", data) == ["document-old"]
