"""A start notices that committed changes are missing from the database, and `doctor --repair` mends what it can."""

import shutil
from pathlib import Path

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
