"""An export of some collections has these, with their aliases, and can be imported beside others."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests.service.client import CollectionClient, create, good, opened, problem
from tests.service.test_exports import imported, records_of
from tests.service.test_snapshot_files import command
from tests.service.test_snapshots import NIGHT, filled


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the collection `wood`, its alias `forest`, and `paper` with the alias `sheets`."""
    data = tmp_path_factory.mktemp("some") / "data"
    filled(data)
    with opened(data) as client:
        paper = create(client, "paper")
        paper.add({"id": "sheet", "text": "a white sheet"})
        paper.judge("white", "sheet", 4)
        good(client.put("/v1/aliases/sheets", json={"collection": "paper"}))
    return data


@pytest.fixture(scope="module")
def client(data: Path) -> Iterator[TestClient]:
    with opened(data) as client:
        yield client


@pytest.mark.parametrize("name", ["wood", "forest"])
def test_one_collection_is_exported_by_its_name_or_alias(client: TestClient, tmp_path: Path, name: str) -> None:
    body = client.get("/v1/export", params={"collections": name}).content
    records = records_of(body)
    assert {one["collection"] for one in records if "collection" in one} == {"wood"}
    assert [one["name"] for one in records if one["type"] in ("collection", "alias")] == ["wood", "forest"]
    assert len([one for one in records if one["type"] == "value"]) == 30, "the values of its documents alone"
    with opened(tmp_path / "copy") as other:
        CollectionClient(other).add({"id": "mine", "text": "an own document"})
        assert imported(other, body)["result"]["collections"] == ["wood"]
        assert CollectionClient(other, "forest").ranking(NIGHT) == CollectionClient(client, "wood").ranking(NIGHT)
        assert good(other.get("/v1/collections/wood"))["champion"] == 1


def test_several_collections_are_exported(client: TestClient) -> None:
    records = records_of(client.get("/v1/export", params={"collections": ["paper", "wood", "sheets"]}).content)
    everything = records_of(client.get("/v1/export").content)
    assert records[1:] == [one for one in everything[1:] if "default" not in (one.get("collection"), one.get("name"))]


def test_unknown_collections_and_too_many_are_refused(client: TestClient) -> None:
    problem(client.get("/v1/export?collections=wood&collections=stone"), 404, "collection_not_found")
    problem(client.get("/v1/export", params={"collections": ["wood"] * 101}), 422, "invalid_request")


def test_the_command_exports_some_collections(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "some.ndjson"
    with opened(data) as client:
        for name in ("paper", "wood", "stone"):
            create(client, name).add({"id": name, "text": f"a text about {name}"})
        wanted = client.get("/v1/export?collections=paper&collections=wood").content.splitlines()
    assert command("export", str(file), "--collections", "paper,wood", "--data", str(data)) == 0
    assert file.read_bytes().splitlines()[1:-1] == wanted[1:-1]
