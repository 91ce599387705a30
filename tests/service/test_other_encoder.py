"""A process that has another encoder than a collection says so: its searches of the collection are refused."""

import json
import re
from pathlib import Path

import pytest

import service.runtime.runtime as runtime_module
from benchmarks.postgres import PostgresServer
from index.encoding.hashing_encoder import HashingEncoder
from service.operations.reencoding import reencode
from tests.service.client import CollectionClient, create, good, opened, problem, runtime_of
from tests.service.test_searchers import caught_up, searching

WIDE = HashingEncoder(dim=96)
TREE = {"id": "oak", "text": "an old oak"}


def warned(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the collections of the warnings since the last call."""
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines() if '"other_encoder"' in line]
    assert {line["level"] for line in lines} <= {"warning"}
    return [line["collection"] for line in lines]


def test_a_server_with_another_encoder_is_degraded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(tmp_path / "data") as client:
        create(client, "wood").add(TREE)
        assert good(client.get("/readyz"))["degraded"] == {}
    monkeypatch.setattr(runtime_module, "load_encoder", lambda *_: WIDE)
    with opened(tmp_path / "data") as client:
        problem(client.post("/v1/collections/wood/search", json={"q": "oak"}), 409, "encoder_mismatch")
        problem(client.post("/v1/collections/default/search", json={"q": "oak"}), 409, "encoder_mismatch")
        assert good(client.get("/readyz"))["degraded"] == {"default": ["other_encoder"], "wood": ["other_encoder"]}
        reencode(runtime_of(client), runtime_of(client).collection("wood"))
        assert good(client.get("/readyz"))["degraded"] == {"default": ["other_encoder"]}
    assert warned(capsys) == ["wood"], "the other never had a document"


def test_a_searcher_that_runs_during_the_switch_is_degraded_after_it(
    postgres_server: PostgresServer,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    address = postgres_server.database(re.sub(r"\W+", "_", request.node.name[-50:]))
    with opened(tmp_path / "writer", database=address) as writer:
        create(writer, "wood").add(TREE)
    with searching(tmp_path / "one", address) as one:
        assert CollectionClient(one, "wood").ids("oak") == ["oak"]
        monkeypatch.setattr(runtime_module, "load_encoder", lambda *_: WIDE)
        with opened(tmp_path / "writer", database=address) as writer:
            assert warned(capsys) == ["wood"], "of the writer, before the switch"
            reencode(runtime_of(writer), runtime_of(writer).collection("wood"))
            caught_up(writer, one)
            problem(one.post("/v1/collections/wood/search", json={"q": "oak"}), 409, "encoder_mismatch")
            assert good(one.get("/readyz"))["degraded"] == {"wood": ["other_encoder"]}
            assert warned(capsys) == ["wood"]
