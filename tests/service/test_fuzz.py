"""No JSON body makes an endpoint fail: fifty values per endpoint, the same values in every run."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.service.authorised import Keys, bearer
from tests.service.client import CollectionClient, create, opened


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("bad") / "data") as client:
        CollectionClient(client).add({"id": "known", "text": "a known document"})
        yield client


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=8)
    | st.sampled_from(["known", "champion", "click", "", "lang = en", "2026-09-20T10:00:00Z", "nDCG@10"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def like(schema: dict[str, Any], schemas: dict[str, Any], depth: int = 0) -> st.SearchStrategy[Any]:
    """Return a strategy of values, of which some match a JSON schema and some do not."""
    if "$ref" in schema:
        return like(schemas[schema["$ref"].rsplit("/", 1)[1]], schemas, depth)
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return st.one_of([like(one, schemas, depth) for one in options])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "object" if "properties" in schema and depth < 4:
            known = {name: like(one, schemas, depth + 1) for name, one in schema["properties"].items()}
            required = {name: one for name, one in known.items() if name in schema.get("required", ())}
            optional = {name: one for name, one in known.items() if name not in required}
            return st.fixed_dictionaries(required, optional=optional) | JUNK
        case "object":
            of = schema.get("additionalProperties")
            values = like(of, schemas, depth + 1) if isinstance(of, dict) else JUNK
            return st.dictionaries(st.text(max_size=5), values, max_size=3)
        case "array":
            return st.lists(like(schema.get("items", {}), schemas, depth + 1), max_size=3)
        case "integer":
            return st.integers(-2, 3) | st.integers()
        case "string":
            return st.text(max_size=5) | st.sampled_from(["known", "click", "x", "lang = en", "2026-09-20T10:00:00Z"])
        case "boolean":
            return st.booleans()
    return JUNK


def written_operations(schema: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Return method, path and body schema of every POST, PUT and PATCH."""
    found = []
    for path, operations in schema["paths"].items():
        for method in ("post", "put", "patch"):
            if method in operations:
                content = operations[method].get("requestBody", {}).get("content", {})
                found.append((method, path, content.get("application/json", {}).get("schema", {})))
    return found


def test_no_json_value_makes_any_endpoint_fail(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()
    schemas = schema["components"]["schemas"]
    create(client, "fuzz", filterable=["lang"]).add({"id": "known", "text": "a known document"})
    given_ids = {"collection": "fuzz", "document_id": "known", "run_id": "x", "task_id": "x", "version": "0"}
    given_ids["alias"] = given_ids["key_id"] = "x"
    given_ids["rule_id"] = "x"
    given_ids["synonym_id"] = "x"
    client.headers.update(bearer(Keys.first(client).admin))  # values may make a key, so the others need one, too
    operations = written_operations(schema)
    assert len(operations) >= 15
    for method, path, body in operations:
        never_fails(client, method, path.format(**given_ids), like(body, schemas) | JUNK)


def never_fails(client: TestClient, method: str, address: str, values: st.SearchStrategy[Any]) -> None:
    """Send fifty values to an endpoint; none may cause a 5xx status."""

    @settings(max_examples=50, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(value=values)
    def send(value: Any) -> None:
        content = json.dumps(value).encode()
        answer = client.request(method, address, content=content)
        assert answer.status_code < 500, (method, address, content, answer.text)

    send()
