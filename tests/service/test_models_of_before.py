"""Models of releases that kept them in folders: the first start stores their files and deletes the folders."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from sqlalchemy import create_engine

from service.snapshots.archive import ArchiveWriter
from service.snapshots.restoring import restore
from service.snapshots.state import state_hash
from service.storage.copying import opened_copy
from service.storage.database import DATABASE_FILE, alembic_config
from tests.service.client import CollectionClient, good, opened, runtime_of
from tests.service.stored_models import stored_model
from tests.service.test_snapshots import NIGHT, filled

COLLECTION = 2
"""The number of the collection with a trained champion."""


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """A directory as the release of schema 0011 left it, and the answer of its champion."""
    data = tmp_path_factory.mktemp("models") / "data"
    filled(data)
    with opened(data) as client:
        answer = ranking(client)
    files = stored_model(data, 1, COLLECTION)
    engine = create_engine(f"sqlite:///{data / DATABASE_FILE}")
    with engine.connect() as connection:
        command.downgrade(alembic_config(connection), "0011")
        connection.commit()
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    engine.dispose()
    write(data / f"models/{COLLECTION}/000001", files)
    return data, answer


@pytest.fixture
def data(before: tuple[Path, list[Any]], tmp_path: Path) -> Path:
    shutil.copytree(before[0], tmp_path / "data")
    return tmp_path / "data"


def write(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True)
    for name, body in files.items():
        (folder / name).write_bytes(body)


def ranking(client: Any) -> list[Any]:
    found = CollectionClient(client, "wood").search(NIGHT, log=False)
    assert found["degraded"] == []
    return [found["model"]["version"], [(hit["id"], hit["score"]) for hit in found["hits"]]]


def test_the_first_start_stores_the_files_and_deletes_their_folders(data: Path, before: tuple[Path, list[Any]]) -> None:
    files = {path.name: path.read_bytes() for path in (data / f"models/{COLLECTION}/000001").iterdir()}
    for _ in range(2):
        with opened(data) as client:
            assert ranking(client) == before[1]
            assert good(client.get("/readyz"))["degraded"] == {}
        assert stored_model(data, 1, COLLECTION) == files
        assert not (data / "models").exists()


def test_folders_that_the_upgrade_stored_before_a_kill_are_deleted_later(data: Path) -> None:
    copied = shutil.copytree(data / "models", data.parent / "models")
    with opened(data):
        pass
    shutil.copytree(copied, data / "models")
    with opened(data):
        pass
    assert not (data / "models").exists()


def test_folders_that_the_database_does_not_know_stay(data: Path) -> None:
    unknown = [f"{COLLECTION}/000007", f"{COLLECTION}/000001-unknown-x", "9/000001"]
    for name in unknown:
        write(data / "models" / name, {"head.safetensors": b"of another state"})
    with opened(data):
        pass
    assert sorted(str(path.parent.relative_to(data / "models")) for path in data.glob("models/*/*/*")) == sorted(
        unknown
    )


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("damage", [cut, os.unlink])
def test_a_damaged_model_is_stored_as_it_is_and_reported(data: Path, damage: Callable[[Path], None]) -> None:
    folder = data / f"models/{COLLECTION}/000001"
    damage(folder / "head.safetensors")
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    with opened(data) as client:
        found = CollectionClient(client, "wood").search(NIGHT)
        assert (found["model"]["version"], found["degraded"]) == (0, ["champion_damaged"])
    assert stored_model(data, 1, COLLECTION) == files


def test_a_snapshot_of_before_is_restored_with_its_models(data: Path, before: tuple[Path, list[Any]]) -> None:
    with (data.parent / "before.tar").open("wb") as file, opened_copy(data / DATABASE_FILE) as connection:
        writer = ArchiveWriter(file, 0)
        writer.add(DATABASE_FILE, data / DATABASE_FILE)
        for path in sorted(data.glob("models/*/*/*")):
            writer.add(str(path.relative_to(data)), path)
        facts = {"schema": "0011", "state": state_hash(connection).as_json(), "counts": {"documents": 30}}
        writer.finish(facts | dict.fromkeys(("made_at", "softseek", "encoder", "damaged_models")))
    restore(data.parent / "before.tar", data.parent / "restored")
    with opened(data.parent / "restored") as client:
        assert ranking(client) == before[1]
        assert runtime_of(client).collection("wood").id == COLLECTION
    assert not (data.parent / "restored" / "models").exists()
