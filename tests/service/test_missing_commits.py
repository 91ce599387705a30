"""A start notices that committed changes are missing from the database, and `doctor --repair` mends what it can."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from service.exports.importing import import_export
from service.operations.health import diagnose
from service.runtime.jobs import Progress
from tests.service.client import CollectionClient, create, opened, runtime_of


def failing(data: Path, repair: bool = False) -> set[str]:
    with opened(data) as client:
        return {check["name"] for check in diagnose(runtime_of(client), repair) if not check["ok"]}


@pytest.mark.sqlite
def test_a_start_after_a_lost_commit_says_so_until_it_is_accepted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with opened(data) as client:
        CollectionClient(client).add({"id": "a", "text": "copper wire"})
    shutil.copy(data / "softseek.db", tmp_path / "earlier.db")
    assert failing(data) == set()
    with opened(data) as client:
        CollectionClient(client).add({"id": "b", "text": "iron pot"})
        CollectionClient(client).act("b", user_query="a pot")
    shutil.copy(tmp_path / "earlier.db", data / "softseek.db")  # as after a write-ahead log that was cut
    for _ in range(2):
        with opened(data) as client:
            assert client.get("/readyz").json()["degraded"] == {"default": ["commits_missing"]}
            collection = CollectionClient(client)
            assert collection.ids("copper") == ["a"]
            for answer in (collection.search("copper"), collection.post("recommend", {"like": ["a"]})):
                assert answer["degraded"] == ["commits_missing"]
    with opened(data) as client:
        CollectionClient(client).add({"id": "c", "text": "tin lid"})  # later changes do not hide the loss
    assert failing(data) == {"changes of default"}
    assert failing(data, repair=True) == {"changes of default"}
    assert failing(data) == set()


@pytest.mark.sqlite
def test_a_lost_collection_is_reported_and_its_number_raises_no_alarm_for_another(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with opened(data) as client:
        CollectionClient(client).add({"id": "a", "text": "copper wire"})
    shutil.copy(data / "softseek.db", tmp_path / "earlier.db")
    with opened(data) as client:
        create(client, "lost").add({"id": "b", "text": "iron pot"})
    shutil.copy(tmp_path / "earlier.db", data / "softseek.db")
    assert failing(data) == {"collections"}
    assert failing(data, repair=True) == {"collections"}
    assert failing(data) == set()
    with opened(data) as client:
        create(client, "lost").add({"id": "b", "text": "iron pot"})
    shutil.copy(tmp_path / "earlier.db", data / "softseek.db")
    with opened(data) as client:
        create(client, "next")
        assert client.get("/readyz").json()["degraded"] == {}
    assert failing(data) == set()


def test_an_imported_collection_is_watched(tmp_path: Path) -> None:
    with opened(tmp_path / "source") as client:
        create(client, "wood").add({"id": "a", "text": "copper wire"})
        exported = client.get("/v1/export").content
    path = tmp_path / "export"
    path.write_bytes(exported)
    data = tmp_path / "data"
    with opened(data) as client:
        import_export(runtime_of(client), path, Progress(runtime_of(client).database, ""))
        with closing(sqlite3.connect(data / "softseek.db")) as connection:
            connection.execute("VACUUM INTO ?", (str(tmp_path / "earlier.db"),))
        CollectionClient(client, "wood").add({"id": "b", "text": "iron pot"})
    shutil.copy(tmp_path / "earlier.db", data / "softseek.db")
    with opened(data) as client:
        assert client.get("/readyz").json()["degraded"] == {"wood": ["commits_missing"]}


def test_a_repair_rebuilds_a_damaged_index(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with opened(data) as client:
        CollectionClient(client).add({"id": "a", "text": "copper wire"}, {"id": "b", "text": "iron pot"})
    (keys,) = data.glob("indexes/*/keys-*.f32")
    content = bytearray(keys.read_bytes())
    content[5] ^= 1
    keys.write_bytes(content)
    assert failing(data, repair=True) == {"keys of default"}
    assert failing(data) == set()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE keys SET vector = CAST(x'0001' || substr(vector, 3) AS BLOB) WHERE document_row = 2",
        "UPDATE \"values\" SET vector = CAST(x'0001' || substr(vector, 3) AS BLOB) WHERE document_row = 2",
        "UPDATE documents SET text = 'iron pit' WHERE row = 2",
        "UPDATE documents SET text = CAST(x'69ff' AS TEXT) WHERE row = 2",
    ],
)
@pytest.mark.sqlite
def test_a_stored_document_that_differs_from_its_index_is_named(tmp_path: Path, damage: str) -> None:
    with opened(tmp_path / "data") as client:
        CollectionClient(client).add({"id": "a", "text": "copper wire"}, {"id": "b", "text": "iron pot"})
        with runtime_of(client).database.write() as connection:
            connection.exec_driver_sql(damage)
        failed = {check["name"]: check for check in diagnose(runtime_of(client)) if not check["ok"]}
    found = failed.pop("documents of default")
    assert set(failed) <= {"content"}  # a text that is not UTF-8 cannot be hashed
    assert found["detail"].endswith(("differ from the index: b; 1 in all", "differ from the index: row 2; 1 in all"))
    assert "differ from their checksums: b; 1 in all" in found["detail"]


def test_a_kill_after_deletions_changes_no_ranking(tmp_path: Path) -> None:
    words = ("copper", "iron", "tin", "zinc", "lead")
    documents = [
        {"id": f"d{number}", "text": " ".join(words[: 1 + number % 5]) + " wire" * (number % 3)} for number in range(30)
    ]
    with opened(tmp_path / "data") as client:
        collection = CollectionClient(client)
        collection.add(*documents)
        collection.post("documents/delete", {"ids": [f"d{number}" for number in range(0, 30, 3)]})
        before = [collection.ranking(word) for word in words]
        shutil.copytree(tmp_path / "data", tmp_path / "killed")
    for manifest in (tmp_path / "killed").glob("indexes/*/manifest.json"):
        manifest.unlink()
    with opened(tmp_path / "killed") as client:
        assert [CollectionClient(client).ranking(word) for word in words] == before
