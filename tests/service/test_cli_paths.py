"""A name that a command gets is one part of a path, whatever its characters are."""

import json
from pathlib import Path

import pytest

from service.cli.connection import collection_path, path_of
from tests.service.client import create, opened
from tests.service.test_cli import Fake, Run, fake, run

__all__ = ["fake", "run"]


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (("rules", "delete", "..", "--collection", "victim"), "/v1/collections/victim/rules/%2E%2E"),
        (("rules", "delete", ".", "--collection", ".."), "/v1/collections/%2E%2E/rules/%2E"),
        (("documents", "get", "..", "--collection", "victim"), "/v1/collections/victim/documents/%2E%2E"),
        (("documents", "get", "a/../b", "--collection", "victim"), "/v1/collections/victim/documents/a%2F..%2Fb"),
        (("snapshot", "delete", "../collections/victim"), "/v1/snapshots/..%2Fcollections%2Fvictim"),
        (("snapshot", "delete", ".."), "/v1/snapshots/%2E%2E"),
        (("keys", "delete", ".."), "/v1/keys/%2E%2E"),
        (("keys", "rotate", ".."), "/v1/keys/%2E%2E/rotate"),
        (("aliases", "delete", ".."), "/v1/aliases/%2E%2E"),
        (("collections", "delete", ".."), "/v1/collections/%2E%2E"),
    ],
)
def test_a_name_of_dots_or_slashes_stays_in_its_place(
    run: Run, fake: Fake, arguments: tuple[str, ...], path: str
) -> None:
    ended = run(*arguments, "--url", fake.url)
    assert (ended.code, ended.err) == (1, "not_found: nothing here\n")
    assert [target for _, target, _ in fake.requests] == [path]


@pytest.mark.parametrize(
    "arguments",
    [
        ("synonyms", "set", "a/b", "--words", "tv,television"),
        ("synonyms", "get", "a/b"),
        ("rules", "set", "a/b", "--exact", "x", "--hide", "d"),
        ("documents", "get", "d", "--collection", "a/b"),
        ("collections", "show", "a/b"),
    ],
)
def test_a_slash_is_refused_where_the_service_finds_nothing(run: Run, fake: Fake, arguments: tuple[str, ...]) -> None:
    ended = run(*arguments, "--url", fake.url)
    assert (ended.code, ended.err) == (2, "a/b: a name or id must have no slash; only the id of a document may\n")
    assert fake.requests == []


def test_other_names_are_quoted_as_before() -> None:
    assert path_of("keys", "...") == "/v1/keys/..."
    assert collection_path("shop", "documents", "a b/é") == "/v1/collections/shop/documents/a%20b%2F%C3%A9"


def test_the_service_reads_an_id_of_dots(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTSEEK_ENCODER", "hashing")
    with opened(tmp_path / "data") as client:
        create(client, "victim").add({"id": "..", "text": "a document"})
    here = ("--collection", "victim", "--data", tmp_path / "data")
    assert json.loads(run("documents", "get", "..", "--json", *here).out)["id"] == ".."
    assert "/rule_id" in run("rules", "delete", "..", *here).err
    assert "victim" in run("collections", "list", "--data", tmp_path / "data").out
