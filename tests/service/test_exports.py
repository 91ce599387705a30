"""Everything is exported as lines of JSON, and imported with equal content."""

import hashlib
import json
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest
from fastapi.testclient import TestClient

from index.generation.store import GenerationStore
from service.cli.exports import saved
from service.cli.failures import Failure
from service.documents import imports
from service.exports.importing import Importer
from service.exports.record_repository import NOT_EXPORTED, TABLES
from service.snapshots.state import StateHash, state_hash
from service.storage.base import METADATA
from tests.service.client import DEADLINE_SECONDS, CollectionClient, create, ended, good, opened, problem, runtime_of
from tests.service.test_snapshot_files import command
from tests.service.test_snapshots import NIGHT, filled


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("exports") / "data"
    filled(data)
    return data


@pytest.fixture(scope="module")
def client(data: Path) -> Iterator[TestClient]:
    with opened(data) as client:
        yield client


@pytest.fixture(scope="module")
def exported(client: TestClient) -> bytes:
    answer = client.get("/v1/export")
    assert answer.headers["content-type"] == "application/x-ndjson"
    return answer.content


def state_of(client: TestClient) -> StateHash:
    with runtime_of(client).database.read() as connection:
        return state_hash(connection)


def imported(client: TestClient, body: bytes) -> dict[str, Any]:
    """Import an export; return the task when it has ended."""
    task = good(client.post("/v1/import", content=body, headers={"Content-Type": "application/x-ndjson"}))
    return ended(lambda: good(client.get(f"/v1/tasks/{task['id']}")))  # type: ignore[no-any-return]


def sealed(records: list[dict[str, Any]]) -> bytes:
    """Return records as an export with a right last line."""
    body = b"".join(orjson.dumps(record) + b"\n" for record in records)
    end = {"type": "end", "lines": len(records), "sha256": hashlib.sha256(body).hexdigest()}
    return body + orjson.dumps(end) + b"\n"


def records_of(exported: bytes) -> list[dict[str, Any]]:
    """Return the header and the records of an export."""
    return [json.loads(line) for line in exported.splitlines()][:-1]


def test_every_table_is_exported_or_named_as_not_exported() -> None:
    assert set(TABLES.values()) | NOT_EXPORTED == set(METADATA.tables)


def test_an_imported_export_has_equal_content_and_the_same_ranking(
    client: TestClient, exported: bytes, tmp_path: Path
) -> None:
    wood = CollectionClient(client, "wood")
    with opened(tmp_path / "copy") as other:
        done = imported(other, exported)
        assert done["status"] == "succeeded", done
        assert done["result"] == {"records": len(records_of(exported)) - 1, "collections": ["default", "wood"]}
        assert state_of(other) == state_of(client)
        copy = CollectionClient(other, "wood")
        assert copy.ranking(NIGHT) == wood.ranking(NIGHT)
        assert good(other.get("/v1/collections/forest"))["champion"] == 1
        assert copy.ids("oak")[0] == "tree-1"
        copy.add({"id": "new", "text": "a new document"})
        copy.act("new", user_query="brand new")
        again = other.get("/v1/export").content
    with opened(tmp_path / "copy") as other:
        assert CollectionClient(other, "wood").ids("brand new")[0] == "new"
        assert other.get("/v1/export").content.splitlines()[1:-1] == again.splitlines()[1:-1]


def test_a_run_that_goes_on_during_the_export_is_imported_as_interrupted(exported: bytes, tmp_path: Path) -> None:
    run = {
        "type": "training_run",
        "collection": "wood",
        "id": "r",
        "status": "processing",
        "seed": 0,
        "promote": "auto",
    }
    run |= {"budget_seconds": 60, "click_reading": "auto", "resumptions": 0, "cancel_requested": False}
    run |= {"progress_done": 1, "progress_total": 9, "steps": [], "data": {}, "report": {}, "decision": {}}
    run |= {"model_version": None, "error": None, "created_at": "2026-09-20T10:00:00.000Z", "finished_at": None}
    records = records_of(exported)
    at = next(at for at, record in enumerate(records) if record["type"] == "model")
    with opened(tmp_path / "copy") as other:
        assert imported(other, sealed([*records[:at], run, *records[at:]]))["status"] == "succeeded"
        stored = good(other.get("/v1/collections/wood/training-runs/r"))
        assert (stored["status"], stored["error"]["code"]) == ("failed", "interrupted")
        assert stored["finished_at"] > stored["created_at"]


def test_an_import_gives_new_numbers_beside_other_collections(
    exported: bytes, client: TestClient, tmp_path: Path
) -> None:
    with opened(tmp_path / "other") as other:
        first = CollectionClient(other, "default")
        first.add({"id": "mine", "text": "an own document"})
        first.act("mine", user_query="own")
        assert imported(other, exported)["result"]["collections"] == ["wood"], "the export has nothing in default"
        assert first.ids("own") == ["mine"]
        assert CollectionClient(other, "wood").ranking(NIGHT) == CollectionClient(client, "wood").ranking(NIGHT)
        assert imported(other, exported)["error"]["code"] == "collection_in_use"


def test_a_collection_with_an_accepted_import_of_documents_is_not_replaced(exported: bytes, tmp_path: Path) -> None:
    with opened(tmp_path / "other") as other:
        runtime = runtime_of(other)
        with runtime.database.write() as connection:
            task = runtime.jobs.enqueued(connection, "documents_import", "default")
        before = runtime.collection("default").id
        assert imported(other, exported)["result"]["collections"] == ["wood"]
        assert runtime.collection("default").id == before
        runtime.jobs.run(task, lambda _: {})
        CollectionClient(other).ended_task({"id": task})


def test_a_collection_whose_import_of_documents_began_under_another_name_is_not_replaced(
    exported: bytes, tmp_path: Path
) -> None:
    with opened(tmp_path / "other") as other:
        runtime, going_on = runtime_of(other), threading.Event()
        state = runtime.collection(create(other, "blank").name)
        with runtime.database.write() as connection:
            task = runtime.jobs.enqueued(connection, imports.KIND, state.name)
        runtime.jobs.run(task, lambda _: {"ended": going_on.wait(DEADLINE_SECONDS)})
        good(other.post("/v1/collections/swap", json={"a": "blank", "b": "default"}))
        before = runtime.collection("default").id
        assert imported(other, exported)["result"]["collections"] == ["wood"]
        assert runtime.collection("default").id == before
        going_on.set()
        CollectionClient(other).ended_task({"id": task})


def test_an_alias_of_a_collection_that_is_left_out_is_left_out_too(tmp_path: Path) -> None:
    with opened(tmp_path / "from") as client:
        create(client, "oaks")
        good(client.put("/v1/aliases/shop", json={"collection": "default"}))
        body = client.get("/v1/export").content
    with opened(tmp_path / "to") as other:
        CollectionClient(other).add({"id": "mine", "text": "an own document"})
        good(other.put("/v1/aliases/shop", json={"collection": "default"}))
        assert imported(other, body)["result"]["collections"] == ["oaks"]
        assert CollectionClient(other, "shop").ids("own") == ["mine"]


def test_an_alias_that_a_deleted_collection_left_is_replaced_by_that_of_the_import(
    exported: bytes, client: TestClient, tmp_path: Path
) -> None:
    with opened(tmp_path / "other") as other:
        assert imported(other, exported)["status"] == "succeeded"
        wood = CollectionClient(other, "wood")
        other.delete(wood.path)
        assert good(other.get("/v1/aliases"))["aliases"][0]["alias"] == "forest"
        assert imported(other, exported)["status"] == "succeeded"
        assert CollectionClient(other, "forest").ranking(NIGHT) == CollectionClient(client, "wood").ranking(NIGHT)


def test_an_import_takes_no_name_of_a_collection_or_an_alias_that_is_in_use(exported: bytes, tmp_path: Path) -> None:
    taken = "{} collections or aliases of the import are in use here: {}; delete them first"
    with opened(tmp_path / "collections") as other:
        create(other, "forest")
        CollectionClient(other).add({"id": "mine", "text": "an own document"})
        error = imported(other, exported)["error"]
        assert (error["code"], error["detail"]) == ("collection_in_use", taken.format(1, "forest"))
        assert "wood" not in str(other.get("/v1/collections").json())
    with opened(tmp_path / "aliases") as other:
        good(other.put("/v1/aliases/wood", json={"collection": create(other, "mine").name}))
        good(other.put("/v1/aliases/forest", json={"collection": "mine"}))
        error = imported(other, exported)["error"]
        assert (error["code"], error["detail"]) == ("collection_in_use", taken.format(2, "forest, wood"))
        assert good(other.get("/v1/aliases/forest"))["collection"] == "mine"


def test_an_export_is_readable_by_type(exported: bytes) -> None:
    header, *records = records_of(exported)
    assert (header["type"], header["format"]) == ("softseek_export", 1)
    types = [record["type"] for record in records]
    assert types == sorted(types, key=list(TABLES).index)
    assert {"collection", "document", "key", "value", "event", "judgment", "impression", "model", "rule"} <= set(types)
    (document,) = [one for one in records if one["type"] == "document" and one["id"] == "tree-7"]
    assert (document["collection"], document["title"], document["metadata"]) == ("wood", "Tree 7", {"n": 7})
    (model,) = [one for one in records if one["type"] == "model" and one["version"] == 1]
    assert set(model["files"]) == {"head.safetensors", "manifest.json"}


BAD: dict[str, Any] = {
    "nothing": lambda records: b"",
    "not JSON": lambda records: sealed(records) + b"{",
    "the last line is missing": lambda records: sealed(records)[:-100],
    "a line is missing": lambda records: sealed(records).replace(orjson.dumps(records[5]) + b"\n", b""),
    "a byte differs": lambda records: sealed(records).replace(b"Tree 7", b"Tree 8"),
    "a later line": lambda records: sealed(records) + b'{"type": "end"}\n',
    "no header": lambda records: sealed(records[1:]),
    "another schema": lambda records: sealed([records[0] | {"schema": "9999"}, *records[1:]]),
    "an unknown type": lambda records: sealed([*records, {"type": "secret"}]),
    "an unknown member": lambda records: sealed([*records[:-1], records[-1] | {"secret": 1}]),
    "a model twice": lambda records: sealed([*records, next(one for one in records if one.get("files"))]),
    "a missing member": lambda records: sealed([*records, {"type": "alias", "name": "a"}]),
    "a wrong type": lambda records: sealed(
        [*records, {"type": "alias", "name": "a", "collection": 3, "created_at": ""}]
    ),
    "no object": lambda records: sealed(records)[:-1] + b"\n[]\n",
}  # fmt: skip
UNFIT: dict[str, tuple[str, dict[str, Any]]] = {
    "a bad name": ("collection", {"name": "../etc"}),
    "a bad setting": ("collection", {"settings": {"keys": ["passage"], "secret": 1}}),
    "a bad value of a setting": ("collection", {"settings": {"keys": "passage"}}),
    "a document without id": ("document", {"id": ""}),
    "a document of no collection": ("document", {"collection": "elsewhere"}),
    "a document twice": ("document", {"id": "tree-7"}),
    "a short vector": ("key", {"vector": "AAAA"}),
    "a vector with NaN": ("key", {"vector": "AADAfw=="}),
    "an empty vector": ("key", {"vector": ""}),
    "a short value": ("value", {"vector": "AACAPw=="}),
    "an unknown kind of key": ("key", {"kind": 9}),
    "a near rule without a vector": ("rule", {"vector": None}),
    "a key of no document": ("key", {"document_row": 12345}),
    "a rule without query": ("rule", {"body": {}}),
    "a rule of another form": ("rule", {"body": {"query": 3}}),
    "a judgment of no collection": ("judgment", {"collection": ""}),
    "a strange file": ("model", {"files": {"../evil": ""}}),
}


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("empty") / "data") as client:
        yield client


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_is_no_whole_export_changes_nothing(empty: TestClient, exported: bytes, name: str) -> None:
    before = state_of(empty)
    done = imported(empty, BAD[name](records_of(exported)))
    assert (done["status"], done["error"]["code"]) == ("failed", "invalid_export"), done
    assert "secret" not in done["error"]["detail"]
    assert state_of(empty) == before


@pytest.mark.parametrize("name", UNFIT)
def test_a_record_that_does_not_fit_changes_nothing(empty: TestClient, exported: bytes, name: str) -> None:
    kind, change = UNFIT[name]
    records = records_of(exported)
    at = next(at for at, one in enumerate(records) if one["type"] == kind and one.get("id") != "tree-7")
    if kind == "collection":
        at += 1
    records[at] |= change
    before, data = state_of(empty), runtime_of(empty).settings.data
    folders = sorted(data.glob("indexes/*"))
    done = imported(empty, sealed(records))
    assert (done["status"], done["error"]["code"]) == ("failed", "invalid_export"), done
    assert state_of(empty) == before
    assert sorted(data.glob("indexes/*")) == folders
    assert good(empty.get("/v1/collections"))["collections"][0]["name"] == "default"


@pytest.mark.sqlite
def test_an_import_that_is_killed_leaves_what_was_there(
    exported: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files before the commit are what a kill leaves. They are not used, and the import can be repeated."""

    def kill(importer: Importer, name: str) -> None:
        if name == "wood":
            shutil.copytree(tmp_path / "data", tmp_path / "killed")

    monkeypatch.setattr(Importer, "_try", kill)
    with opened(tmp_path / "data") as client:
        before = state_of(client)
        assert imported(client, exported)["status"] == "succeeded"
    monkeypatch.undo()
    with opened(tmp_path / "killed") as client:
        assert state_of(client) == before
        assert list(runtime_of(client).settings.data.glob("imports/*")) == []
        assert imported(client, exported)["status"] == "succeeded"
        assert good(client.get("/v1/collections/wood"))["counts"]["documents"] > 0


def test_a_collection_whose_documents_are_not_resumed_is_open_all_the_same(
    exported: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("too many tasks are waiting")

    with opened(tmp_path / "data") as other:
        monkeypatch.setattr("service.exports.importing.resume_collection", refuse)
        done = imported(other, exported)
        assert done["status"] == "succeeded", done
        assert CollectionClient(other, "wood").ids(NIGHT)


def test_the_index_of_a_replaced_collection_is_closed_while_nothing_else_uses_it(
    exported: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close, is_free = GenerationStore.close, []
    with opened(tmp_path / "data") as other:
        state = runtime_of(other).collection("default")

        def lock_is_free() -> bool:
            if free := state.lock.acquire(blocking=False):
                state.lock.release()
            return free

        def noting(store: GenerationStore) -> None:
            if store is state.store:
                with ThreadPoolExecutor(1) as another_thread:
                    is_free.append(another_thread.submit(lock_is_free).result())
            close(store)

        with monkeypatch.context() as patched:
            patched.setattr(GenerationStore, "close", noting)
            assert imported(other, exported)["status"] == "succeeded"
    assert is_free == [False]


def test_the_number_of_exports_at_a_time_is_bounded(client: TestClient) -> None:
    slots = runtime_of(client).export_slots
    with slots, slots:
        problem(client.get("/v1/export"), 503, "overloaded")
    assert client.get("/v1/export").status_code == 200
    assert slots.acquire(blocking=False)
    slots.release()


def test_two_exports_to_one_name_do_not_write_into_each_other(tmp_path: Path) -> None:
    path, end = tmp_path / "a.ndjson", b'{"type":"end","records":1}\n'
    (tmp_path / "a.ndjson.part").write_bytes(b"of the user")

    def slow() -> Iterator[bytes]:
        yield b'{"first":1}\n'
        assert saved([b'{"second":2}\n{"second":3}\n', end], path) == 3
        assert path.read_bytes() == b'{"second":2}\n{"second":3}\n' + end
        yield b'{"first":4}\n'
        assert path.read_bytes() == b'{"second":2}\n{"second":3}\n' + end
        yield end

    assert saved(slow(), path) == 3
    assert path.read_bytes() == b'{"first":1}\n{"first":4}\n' + end
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(Failure):
        saved([b'{"first":1}\n'], path)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.ndjson", "a.ndjson.part"]
    assert (tmp_path / "a.ndjson.part").read_bytes() == b"of the user"


def test_the_command_line_exports_and_imports(
    exported: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: Any
) -> None:
    monkeypatch.setenv("SOFTSEEK_ENCODER", "hashing")
    file, copy = tmp_path / "all.ndjson", ["--data", str(tmp_path / "copy")]
    file.write_bytes(exported)
    assert command("import", str(file), *copy, "--json") == 0
    assert json.loads(capfdbinary.readouterr().out)["collections"] == ["default", "wood"]
    assert command("export", str(tmp_path / "again.ndjson"), *copy, "--json") == 0
    assert json.loads(capfdbinary.readouterr().out)["lines"] == len(exported.splitlines())
    again = (tmp_path / "again.ndjson").read_bytes()
    assert len(again.splitlines()) == len(exported.splitlines())
    assert command("export", "-", *copy) == 0
    assert capfdbinary.readouterr().out.splitlines()[1:-1] == again.splitlines()[1:-1]
    assert command("import", str(file), *copy) == 1
    shown = capfdbinary.readouterr().err
    assert b"collection_in_use" in shown
    assert b"Traceback" not in shown
