"""Errors of requests point into the input, one for each part, in words that name neither types nor values."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.service.client import DEFAULT, SECRET, CollectionClient, opened, problem


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("errors") / "data") as client:
        CollectionClient(client).add({"id": "oak", "text": "a tree", "metadata": {f"f{n}": n for n in range(200)}})
        yield client


VALUE = "Input should be a valid string or a valid integer or a valid number or a valid boolean or a valid list"
SEARCH = ("POST", "search")


@pytest.mark.parametrize(
    ("method", "path", "body", "errors"),
    [
        ("PUT", "documents/a", {"text": "a", "metadata": {"size": {"b": 1}}}, {"/metadata/size": VALUE}),
        (
            "PUT",
            "documents/a",
            {"text": "a", "metadata": {"str": "x" * 10_001}},
            {"/metadata/str": "String should have at most 10000 characters"},
        ),
        (
            "PUT",
            "documents/a",
            {"text": "a", "metadata": {"a/b": ["c", 1]}},
            {"/metadata/a~1b/1": "Input should be a valid string"},
        ),
        (
            "PUT",
            "documents/a",
            {"text": "a", "metadata": {"": 1}},
            {"/metadata/": "The name of the field: String should have at least 1 character"},
        ),
        ("PUT", "documents/a", {"metadata": {}}, {"/text": "Field required"}),
        ("PATCH", "documents/oak", {"metadata": {"size": {"b": 1}}}, {"/metadata/size": VALUE}),
        (*SEARCH, {"q": " "}, {"": "q must contain more than white space"}),
        (
            *SEARCH,
            {"q": "a", "model": "best"},
            {"/model": "Input should be 'champion' or 'challenger' or a valid integer"},
        ),
        (*SEARCH, {"q": "a", "model": -1}, {"/model": "Input should be greater than or equal to 0"}),
        (*SEARCH, {"q": "a", "explain": "all"}, {"/explain": "Input should be a valid boolean or 'matrix'"}),
        (*SEARCH, {"q": "a", "limit": 0, "colour": 1}, {"/limit": "", "/colour": ""}),
        ("PUT", "", {"typos": 3}, {"/typos": ""}),
        ("PUT", "", {"typos": {"off_fields": ["url"]}}, {"/typos/off_fields/0": "Input should be 'title' or 'text'"}),
        ("PUT", "", {"language": "klingon"}, {"/language": ""}),
        ("POST", "training-runs", [], {"": ""}),
        ("GET", "documents?limit=many", None, {"/limit": ""}),
        ("GET", "search?q=a&model=best&explain=all", None, {"/model": "", "/explain": ""}),
        ("GET", "search?q=a&sort=price", None, {"/sort/0": ""}),
        ("GET", "models/compare", None, {"/a": "Field required", "/b": "Field required"}),
        ("GET", "models/compare?a=0", None, {"/b": "Field required"}),
        ("GET", "suggestions", None, {"/q": "Field required"}),
        ("GET", "search?limit=1", None, {"/q": "Field required"}),
        ("POST", "judgments", {}, {"/judgments": "Field required"}),
    ],
)
def test_each_error_points_to_a_part_of_the_request(
    client: TestClient, method: str, path: str, body: Any, errors: dict[str, str]
) -> None:
    """errors: pointer -> detail; "" for a detail of which only the form is checked."""
    answer = client.request(method, f"{DEFAULT}/{path}".rstrip("/"), **({} if body is None else {"json": body}))
    found = problem(answer, 422, "invalid_request")
    assert found["detail"] == f"{len(errors)} part(s) of the request are not as documented"
    assert [one["pointer"] for one in found["errors"]] == list(errors)
    for one in found["errors"]:
        assert one["detail"] == (errors[one["pointer"]] or one["detail"])
        assert not one["detail"].startswith("Value error")


def test_a_change_after_which_a_document_has_too_much_metadata_is_one_error(client: TestClient) -> None:
    more = {"metadata": {f"g{n}": n for n in range(100)}}
    found = problem(client.patch(f"{DEFAULT}/documents/oak", json=more), 422, "invalid_document")
    assert [one["pointer"] for one in found["errors"]] == ["/metadata"]


@pytest.mark.parametrize("more", [{"facets": [SECRET]}, {"sort": [f"{SECRET}:asc"]}, {"distinct": SECRET}])
def test_a_field_that_is_not_filterable_is_not_repeated(client: TestClient, more: dict[str, Any]) -> None:
    answer = client.post(f"{DEFAULT}/search", json={"q": "tree", **more})
    assert SECRET not in answer.text
    assert "filterable fields: none" in problem(answer, 422, "field_not_filterable")["detail"]
