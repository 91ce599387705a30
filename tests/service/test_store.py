"""Acknowledged data survives restarts, killed processes and damaged index files."""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

import service.runtime.runtime
from index.encoding.hashing_encoder import HashingEncoder
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.checkpoint import head_files
from service.documents.acceptance import accept
from service.operations.health import diagnose
from service.runtime.model_registry import register
from service.storage.owner_lock import DirectoryOwned, OwnerLock
from service.storage.tables import QUERIES
from tests.service.client import DEADLINE_SECONDS, CollectionClient, good, opened, runtime_of
from tests.service.stored_models import set_file, stored_model

ROOT = Path(__file__).parents[2]
BIRDS = (
    "albatross bittern crane dunlin eider falcon goshawk heron ibis jackdaw kestrel lapwing magpie nightjar osprey "
    "partridge quail raven sandpiper tern"
).split()
QUESTIONS = ("falcon", "a bird called heron", "which bird is it")


def bird(name: str) -> dict[str, Any]:
    return {"id": name, "title": f"the {name}", "text": f"{name} is the name of a bird"}


def answers(client: TestClient) -> list[list[tuple[str, float, float]]]:
    """Return the hits of a few searches, with logits and weights."""
    return [CollectionClient(client).ranking(question) for question in QUESTIONS]


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """The directory of a closed service with a saved index, and the hits of its searches."""
    data = tmp_path_factory.mktemp("closed") / "data"
    with opened(data) as client:
        aviary = CollectionClient(client)
        aviary.add(*map(bird, BIRDS))
        aviary.act("heron", user_query="a bird called heron")
        found = answers(client)
    return data, found


@pytest.fixture
def data(closed: tuple[Path, list[Any]], tmp_path: Path) -> Path:
    """A copy of the closed directory."""
    shutil.copytree(closed[0], tmp_path / "data")
    return tmp_path / "data"


def index_of(data: Path) -> Path:
    (folder,) = (data / "indexes").iterdir()
    return folder


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def words_file(index: Path) -> Path:
    return max((index / "words").glob("*.*"), key=lambda path: path.stat().st_size)


def delete_file(path: Path) -> None:
    path.unlink()


def delete_folder(path: Path) -> None:
    shutil.rmtree(path)


def test_an_intact_index_is_not_rebuilt(
    data: Path, closed: tuple[Path, list[Any]], capfd: pytest.CaptureFixture[str]
) -> None:
    with opened(data) as client:
        assert answers(client) == closed[1]
    assert "index_rebuilt" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("place", "damage"),
    [
        (lambda index: index / "keys-1.f32", flip_a_byte),
        (lambda index: index / "rows.npy", flip_a_byte),
        (lambda index: index / "dense.faiss", flip_a_byte),
        (words_file, flip_a_byte),
        (lambda index: index / "manifest.json", flip_a_byte),
        (lambda index: index / "keys-1.f32", delete_file),
        (lambda index: index / "manifest.json", delete_file),
        (words_file, delete_file),
        (lambda index: index, delete_folder),
        (lambda index: index.parent, delete_folder),
    ],
)
def test_a_damaged_index_is_rebuilt_and_nothing_is_lost(
    data: Path,
    closed: tuple[Path, list[Any]],
    place: Callable[[Path], Path],
    damage: Callable[[Path], None],
    capfd: pytest.CaptureFixture[str],
) -> None:
    damage(place(index_of(data)))
    with opened(data) as client:
        assert answers(client) == closed[1]
        assert CollectionClient(client).get()["counts"]["documents"] == len(BIRDS)
    assert "index_rebuilt" in capfd.readouterr().err
    with opened(data) as client:
        assert answers(client) == closed[1]
    assert "index_rebuilt" not in capfd.readouterr().err


def test_an_index_older_than_its_documents_is_rebuilt(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data / "indexes", tmp_path / "older")
    with opened(data) as client:
        CollectionClient(client).add({"id": "wren", "text": "wren is the name of a small bird"})
        found = answers(client)
    shutil.rmtree(data / "indexes")
    shutil.copytree(tmp_path / "older", data / "indexes")
    with opened(data) as client:
        assert answers(client) == found
        assert CollectionClient(client).ids("wren")[0] == "wren"


def test_a_second_owner_is_refused_with_the_pid_of_the_first(data: Path) -> None:
    program = (
        "import sys, pathlib; from service.storage.owner_lock import OwnerLock; OwnerLock(pathlib.Path(sys.argv[1]))"
    )
    with opened(data):
        second = subprocess.run(
            [sys.executable, "-c", program, str(data)], capture_output=True, text=True, cwd=ROOT, check=False
        )
        with pytest.raises(DirectoryOwned, match=f"process {os.getpid()}$"), opened(data):
            pass
    assert second.returncode == 1
    assert f"DirectoryOwned: the data directory {data} is owned by process {os.getpid()}" in second.stderr
    OwnerLock(data).release()


def put_model(client: TestClient, scale: float = 0.5) -> int:
    """Register an untrained model and return its version."""
    aviary, runtime = CollectionClient(client), runtime_of(client)
    state = runtime.collection("default")
    initial = AttentionHead(HeadConfig(state.dim))
    head = initial.changed(beta=scale * initial.beta)
    files = head_files(head, {"kind": "by hand"})
    version = len(aviary.get("models")["models"])
    with state.lock, runtime.database.write() as connection:
        register(state, connection, files, version, {"lineage": {}, "report": {}, "decision": {}})
    return version


def damaged_model(data: Path, version: int) -> bytes:
    """Flip a bit in the stored weights of a version; return the weights of before."""
    body = stored_model(data, version)["head.safetensors"]
    set_file(data, version, "head.safetensors", body[:-1] + bytes([body[-1] ^ 1]))
    return body


def promote(client: TestClient, version: int) -> Any:
    return client.put(
        f"{CollectionClient(client).path}/models/aliases/champion", json={"version": version, "force": True}
    )


def test_a_damaged_model_is_not_promoted(data: Path, closed: tuple[Path, list[Any]]) -> None:
    with opened(data) as client:
        version = put_model(client)
        damaged_model(data, version)
        refused = promote(client, version)
        assert (refused.status_code, refused.json()["code"]) == (409, "model_damaged")
        assert CollectionClient(client).get("models")["aliases"]["champion"] == 0
        by_version = client.post("/v1/collections/default/search", json={"q": "x", "model": version})
        assert (by_version.status_code, by_version.json()["code"]) == (409, "model_damaged")
        assert CollectionClient(client).search("heron")["degraded"] == []
        assert answers(client) == closed[1]


def test_version_0_serves_while_the_champion_is_damaged_and_every_answer_reports_it(
    data: Path, closed: tuple[Path, list[Any]]
) -> None:
    with opened(data) as client:
        version = put_model(client)
        good(promote(client, version))
        changed = answers(client)
    assert changed != closed[1]
    intact = damaged_model(data, version)
    with opened(data) as client:
        answer = CollectionClient(client).search("heron")
        assert (answer["model"]["version"], answer["degraded"]) == (0, ["champion_damaged"])
        assert answers(client) == closed[1]
        assert client.get("/readyz").json()["degraded"] == {"default": ["champion_damaged"]}
        assert CollectionClient(client).get("models")["aliases"]["champion"] == version
    set_file(data, version, "head.safetensors", intact)
    with opened(data) as client:
        assert CollectionClient(client).search("heron")["degraded"] == []
        assert answers(client) == changed


def test_documents_accepted_but_not_encoded_are_searchable_after_a_restart(data: Path) -> None:
    with opened(data) as client:
        runtime = runtime_of(client)
        accept(runtime, runtime.collection("default"), [bird("wagtail"), bird("heron") | {"text": "a grey wader"}])
        assert CollectionClient(client).get()["counts"]["pending"] == 2
        assert "wagtail" not in CollectionClient(client).ids("wagtail")
        assert CollectionClient(client).get("documents/wagtail")["title"] == "the wagtail"
    with opened(data) as client:
        aviary = CollectionClient(client)
        aviary.until_indexed()
        assert aviary.ids("wagtail")[0] == "wagtail"
        assert aviary.get("documents/heron")["text"] == "a grey wader"
        assert "heron" in aviary.ids("grey wader", mode="words")
        assert aviary.get()["counts"]["documents"] == len(BIRDS) + 1


def test_deleted_and_replaced_documents_are_not_found_on_return(data: Path) -> None:
    with opened(data) as client:
        aviary = CollectionClient(client)
        assert client.delete("/v1/collections/default/documents/falcon").status_code == 204
        assert "falcon" not in aviary.ids("falcon", limit=100)
        assert aviary.post("documents/delete", {"ids": ["crane", "tern", "dodo"]})["result"] == {"deleted": 2}
        assert not {"crane", "tern"} & set(aviary.ids("crane tern", limit=100))
        client.put("/v1/collections/default/documents/raven", json={"text": "no longer what it was"})
        assert aviary.ids("the name of a bird", mode="words", limit=100).count("raven") == 0
        assert [one for one in aviary.ids("no longer what it was", limit=100) if one == "raven"] == ["raven"]
        found = answers(client)
    with opened(data) as client:
        assert answers(client) == found


def test_a_replaced_document_keeps_its_memory_and_a_deleted_document_loses_it(data: Path) -> None:
    def memory_of(aviary: CollectionClient) -> dict[str, float]:
        hits = aviary.search("a bird called heron", explain=True, log=False, limit=100)["hits"]
        return {hit["id"]: hit["explain"]["parts"]["memory"] for hit in hits if hit["explain"]["parts"]["memory"]}

    with opened(data) as client:
        aviary = CollectionClient(client)
        before = memory_of(aviary)
        assert before.keys() == {"heron"}
        aviary.add(bird("heron") | {"text": "a long-legged wader"})
        assert memory_of(aviary) == before
    with opened(data) as client:
        aviary = CollectionClient(client)
        assert memory_of(aviary) == before
        client.delete("/v1/collections/default/documents/heron")
        assert memory_of(aviary) == {}
        aviary.add(bird("heron"))
        assert memory_of(aviary) == {}


def test_a_collection_of_another_encoder_refuses_searches_and_changes(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.runtime.runtime, "load_encoder", lambda *_: HashingEncoder(dim=32))
    with opened(data) as client:
        asked = {
            "search": {"q": "falcon"},
            "documents": {"documents": [bird("wren")]},
            "events": {
                "action_name": "click",
                "timestamp": "2026-01-01T00:00:00Z",
                "user_query": "falcon",
                "event_attributes": {"object": {"object_id": "falcon"}},
            },
            "judgments": {"judgments": [{"query": "falcon", "document_id": "falcon", "rating": 3}]},
            "evaluations": {"qrels": {"falcon": {"falcon": 1}}},
            "training-runs": {"learn_from": "documents"},
        }
        for path, body in asked.items():
            refused = client.post(f"/v1/collections/default/{path}", json=body)
            assert (refused.status_code, refused.json()["code"]) == (409, "encoder_mismatch"), path
        put = client.put("/v1/collections/default/documents/wren", json={"text": "wren"})
        assert (put.status_code, put.json()["code"]) == (409, "encoder_mismatch")
        counts = CollectionClient(client).get()["counts"]
        assert (counts["documents"], counts["pending"], counts["events"]) == (len(BIRDS), 0, 1)
        assert client.put("/v1/collections/new", json={}).json()["encoder"]["dim"] == 32
        CollectionClient(client, "new").add(bird("wren"))
        assert CollectionClient(client, "new").ids("wren") == ["wren"]


def test_impressions_are_stored_across_a_restart(data: Path) -> None:
    with opened(data) as client:
        shown = CollectionClient(client).search("falcon", limit=2, client_id="c")
    with opened(data) as client:
        logged = CollectionClient(client).get(f"queries/{shown['query_id']}")
        assert [one["id"] for one in logged["shown"]] == [hit["id"] for hit in shown["hits"]]
        accepted = CollectionClient(client).act(shown["hits"][1]["id"], query_id=shown["query_id"])
        assert accepted == {"accepted": 1, "rejected": []}


def test_an_impression_that_cannot_be_stored_does_not_affect_others(data: Path) -> None:
    with opened(data) as client:
        runtime, zeroth = runtime_of(client), CollectionClient(client).search("falcon")
        runtime.impressions.flush()
        with runtime.database.read() as connection:
            row = dict(connection.execute(select(QUERIES)).mappings().one())
        with runtime.database.write():  # blocks the writer, so that the next impressions form a batch
            first = CollectionClient(client).search("falcon")
            runtime.impressions.add(row | {"query_id": "of a deleted collection", "collection_id": 10**6})
            second = CollectionClient(client).search("heron")
        for shown in (zeroth, first, second):
            assert CollectionClient(client).get(f"queries/{shown['query_id']}")["query_id"] == shown["query_id"]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[str], Path]]:
    """A server in a process of its own, on an empty directory."""
    program = "from service.start import main; main()"
    settings = {"PYTHONPATH": str(ROOT), "SOFTSEEK_ENCODER": "hashing", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", program, "serve", "--data", "data", "--port", "0", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=os.environ | settings
    ) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["url"], process, tmp_path / "data"
        finally:
            process.kill()
            process.wait(60)


def test_documents_acknowledged_before_kill_9_are_searchable_after_a_restart(
    served: tuple[str, subprocess.Popen[str], Path],
) -> None:
    url, process, data = served
    acknowledged: list[str] = []
    enough = threading.Event()

    def post() -> None:
        with httpx.Client(base_url=url, trust_env=False, timeout=DEADLINE_SECONDS) as client:
            for batch in range(100_000):
                names = [f"feather{batch}x{n}" for n in range(5)]
                documents = [{"id": name, "text": f"{name} of a bird"} for name in names]
                try:
                    answer = client.post("/v1/collections/default/documents", json={"documents": documents})
                except httpx.TransportError:
                    return
                if answer.is_success:
                    acknowledged.extend(names)
                if len(acknowledged) >= 300:
                    enough.set()

    poster = threading.Thread(target=post)
    poster.start()
    assert enough.wait(DEADLINE_SECONDS)
    with pytest.raises(DirectoryOwned, match=f"process {process.pid}$"):
        OwnerLock(data)
    process.kill()
    process.wait(60)
    poster.join(DEADLINE_SECONDS)
    with opened(data) as client:
        aviary = CollectionClient(client)
        aviary.until_indexed()
        assert aviary.get()["counts"]["documents"] >= len(acknowledged) >= 300
        lost = [name for name in acknowledged if aviary.ids(name, mode="words", limit=1) != [name]]
        assert lost == []


def test_a_search_that_finds_a_damaged_key_rebuilds_the_index_and_answers(
    data: Path, closed: tuple[Path, list[Any]], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("index.generation.store.TAIL_KEYS", 1)  # all keys are sealed; a start does not read sealed keys
    with opened(data) as client:
        CollectionClient(client).add({"id": "wren", "text": "wren is the name of a small bird"})
        found = answers(client)
    keys = index_of(data) / "keys-1.f32"
    keys.write_bytes(bytes(keys.stat().st_size))
    capfd.readouterr()
    with opened(data) as client:
        assert "index_rebuilt" not in capfd.readouterr().err
        checks = {check["name"]: check["ok"] for check in diagnose(runtime_of(client))}
        assert not checks["keys of default"]
        assert answers(client) == found
        assert capfd.readouterr().err.count("index_rebuilt") == 1
        checks = {check["name"]: check["ok"] for check in diagnose(runtime_of(client))}
        assert checks["keys of default"]
    with opened(data) as client:
        assert answers(client) == found
    assert "index_rebuilt" not in capfd.readouterr().err
