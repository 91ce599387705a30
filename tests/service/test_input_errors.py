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
            {"text": "a", "metadata": {"a/b": ["c", None]}},
            {"/metadata/a~1b/1": VALUE.removesuffix(" or a valid list")},
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


LONG = SECRET + "x" * 64
UNREPEATED = "a name in it that is not repeated here: "


@pytest.mark.parametrize("name", [LONG, LONG * 80, f"{SECRET}\n", f"{SECRET}\x7f"])
def test_a_name_that_is_long_or_cannot_be_printed_is_not_repeated(client: TestClient, name: str) -> None:
    unknown = UNREPEATED + "Extra inputs are not permitted"
    value = UNREPEATED + "String should have at most 10000 characters"
    for body, pointer, detail in (
        ({"text": "a", name: 1}, "", unknown),
        ({"text": "a", "metadata": {name: "x" * 10_001}}, "/metadata", ""),
    ):
        (error,) = problem(client.put(f"{DEFAULT}/documents/a", json=body), 422, "invalid_request")["errors"]
        assert (error["pointer"], error["detail"]) == (pointer, detail or error["detail"])
        assert len(name) > 128 or detail or error["detail"] == value
        assert error["detail"].startswith(UNREPEATED)
    answer = client.get(f"{DEFAULT}/search", params={"q": "tree", name: "1", name + "y": "2"})
    found = problem(answer, 422, "invalid_request")["errors"]
    assert found == [{"pointer": "", "detail": UNREPEATED + "the parameter is not known"}]


@pytest.mark.parametrize("name", [LONG, f"{SECRET}\x01"])
def test_no_item_of_a_batch_repeats_such_a_name(client: TestClient, name: str) -> None:
    documents = [{"id": "a", "text": "a", name: 1}, {"id": "b", "text": "b", "metadata": {name: {"c": 1}}}]
    answer = client.post(f"{DEFAULT}/documents?wait=60", json={"documents": documents})
    assert SECRET not in answer.text
    assert [item["field"] for item in answer.json()["items"]] == ["record", "metadata"]
    answer = client.post(
        f"{DEFAULT}/events", json={"action_name": "click", "timestamp": "2026-09-20T10:00:00Z", name: 1}
    )
    assert SECRET not in answer.text
    answer = client.patch(f"{DEFAULT}/documents", json={"documents": [{"id": "oak", name: 1}]})
    assert SECRET not in answer.text
    given = {"mapping": "lenient", "text_field": name}
    typed = f"id,text,{name}:number\n1,a,b\n"
    for content, kind, params in (('{"id": "a"}', "application/x-ndjson", given), (typed, "text/csv", {})):
        answer = client.post(
            f"{DEFAULT}/documents/import", content=content, headers={"Content-Type": kind}, params=params
        )
        task = CollectionClient(client).ended_task(answer.json())
        assert (task["result"]["failed"], SECRET in str(task)) == (1, False)


def test_an_unknown_name_of_64_characters_is_repeated(client: TestClient) -> None:
    name = "é" + "c" * 63
    found = problem(client.put(f"{DEFAULT}/documents/a", json={"text": "a", name: 1}), 422, "invalid_request")
    assert found["errors"][0]["pointer"] == f"/{name}"


def test_a_change_after_which_a_document_has_too_much_metadata_is_one_error(client: TestClient) -> None:
    more = {"metadata": {f"g{n}": n for n in range(100)}}
    found = problem(client.patch(f"{DEFAULT}/documents/oak", json=more), 422, "invalid_document")
    assert [one["pointer"] for one in found["errors"]] == ["/metadata"]


@pytest.mark.parametrize("more", [{"facets": [SECRET]}, {"sort": [f"{SECRET}:asc"]}, {"distinct": SECRET}])
def test_a_field_that_is_not_filterable_is_not_repeated(client: TestClient, more: dict[str, Any]) -> None:
    answer = client.post(f"{DEFAULT}/search", json={"q": "tree", **more})
    assert SECRET not in answer.text
    assert "filterable fields: none" in problem(answer, 422, "field_not_filterable")["detail"]
