"""The OpenAPI schema names every operation, describes every answer, and is true: real answers match it."""

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from jsonschema import Draft202012Validator

from service.app import create_app
from service.http.answers import PROBLEM_TYPE
from service.settings import Settings
from tests.service.client import CollectionClient, create, event, ndjson, opened, today

pytestmark = pytest.mark.usefixtures("forked_training")

SCHEMA = create_app(Settings(encoder="hashing")).openapi()
SCHEMAS = SCHEMA["components"]["schemas"]
OPERATIONS = [
    (method, path, operation) for path, methods in SCHEMA["paths"].items() for method, operation in methods.items()
]
every_operation = pytest.mark.parametrize(
    ("method", "path", "operation"), OPERATIONS, ids=[operation["operationId"] for _, _, operation in OPERATIONS]
)


def json_answers(operation: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the schemas of the successful JSON answers of an operation."""
    for status, response in operation["responses"].items():
        if status.startswith("2") and "application/json" in response.get("content", {}):
            yield response["content"]["application/json"]["schema"]


def answer_schemas() -> list[str]:
    """Return the names of all schemas that successful answers consist of."""
    found: set[str] = set()
    waiting = [schema for _, _, operation in OPERATIONS for schema in json_answers(operation)]
    while waiting:
        for name in re.findall(r"'#/components/schemas/(\w+)'", str(waiting.pop())):
            if name not in found:
                found.add(name)
                waiting.append(SCHEMAS[name])
    return sorted(found | {"Problem", "Fault"})


def test_operation_ids_are_the_names_of_functions_and_unique() -> None:
    ids = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", one) for one in ids)
    assert {"search", "put_document", "import_documents", "put_collection", "post_events"} <= set(ids)


def test_applications_share_the_routes_of_the_slices() -> None:
    one, other = ([r for r in create_app(Settings(encoder="hashing")).routes if isinstance(r, APIRoute)] for _ in "ab")
    assert len(one) > 60
    assert all(route is same for route, same in zip(one, other, strict=True))
    assert all(route.max_body_size for route in one), "a slice has made its router without the limit of bodies"


@every_operation
def test_every_success_has_a_declared_schema(method: str, path: str, operation: dict[str, Any]) -> None:
    successes = {status: one for status, one in operation["responses"].items() if status.startswith("2")}
    assert successes
    for status, response in successes.items():
        assert response["description"]
        assert status == "204" or response["content"], "an answer without a media type"
        for content in response.get("content", {}).values():
            assert set(content["schema"]) in ({"$ref"}, {"type"}), content


@every_operation
def test_every_error_is_a_problem(method: str, path: str, operation: dict[str, Any]) -> None:
    errors = [one for status, one in operation["responses"].items() if status[0] not in "23"]
    assert "default" in operation["responses"]
    assert "422" in operation["responses"] or "parameters" not in operation
    for response in errors:
        assert response["content"] == {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}


def test_no_schema_of_another_error_is_there() -> None:
    assert not [name for name in SCHEMAS if name.endswith("ValidationError")]


@pytest.mark.parametrize("name", answer_schemas())
def test_every_field_of_an_answer_has_a_description(name: str) -> None:
    schema = SCHEMAS[name]
    assert schema["description"]
    for field, described in schema["properties"].items():
        assert described.get("description") or "$ref" in described, field


@every_operation
def test_every_answer_has_an_example_that_matches_its_schema(method: str, path: str, operation: dict[str, Any]) -> None:
    for schema in json_answers(operation):
        described = SCHEMAS[schema["$ref"].rsplit("/", 1)[1]]
        (example,) = described["examples"]
        closed(schema).validate(example)


def test_the_import_declares_its_body() -> None:
    operation = SCHEMA["paths"]["/v1/collections/{collection}/documents/import"]["post"]
    declared = operation["requestBody"]["content"]
    assert list(declared) == ["application/x-ndjson", "application/json", "text/csv", "application/octet-stream"]


def test_the_stream_of_a_training_run_declares_its_media_type() -> None:
    operation = SCHEMA["paths"]["/v1/collections/{collection}/training-runs/{run_id}/stream"]["get"]
    assert list(operation["responses"]["200"]["content"]) == ["text/event-stream"]


def test_additions_to_a_search_are_optional() -> None:
    required = set(SCHEMAS["SearchAnswer"]["required"])
    assert {"query_id", "hits", "attention", "page", "model"} <= required
    assert not required & {"facets", "corrections", "answer", "answered", "pooled", "predictions", "everything"}
    assert SCHEMAS["Hit"]["required"] == ["id", "position", "score", "logit"]


# --- Real answers ---


def closed(schema: dict[str, Any]) -> Draft202012Validator:
    """Return a validator of a schema in which answers have no other fields than the described fields."""
    schemas = deepcopy(SCHEMAS)
    for name in answer_schemas():
        schemas[name]["additionalProperties"] = False
    return Draft202012Validator({**schema, "components": {"schemas": schemas}})


class Checked:
    """Compares every answer of a client with the schema."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, str]] = set()
        self._patterns = [
            (method, re.compile(re.sub(r"\{document_id\}", "(.+)", re.sub(r"\{(?!document_id)\w+\}", "([^/]+)", path))))
            for method, path, _ in OPERATIONS
        ]

    def __call__(self, answer: Any) -> None:
        answer.read()
        method, path = answer.request.method.lower(), answer.request.url.path
        for (known, pattern), (_, _, operation) in zip(self._patterns, OPERATIONS, strict=True):
            if known == method and pattern.fullmatch(path):
                self._check(operation, answer)
                return

    def _check(self, operation: dict[str, Any], answer: Any) -> None:
        status = str(answer.status_code)
        responses = operation["responses"]
        self.seen.add((operation["operationId"], status))
        assert status in responses or answer.is_error, f"{operation['operationId']} does not declare {status}"
        described = responses.get(status) or responses["default"]
        if status in ("204", "304"):
            return
        media_type = answer.headers["content-type"].split(";")[0]
        assert media_type in described["content"], operation["operationId"]
        if media_type.endswith("json") and media_type != "application/x-ndjson":
            closed(described["content"][media_type]["schema"]).validate(answer.json())


@pytest.fixture(scope="module")
def checked() -> Checked:
    return Checked()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, checked: Checked) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("openapi") / "data") as client:
        client.event_hooks = {"request": [], "response": [checked]}
        yield client


def use_keys(client: TestClient) -> None:
    """Call the operations about keys. Afterwards every request needs a key."""
    made = client.post("/v1/keys", json={"name": "first", "scopes": ["admin"]}).json()
    client.headers["Authorization"] = f"Bearer {made['key']}"
    more = client.post("/v1/keys", json={"name": "second", "scopes": ["search"], "filter": 'tenant = "a"'}).json()
    client.get("/v1/keys")
    client.post(f"/v1/keys/{more['id']}/rotate")
    client.delete(f"/v1/keys/{more['id']}")
    client.delete(f"/v1/keys/{made['id']}")
    client.get("/v1/audit", params={"limit": 1})


def tree(n: int) -> dict[str, Any]:
    return {
        "id": f"tree-{n}",
        "title": f"Tree {n}",
        "text": f"tree number {n} is tall",
        "metadata": {"n": n, "big": True},
    }


def test_answers_about_documents_and_searches_match_the_schema(client: TestClient, checked: Checked) -> None:
    wood = create(client, "wood", filterable=["n"])
    client.put(f"{wood.path}", json={"retention_days": 9})
    client.put(f"{wood.path}/documents/a", json={"text": "a"})
    client.put(f"{wood.path}/documents/a", json={"text": "b"})
    client.patch(f"{wood.path}/documents/a", json={"metadata": {"x": ["y"]}})
    client.patch(f"{wood.path}/documents", json={"documents": [{"id": "a", "metadata": {"x": 1}}]})
    client.patch(f"{wood.path}/documents", json={"documents": [{"id": "a"}, {"id": "nothing"}, 1]})
    wood.add(*map(tree, range(4)))
    client.post(f"{wood.path}/documents?wait=60", json={"documents": [{"id": "b"}, tree(9)]})
    wood.ended_task(client.post(f"{wood.path}/documents", json={"documents": [tree(8)]}).json())
    wood.ended_task(client.post(f"{wood.path}/documents/import", content=ndjson([tree(7), "{"])).json())
    wood.get("documents", limit=2)
    wood.get("documents/tree-1")
    found = wood.search("a tall tree", explain=True, pooled=True, predict=["n", "big"], filter="n >= 0")
    wood.act("tree-1", query_id=found["query_id"], client_id="c")
    wood.judge("a tall tree", "tree-2", 4)
    wood.judge("a tall tree", "nowhere", 4)
    wood.search("a tall tree", explain="matrix")
    wood.get(f"queries/{found['query_id']}")
    wood.post("recommend", {"like": ["tree-1"], "dislike": ["tree-2"], "explain": True})
    wood.get("suggestions", q="a")
    assert wood.get("judging")["queries"]
    assert wood.get("queries", days=1)["queries"]
    more = {"facets": ["n"], "snippet": True, "operators": True, "fields": ["n"], "typos": True, "prefix": "last"}
    wood.search('"tall tree" -oak numbr', **more)
    known = client.get(f"{wood.path}/search", params={"q": "tall", "facets": "n,n"}).headers["etag"]
    client.get(f"{wood.path}/search", params={"q": "tall", "facets": "n,n"}, headers={"If-None-Match": known})
    searches = [{"collection": "wood", "q": "tall"}, {"collection": "nowhere", "q": "tall"}]
    client.post("/v1/multi-search", json={"searches": searches})
    for _ in range(2):
        client.put(f"{wood.path}/synonyms/tall", json={"words": ["tall", "high"]})
    for _ in range(2):
        client.put(f"{wood.path}/rules/r", json={"query": {"near": "a tall tree"}, "pin": [{"id": "b", "position": 1}]})
    client.put(f"{wood.path}/rules/s", json={"query": {"exact": "tall"}, "pin": [{"id": "tree-3", "position": 1}]})
    wood.get("rules")
    wood.get("rules/r")
    pinned = wood.search("tall", explain=True)
    assert pinned["hits"][0]["pinned"]
    wood.get(f"queries/{pinned['query_id']}")
    client.delete(f"{wood.path}/rules/r")
    wood.post("synonyms", {"synonyms": [{"id": "old", "words": ["old", "aged"]}]})
    wood.get("synonyms")
    wood.get("synonyms/tall")
    client.get("/v1/collections/wood")
    client.delete(f"{wood.path}/synonyms/tall")
    wood.post("events/delete", {"client_id": "c"})
    client.delete(f"{wood.path}/documents/a")
    wood.post("documents/delete", {"ids": ["tree-0"]})
    client.get("/v1/collections")
    client.put("/v1/aliases/forest", json={"collection": "wood"})
    client.put("/v1/aliases/forest", json={"collection": "default"})
    client.get("/v1/aliases")
    wood.ended_task(client.post("/v1/erasures", json={"client": "c", "collection": "wood"}).json())
    assert client.get("/v1/erasures").json()["erasures"]
    client.get("/v1/aliases/forest")
    client.delete("/v1/aliases/forest")
    client.post("/v1/collections/swap", json={"a": "default", "b": "wood"})
    client.post("/v1/collections/swap", json={"a": "default", "b": "wood"})
    client.post(f"/v1/tasks/{client.delete(wood.path).json()['id']}/cancel")
    exported = client.get("/v1/export").content
    wood.ended_task(client.post("/v1/import", content=exported).json())
    wood.ended_task(client.post("/v1/snapshots").json())
    (snapshot,) = client.get("/v1/snapshots").json()["snapshots"]
    client.delete(f"/v1/snapshots/{snapshot['id']}")
    for path in ("/livez", "/readyz", "/metrics"):
        client.get(path)
    assert {("search", "200"), ("put_document", "201"), ("post_documents", "207")} <= checked.seen


def test_problems_match_the_schema(client: TestClient, checked: Checked) -> None:
    wood = CollectionClient(client)
    client.post(f"{wood.path}/search", json={"limit": 0})
    client.post(f"{wood.path}/search", json={"q": "a", "filter": "("})
    client.post(f"{wood.path}/search", content=b"{")
    client.post(f"{wood.path}/training-runs", json={})
    client.get("/v1/collections/nowhere")
    client.delete("/v1/collections/default")
    assert {("search", "422"), ("search", "400"), ("post_training_run", "422")} <= checked.seen
    assert {("get_collection", "404"), ("delete_collection", "409")} <= checked.seen


def test_answers_about_training_and_models_match_the_schema(client: TestClient, checked: Checked) -> None:
    wood = create(client, "school")
    wood.add(*map(tree, range(30)))
    for n in range(30):
        wood.judge(f"which tree has number {n}", f"tree-{n}", 3)
    wood.post("events", [event("tree-1", user_query="tall", timestamp=today())])
    run = wood.train(promote="never", budget_seconds=1)
    assert run["status"] == "succeeded"
    wood.get("training-runs")
    client.put(wood.path, json={"train": {"min_new_queries": 1}})
    assert wood.get("training-runs")["schedule"]["missing"]
    client.get(f"{wood.path}/training-runs/{run['id']}/stream")
    wood.get(f"training-runs/{run['id']}/attention")
    wood.post(f"training-runs/{run['id']}/cancel")
    wood.get("models")
    wood.get("models/1")
    wood.get("models/compare", a=0, b=1)
    client.put(f"{wood.path}/models/aliases/champion", json={"version": 1, "force": True})
    wood.post("models/aliases/champion/rollback")
    wood.ended_task(wood.post("evaluations", {"models": [0], "qrels": {"tall": {"tree-1": 1}}}))
    use_keys(client)
    missing = {operation["operationId"] for _, _, operation in OPERATIONS} - {name for name, _ in checked.seen}
    assert missing == set(), "every operation is called by a test of this file"


def test_the_schema_is_made_once_and_beside_other_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, goes_on = threading.Event(), threading.Event()
    made = []

    def make(*_: Any) -> dict[str, Any]:
        made.append(threading.current_thread())
        begun.set()
        return {"answered beside": goes_on.wait(30)}

    monkeypatch.setattr("service.app.openapi", make)
    count = 45  # more than the threads of the server
    with opened(tmp_path / "data") as client, ThreadPoolExecutor(count) as pool:
        asked = [pool.submit(client.get, "/openapi.json") for _ in range(count)]
        assert begun.wait(30)
        assert [client.get(path).status_code for path in ("/livez", "/v1/collections")] == [200, 200]
        goes_on.set()
        assert [one.result().json() for one in asked] == [{"answered beside": True}] * count
    assert len(made) == 1
