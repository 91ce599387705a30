"""A collection is encoded again with another encoder: searches work, feedback stays, old models do not serve."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import service.runtime.runtime as runtime_module
from index.encoding.documents import encode_documents
from index.encoding.hashing_encoder import HashingEncoder
from service.app import create_app
from service.cli import main
from service.documents.cluster_encoding import ClusterFailed
from service.documents.repository import documents_of_rows, record_of
from service.operations import encoded_blocks, reencoding_repository, rows_beside
from service.operations.housekeeping import Housekeeping
from service.operations.reencoding import Reencoded, reencode
from service.operations.retention import forget_old_feedback
from service.operations.rows_beside import TrainingUnfinished
from service.runtime.runtime import Runtime
from service.settings import Settings
from service.storage.database import rfc3339
from service.training import from_documents
from tests.service.client import CollectionClient, create, event, good, opened, problem, runtime_of

pytestmark = pytest.mark.usefixtures("forked_training")

WIDE = HashingEncoder(dim=96)

Command = Callable[..., tuple[str, str]]


def tree(n: int) -> dict[str, Any]:
    return {"id": f"tree-{n}", "title": f"Tree {n}", "text": f"tree number {n}", "metadata": {"n": n}}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with documents, feedback and a trained champion."""
    folder = tmp_path_factory.mktemp("trained") / "data"
    with opened(folder) as client:
        wood = create(client, "wood", filterable=["n"])
        wood.add(*map(tree, range(30)))
        for n in range(30):
            wood.judge(f"which tree has number {n}", f"tree-{n}", 3)
        wood.act("tree-7", user_query="The Lucky Tree", client_id="c")
        assert wood.train(promote="never", budget_seconds=1)["model_version"] == 1
        good(client.put(f"{wood.path}/models/aliases/champion", json={"version": 1, "force": True}))
    return folder


@pytest.fixture
def data(trained: Path, tmp_path: Path) -> Path:
    """A copy of the data directory, for a single test."""
    return shutil.copytree(trained, tmp_path / "data")


@contextmanager
def running(data: Path, encoder: HashingEncoder = WIDE, **settings: Any) -> Iterator[Runtime]:
    runtime = Runtime.open(Settings(encoder="hashing", data=data, log_level="warning", **settings), encoder)
    try:
        yield runtime
    finally:
        runtime.close()


@contextmanager
def served(data: Path, encoder: HashingEncoder = WIDE) -> Iterator[CollectionClient]:
    with running(data, encoder) as runtime:
        app = create_app(runtime.settings, runtime)
        with TestClient(app, raise_server_exceptions=False) as client:
            yield CollectionClient(client, "wood")


def test_a_collection_is_searched_with_the_new_encoder(data: Path) -> None:
    with served(data) as wood:
        problem(wood.client.post(f"{wood.path}/search", json={"q": "tree"}), 409, "encoder_mismatch")
    steps: list[tuple[int, int]] = []
    with running(data) as runtime:
        done = reencode(runtime, runtime.collection("wood"), lambda *step: steps.append(step))
        assert done == Reencoded(documents=30, queries=31, champion_before=1, anonymous_queries_deleted=0)
        assert steps[-1] == (30, 30)
        assert reencode(runtime, runtime.collection("wood")) is None
    with served(data) as wood:
        assert wood.ids("tree number 7")[0] == "tree-7"
        assert wood.ids("tree", filter="n = 3") == ["tree-3"]
        facts = wood.get()
        assert (facts["encoder"]["dim"], facts["encoder"]["fingerprint"]) == (96, WIDE.fingerprint)
        assert facts["counts"]["documents"] == 30
        listed = [one["id"] for one in wood.get("documents", limit=100)["documents"]]
        assert listed == sorted(f"tree-{n}" for n in range(30))  # of one batch, so in the order of the ids
        wood.add(tree(31))
        assert wood.get("documents/tree-31") == tree(31) | {"url": None}


def test_feedback_is_kept_and_works_with_the_new_vectors(data: Path) -> None:
    with running(data) as runtime:
        reencode(runtime, runtime.collection("wood"))
    with served(data) as wood:
        counts = wood.get()["counts"]
        assert (counts["events"], counts["judgments"], counts["keys"]["query"]) == (1, 30, 31)
        (hit,) = [hit for hit in wood.search("the lucky tree", explain=True)["hits"] if hit["id"] == "tree-7"]
        past = [key for key in hit["explain"]["keys"] if key["kind"] == "query" and key["query"] == "the lucky tree"]
        assert past[0]["cosine"] == pytest.approx(1, abs=1e-5)
        assert wood.post("events/delete", {"client_id": "c"}) == {"deleted": 1}
        assert wood.get()["counts"]["keys"]["query"] == 30


def test_a_document_that_comes_again_keeps_the_vectors_of_the_new_encoder(data: Path) -> None:
    with running(data) as runtime:
        reencode(runtime, runtime.collection("wood"))
    with served(data) as wood:
        before = {id: logit for id, logit, _ in wood.ranking("which tree has number 3")}
        result = wood.add(tree(7) | {"metadata": {"n": 99}})
        assert (result["passages"], result["passages_kept"]) == (0, 2)
        assert {id: logit for id, logit, _ in wood.ranking("which tree has number 3")} == before


def test_rules_that_match_near_queries_get_new_vectors(data: Path) -> None:
    rule = {"query": {"near": "which tree has number 3"}, "pin": [{"id": "tree-9", "position": 1}]}
    with served(data, HashingEncoder()) as wood:
        good(wood.client.put(f"{wood.path}/rules/near", json=rule))
    with running(data) as runtime:
        reencode(runtime, runtime.collection("wood"))
    with served(data) as wood:
        assert wood.ids("which tree has number 3")[0] == "tree-9"


def test_models_of_the_old_vectors_are_kept_but_not_served(data: Path) -> None:
    with running(data) as runtime:
        reencode(runtime, runtime.collection("wood"))
    with served(data) as wood:
        assert wood.search("tree")["model"] == {"version": 0, "alias": "champion"}
        assert wood.get("models/1")["lineage"]["encoder"] == "hashing-64-64"
        assert wood.get("models")["aliases"] == {"champion": 0}
        champion = f"{wood.path}/models/aliases/champion"
        problem(wood.client.put(champion, json={"version": 1, "force": True}), 409, "encoder_mismatch")
        problem(wood.client.post(f"{champion}/rollback"), 409, "encoder_mismatch")
        problem(wood.client.post(f"{wood.path}/search", json={"q": "a", "model": 1}), 409, "encoder_mismatch")
        problem(wood.client.post(f"{wood.path}/search", json={"q": "a", "model": "challenger"}), 404, "model_not_found")
        problem(wood.client.post(f"{wood.path}/evaluations", json={"models": [1]}), 409, "encoder_mismatch")
        history = good(wood.client.put(champion, json={"version": 0}))["history"]
        assert any("encoded again" in move["reason"] for move in history)
        run = wood.train(promote="never", budget_seconds=1)
        assert (run["model_version"], run["decision"]["earlier_decisions"]) == (2, 0)


def test_a_model_of_the_documents_is_made_again_for_the_new_vectors(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(from_documents, "MIN_DOCUMENTS", 30)

    def reason(wood: CollectionClient) -> str | None:
        runtime = runtime_of(wood.client)
        with runtime.database.read() as connection:
            return from_documents.why_due(runtime, runtime.collection("wood"), connection)

    with served(data, HashingEncoder()) as wood:
        good(wood.client.put(wood.path, json={"train_from_documents": True}))
        assert reason(wood) is None, "a labelled model serves"
        run = wood.train(learn_from="documents")
        good(
            wood.client.put(
                f"{wood.path}/models/aliases/champion", json={"version": run["model_version"], "force": True}
            )
        )
        assert reason(wood) is None, "the collection has not doubled"
    with running(data) as runtime:
        reencode(runtime, runtime.collection("wood"))
    with served(data) as wood:
        assert reason(wood) == "the collection has 30 documents and no model of its own"


def test_a_model_of_the_documents_is_made_again_after_the_way_back(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(from_documents, "MIN_DOCUMENTS", 30)
    with served(data, HashingEncoder()) as wood:
        good(wood.client.put(wood.path, json={"train_from_documents": True}))
        version = wood.train(learn_from="documents")["model_version"]
        good(wood.client.put(f"{wood.path}/models/aliases/champion", json={"version": version, "force": True}))
    for encoder in (WIDE, HashingEncoder()):
        with running(data, encoder) as runtime:
            reencode(runtime, runtime.collection("wood"))
            with runtime.database.read() as connection:
                assert from_documents.why_due(runtime, runtime.collection("wood"), connection) is not None


def test_models_serve_again_after_the_way_back(data: Path) -> None:
    for encoder in (WIDE, HashingEncoder()):
        with running(data, encoder) as runtime:
            reencode(runtime, runtime.collection("wood"))
    with served(data, HashingEncoder()) as wood:
        good(wood.client.put(f"{wood.path}/models/aliases/champion", json={"version": 1, "force": True}))
        assert wood.search("tree")["model"]["version"] == 1


def test_an_interruption_before_the_switch_changes_nothing(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(data, HashingEncoder()) as wood:
        before = wood.ranking("which tree has number 3")

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with running(data) as runtime, monkeypatch.context() as patched:
        patched.setattr(reencoding_repository, "switch_encoder", interrupted)
        with pytest.raises(KeyboardInterrupt):
            reencode(runtime, runtime.collection("wood"))
    with served(data, HashingEncoder()) as wood:
        assert wood.ranking("which tree has number 3") == before
        assert sorted(runtime_of(wood.client).collections) == ["default", "wood"]
        with runtime_of(wood.client).database.read() as connection:
            assert connection.exec_driver_sql("SELECT count(*) FROM collections").scalar() == 2
            assert connection.exec_driver_sql("SELECT count(*) FROM documents").scalar() == 30


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the blocks of four documents that are encoded; the fifth block is interrupted, once."""
    sizes: list[int] = []

    def encode(encoder: Any, records: Any, kinds: Any, stored: Any) -> Any:
        assert not stored, "vectors of the old encoder"
        sizes.append(len(records))
        if len(sizes) == 5:
            raise KeyboardInterrupt
        return encode_documents(encoder, records, kinds)

    monkeypatch.setattr(rows_beside, "encode_documents", encode)
    monkeypatch.setattr(rows_beside, "CHUNK", 4)
    return sizes


def test_a_second_attempt_goes_on_with_the_vectors_of_the_first(data: Path, encoded: list[int]) -> None:
    with running(data) as runtime, pytest.raises(KeyboardInterrupt):
        reencode(runtime, runtime.collection("wood"))
    damaged = sorted((data / encoded_blocks.FOLDER).rglob("*.npz"))[0]
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with running(data) as runtime:
        reencode(runtime, runtime.collection("wood"))
    assert encoded[5:] == [4, 4, 4, 4, 2], "the damaged block, and those that were not encoded before"
    assert not (data / encoded_blocks.FOLDER).exists()
    with served(data) as wood:
        assert wood.ids("tree number 7")[0] == "tree-7"


def test_a_changed_document_is_not_encoded_by_its_old_text(data: Path, encoded: list[int]) -> None:
    with running(data) as runtime, pytest.raises(KeyboardInterrupt):
        reencode(runtime, runtime.collection("wood"))
    kept = shutil.copytree(data / encoded_blocks.FOLDER, data.parent / "kept")
    with served(data, HashingEncoder()) as wood:
        wood.add(tree(2) | {"text": "a lonely rowan"})
    shutil.copytree(kept, data / encoded_blocks.FOLDER, dirs_exist_ok=True)
    with running(data) as runtime:
        reencode(runtime, runtime.collection("wood"))
    with served(data) as wood:
        assert wood.search("a lonely rowan", mode="dense")["hits"][0]["id"] == "tree-2"


def test_a_server_deletes_the_vectors_of_an_unfinished_attempt(data: Path, encoded: list[int]) -> None:
    with running(data) as runtime, pytest.raises(KeyboardInterrupt):
        reencode(runtime, runtime.collection("wood"))
    assert (data / encoded_blocks.FOLDER).is_dir()
    with served(data, HashingEncoder()) as wood:
        housekeeping = Housekeeping(runtime_of(wood.client))
        housekeeping.stop()
    assert not (data / encoded_blocks.FOLDER).exists()


def test_a_cluster_makes_the_vectors_of_many_documents(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in makes the first blocks and fails; the command makes the others."""
    asked: list[int] = []

    def on_cluster(settings: Settings, fingerprint: str, kinds: Any, rows: Any, table: str, check: Any) -> Any:
        assert (fingerprint, table) == (WIDE.fingerprint, "documents")
        asked.extend(rows)
        with runtime.database.read() as connection:
            for start in (0, 4):
                block = rows[start : start + 4]
                found = documents_of_rows(connection, block)
                records = [record_of(one) for one in found]
                yield block, dict(zip(block, encode_documents(WIDE, records, kinds), strict=True))
        raise ClusterFailed("it is gone")

    here: list[int] = []

    def encode(encoder: Any, records: Any, kinds: Any, stored: Any) -> Any:
        assert not stored, "vectors of the old encoder"
        here.append(len(records))
        return encode_documents(encoder, records, kinds)

    for name, value in (("encoded_on_cluster", on_cluster), ("encode_documents", encode), ("CHUNK", 4), ("BULK", 30)):
        monkeypatch.setattr(rows_beside, name, value)
    settings = Settings(encoder="hashing", data=data, log_level="warning", ray_encoders=1)
    runtime = Runtime.open(settings, WIDE)
    try:
        reencode(runtime, runtime.collection("wood"))
    finally:
        runtime.close()
    assert len(asked) == 30
    assert sum(here) == 22
    with served(data) as wood:
        assert [wood.ids(f"tree number {n}")[0] for n in (0, 7, 29)] == ["tree-0", "tree-7", "tree-29"]


def test_a_collection_with_an_unfinished_training_run_is_refused(data: Path) -> None:
    with running(data) as runtime:
        with runtime.database.write() as connection:
            connection.exec_driver_sql("UPDATE training_runs SET status = 'processing'")
        with pytest.raises(TrainingUnfinished):
            reencode(runtime, runtime.collection("wood"))
        with runtime.database.write() as connection:
            connection.exec_driver_sql("UPDATE training_runs SET status = 'succeeded'")


def test_doctor_finds_no_fault_after_the_switch(data: Path) -> None:
    from service.operations.health import diagnose

    with running(data) as runtime:
        reencode(runtime, runtime.collection("wood"))
        assert [check for check in diagnose(runtime) if not check["ok"] and "wood" in check["name"]] == []
        assert [check for check in diagnose(runtime) if check["name"] in ("database", "foreign keys")]
        assert all(check["ok"] for check in diagnose(runtime) if check["name"] in ("database", "foreign keys"))


@pytest.fixture
def command(data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run `softseek reencode` with the wide encoder; return stdout and stderr."""
    for name in [name for name in os.environ if name.upper().startswith("SOFTSEEK_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(data.parent)
    monkeypatch.setattr(runtime_module, "load_encoder", lambda *_: WIDE)

    def run(*arguments: Any, code: int = 0) -> tuple[str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["reencode", *map(str, arguments), "--data", str(data)])
        shown = capsys.readouterr()
        assert (ended.value.code or 0) == code, shown.err
        return shown.out, shown.err

    return run


def test_the_command_says_what_it_did(command: Command) -> None:
    _, err = command("nowhere", "--encoder", "wide", code=1)
    assert "no such collection" in err
    out, err = command("wood", "--encoder", "wide")
    assert "wood: 30 documents and 31 past queries encoded with wide" in out
    assert "champion: model 0 (untrained) instead of model 1" in out
    assert "SOFTSEEK_ENCODER=wide" in err
    assert json.loads(command("wood", "--encoder", "wide", "--json")[0])["changed"] is False
    assert "anonymous" not in out


def test_empty_collections_get_the_encoder_too_and_all_others_are_named(data: Path, command: Command) -> None:
    with served(data, HashingEncoder()) as wood:
        ruled = create(wood.client, "blank")
        good(wood.client.put(f"{ruled.path}/rules/a", json={"query": {"exact": "x"}, "hide": ["y"]}))
        create(wood.client, "oaks").add(tree(1))
    _, err = command("wood", "--encoder", "wide")
    for name in ("blank", "default"):
        assert f"{name} is empty and has the encoder wide from now on" in err
    assert "oaks has another encoder" in err
    told = json.loads(command("wood", "--encoder", "wide", "--json")[0])
    assert (told["empty"], told["others"]) == ([], ["oaks"])
    assert "empty" not in command("oaks", "--encoder", "wide")[1]
    with served(data) as wood:
        for name in ("blank", "default", "wood", "oaks"):
            CollectionClient(wood.client, name).add(tree(99))
            assert CollectionClient(wood.client, name).ids("number 99")[0] == "tree-99"


@pytest.mark.parametrize("is_json", [False, True])
def test_the_command_says_how_many_anonymous_past_queries_it_deleted(
    data: Path, command: Command, is_json: bool
) -> None:
    now = datetime.now(UTC)
    old = {"timestamp": rfc3339(now - timedelta(days=10))}
    with served(data, HashingEncoder()) as wood:
        good(wood.client.put(wood.path, json={"retention_days": 1}))
        for query, id in (("fir", "tree-1"), ("fir", "tree-2"), ("Fir", "tree-2"), ("elm", "tree-3")):
            wood.post("events", event(id, user_query=query) | old)
        forget_old_feedback(runtime_of(wood.client), now)
        assert wood.get()["counts"]["keys"]["query"] == 31 + 3
    out, _ = command("wood", "--encoder", "wide", *(["--json"] if is_json else []))
    if is_json:
        assert json.loads(out)["done"]["anonymous_queries_deleted"] == 2
    else:
        deleted = "2 anonymous past queries were deleted: their texts are not stored, so they cannot be encoded"
        assert deleted in out.splitlines()
    with served(data) as wood:
        assert wood.get()["counts"]["keys"]["query"] == 31
