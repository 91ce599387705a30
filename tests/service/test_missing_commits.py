"""A start notices that committed changes are missing from the database, and `doctor --repair` mends what it can."""

import shutil
from pathlib import Path

import pytest

from service.operations.health import diagnose
from tests.service.client import CollectionClient, opened, runtime_of


def failing(data: Path, repair: bool = False) -> set[str]:
    with opened(data) as client:
        return {check["name"] for check in diagnose(runtime_of(client), repair) if not check["ok"]}


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
            assert CollectionClient(client).ids("copper") == ["a"]
    with opened(data) as client:
        CollectionClient(client).add({"id": "c", "text": "tin lid"})  # later changes do not hide the loss
    assert failing(data) == {"changes of default"}
    assert failing(data, repair=True) == {"changes of default"}
    assert failing(data) == set()


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
def test_a_stored_document_that_differs_from_its_index_is_named(tmp_path: Path, damage: str) -> None:
    with opened(tmp_path / "data") as client:
        CollectionClient(client).add({"id": "a", "text": "copper wire"}, {"id": "b", "text": "iron pot"})
        with runtime_of(client).database.write() as connection:
            connection.exec_driver_sql(damage)
        failed = {check["name"]: check for check in diagnose(runtime_of(client)) if not check["ok"]}
    found = failed.pop("documents of default")
    assert set(failed) <= {"content"}  # a text that is not UTF-8 cannot be hashed
    assert found["detail"] in ("differ from the index: b; 1 in all", "differ from the index: row 2; 1 in all")


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
