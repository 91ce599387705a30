"""A small write changes no file except the database: the index waits in memory and is derived."""

import shutil
from pathlib import Path

from service.operations.housekeeping import save_paused
from tests.service.client import DEFAULT, CollectionClient, opened, runtime_of


def index_files(data: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of the files below `indexes`, without vectors: they are appended to without a sync."""
    found = (path for path in (data / "indexes").rglob("*") if path.is_file() and path.suffix != ".f32")
    return {str(path.relative_to(data)): (path.stat().st_size, path.stat().st_mtime_ns) for path in found}


def test_put_and_delete_change_the_database_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with opened(data) as client:
        collection = CollectionClient(client)
        collection.add({"id": "a", "text": "copper wire"}, {"id": "b", "text": "iron pot"})
        before = index_files(data)
        assert client.put(f"{DEFAULT}/documents/c", json={"text": "tin kettle"}).status_code == 201
        assert client.put(f"{DEFAULT}/documents/a", json={"text": "zinc wire"}).status_code == 200
        assert client.delete(f"{DEFAULT}/documents/b").status_code == 204
        assert index_files(data) == before
        found = {word: collection.ids(word, mode="words", typos=False) for word in ("copper", "zinc", "iron", "tin")}
        assert found == {"copper": [], "zinc": ["a"], "iron": [], "tin": ["c"]}
        shutil.copytree(data, tmp_path / "killed")  # the index as a kill leaves it
        seen: dict[int, int] = {}
        for _ in range(2):
            save_paused(runtime_of(client), seen)
        assert index_files(data) != before
        found = {word: collection.ids(word, mode="words", typos=False) for word in ("copper", "zinc", "iron", "tin")}
        assert found == {"copper": [], "zinc": ["a"], "iron": [], "tin": ["c"]}
    with opened(tmp_path / "killed") as client:
        again = CollectionClient(client)
        found = {word: again.ids(word, mode="words", typos=False) for word in ("copper", "zinc", "iron", "tin")}
        assert found == {"copper": [], "zinc": ["a"], "iron": [], "tin": ["c"]}
