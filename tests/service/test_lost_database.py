"""A data directory whose database is gone does not start as a new directory, and nothing in it is deleted."""

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from index.encoding.hashing_encoder import HashingEncoder
from service.runtime.first_start import DatabaseLost, DatabasePresent
from service.runtime.runtime import Runtime
from service.settings import Settings
from tests.service.client import CollectionClient, opened

pytestmark = pytest.mark.sqlite


def start(data: Path, new: bool = False) -> None:
    """Open the directory and close it again."""
    Runtime.open(Settings(encoder="hashing", data=data, log_level="error"), HashingEncoder(), new=new).close()


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("lost") / "data"
    with opened(data) as client:
        CollectionClient(client).add({"id": "a", "text": "copper wire"})
    (data / "models" / "1" / "000001").mkdir(parents=True)
    (data / "models" / "1" / "000001" / "weights").write_bytes(b"trained")
    return data


@pytest.fixture
def data(closed: Path, tmp_path: Path) -> Path:
    shutil.copytree(closed, tmp_path / "data")
    return tmp_path / "data"


def remove(database: Path) -> None:
    database.unlink()


def empty(database: Path) -> None:
    database.write_bytes(b"")


def make_foreign(database: Path) -> None:
    database.unlink()
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE birds (name)")


def test_a_first_start_that_was_killed_before_its_first_commit_is_repeated(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "softseek.db").touch()
    (data / "softseek.db-journal").write_bytes(b"\0" * 512)  # of the change to the write-ahead log
    start(data)
    assert (data / "softseek.db").stat().st_size


@pytest.mark.parametrize("lose", [remove, empty, make_foreign])
def test_a_directory_without_its_database_is_refused_and_kept(data: Path, lose: Callable[[Path], None]) -> None:
    lose(data / "softseek.db")
    with pytest.raises(DatabaseLost, match=r"softseek serve --new"):
        start(data)
    assert (data / "models" / "1" / "000001" / "weights").read_bytes() == b"trained"
    assert (data / "indexes" / "1").is_dir()


def test_a_write_ahead_log_without_its_database_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "softseek.db-wal").write_bytes(b"acknowledged")
    with pytest.raises(DatabaseLost):
        start(tmp_path)
    assert (tmp_path / "softseek.db-wal").read_bytes() == b"acknowledged"


def test_starting_anew_moves_the_contents_aside(data: Path) -> None:
    (data / "softseek.db").unlink()
    start(data, new=True)
    (aside,) = data.glob("set-aside-*")
    assert (aside / "models" / "1" / "000001" / "weights").read_bytes() == b"trained"
    assert (aside / "watermarks").stat().st_size
    with opened(data) as client:
        assert CollectionClient(client).get()["counts"]["documents"] == 0
        assert client.get("/readyz").json()["degraded"] == {}
    assert aside.is_dir()


def test_a_directory_with_its_database_does_not_start_anew(data: Path) -> None:
    with pytest.raises(DatabasePresent):
        start(data, new=True)
    with opened(data) as client:
        assert CollectionClient(client).ids("copper") == ["a"]


def test_an_empty_directory_starts_as_new(tmp_path: Path) -> None:
    start(tmp_path / "missing" / "folder")
    start(tmp_path, new=True)
    assert not list(tmp_path.glob("set-aside-*"))


def test_folders_that_the_database_never_knew_stay(data: Path) -> None:
    for folder in ("models/7/000001", "indexes/7", "models/notes"):
        (data / folder).mkdir(parents=True)
    start(data)
    assert all((data / folder).is_dir() for folder in ("models/7/000001", "indexes/7", "models/notes"))


def test_the_folders_of_a_deleted_collection_are_deleted(data: Path) -> None:
    with sqlite3.connect(data / "softseek.db") as connection:
        connection.execute("UPDATE sqlite_sequence SET seq = 7 WHERE name = 'collections'")
    (data / "models/7").mkdir()
    start(data)
    assert not (data / "models/7").exists()
