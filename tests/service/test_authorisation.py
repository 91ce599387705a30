"""Who may do what: every operation with every kind of key, in a collection of the key and in another."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import iter_route_contexts
from fastapi.testclient import TestClient

from service.access import ACCESS
from service.app import create_app
from service.runtime import keyring
from service.settings import Settings
from tests.service.authorised import REFUSALS, Keys, bearer
from tests.service.client import opened, runtime_of

C = "/v1/collections/{collection}"
OPEN = "open"
MATRIX = {
    "GET /livez": OPEN,
    "GET /readyz": OPEN,
    "GET /openapi.json": OPEN,
    "HEAD /openapi.json": OPEN,
    "GET /": OPEN,
    "HEAD /": OPEN,
    "GET /queries": OPEN,
    "HEAD /queries": OPEN,
    "GET /learning": OPEN,
    "HEAD /learning": OPEN,
    "GET /docs": OPEN,
    "HEAD /docs": OPEN,
    "GET /docs/{name}": OPEN,
    "HEAD /docs/{name}": OPEN,
    "GET /static/{path:path}": OPEN,
    "HEAD /static/{path:path}": OPEN,
    "GET /favicon.ico": OPEN,
    "HEAD /favicon.ico": OPEN,
    f"POST {C}/search": "search",
    f"GET {C}/search": "search",
    "POST /v1/multi-search": "search",
    f"POST {C}/recommend": "search",
    f"GET {C}/suggestions": "search",
    f"GET {C}/queries/{{query_id}}": "train",
    f"GET {C}/documents": "search write",
    f"GET {C}/documents/{{document_id:path}}": "search write",
    f"POST {C}/documents": "write",
    f"POST {C}/documents/import": "write",
    f"POST {C}/documents/delete": "write",
    f"PUT {C}/documents/{{document_id:path}}": "write",
    f"PATCH {C}/documents/{{document_id:path}}": "write",
    f"PATCH {C}/documents": "write",
    f"DELETE {C}/documents/{{document_id:path}}": "write",
    "GET /v1/collections": "search write train",
    f"GET {C}": "search write train",
    f"PUT {C}": "write",
    f"DELETE {C}": "",
    "POST /v1/collections/swap": "",
    "GET /v1/aliases": "",
    "GET /v1/aliases/{alias}": "",
    "PUT /v1/aliases/{alias}": "",
    "DELETE /v1/aliases/{alias}": "",
    f"GET {C}/synonyms": "write",
    f"POST {C}/synonyms": "write",
    f"GET {C}/synonyms/{{synonym_id}}": "write",
    f"PUT {C}/synonyms/{{synonym_id}}": "write",
    f"DELETE {C}/synonyms/{{synonym_id}}": "write",
    f"GET {C}/rules": "write",
    f"GET {C}/rules/{{rule_id}}": "write",
    f"PUT {C}/rules/{{rule_id}}": "write",
    f"DELETE {C}/rules/{{rule_id}}": "write",
    f"POST {C}/events": "events",
    f"POST {C}/events/delete": "write",
    f"POST {C}/judgments": "write",
    f"GET {C}/judging": "train",
    f"GET {C}/queries": "train",
    f"POST {C}/training-runs": "train",
    f"GET {C}/training-runs": "train",
    f"GET {C}/training-runs/{{run_id}}": "train",
    f"GET {C}/training-runs/{{run_id}}/stream": "train",
    f"GET {C}/training-runs/{{run_id}}/attention": "train",
    f"POST {C}/training-runs/{{run_id}}/cancel": "train",
    f"GET {C}/models": "train",
    f"GET {C}/models/compare": "train",
    f"GET {C}/models/{{version}}": "train",
    f"PUT {C}/models/aliases/champion": "train",
    f"POST {C}/models/aliases/champion/rollback": "train",
    f"POST {C}/evaluations": "train",
    "GET /v1/tasks/{task_id}": "write train",
    "POST /v1/tasks/{task_id}/cancel": "write train",
    "POST /v1/keys": "",
    "GET /v1/keys": "",
    "DELETE /v1/keys/{key_id}": "",
    "POST /v1/keys/{key_id}/rotate": "",
    "GET /v1/audit": "",
    "POST /v1/snapshots": "",
    "GET /v1/snapshots": "",
    "DELETE /v1/snapshots/{snapshot_id}": "",
    "GET /v1/export": "",
    "POST /v1/import": "",
    "POST /v1/erasures": "",
    "GET /v1/erasures": "",
    "GET /metrics": "",
}
"""Operation -> the scopes of which each suffices; `admin` always does. Written by hand, not read from the code."""
FILTERED = {f"POST {C}/search", f"GET {C}/search", "POST /v1/multi-search", f"POST {C}/recommend", f"POST {C}/events"}
"""The operations that keys with a filter may use."""
LIMITED = ("search", "events", "write", "train")
"""The scopes of keys that can be limited to collections."""
FILLED = {"path:path": "style.css", "name": "swagger-ui.css", "version": "9", "document_id:path": "a/b"}

every_operation = pytest.mark.parametrize("operation", MATRIX)


def served_operations() -> set[str]:
    """Return every operation of the application as `METHOD /path`, also those that are in no schema."""
    app = create_app(Settings(encoder="hashing"))
    return {f"{method} {one.path}" for one in iter_route_contexts(app.routes) for method in one.methods or ()}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("authorisation") / "data") as client:
        client.put("/v1/collections/other")
        client.put("/v1/aliases/another", json={"collection": "other"})
        yield client


@pytest.fixture(scope="module")
def keys(client: TestClient) -> Keys:
    return Keys.first(client)


@pytest.fixture(scope="module")
def callers(keys: Keys) -> dict[str, dict[str, str]]:
    """The headers of a caller for each scope, limited to the collection `default`; and of refused callers."""
    expired = keys.make("train")
    keys.expire(expired)
    callers = {scope: keys.headers(scope, collections=["default"]) for scope in LIMITED}
    callers["admin"] = keys.headers("admin")
    callers["filtered"] = keys.headers("search", "events", filter='tenant = "a"')
    refused = {
        "none": {},
        "wrong": bearer(f"{keys.admin[:-4]}AAAA"),
        "foreign": bearer("sk_x_y"),
        "basic": {"Authorization": "Basic YTpi"},
    }
    return callers | refused | {"expired": bearer(expired["key"])}


def ask(client: TestClient, operation: str, headers: dict[str, str], collection: str = "default") -> Any:
    """Return the response to an operation that changes nothing: ids are unknown and bodies are not as documented."""
    method, path = operation.split(" ")
    filled = path.replace("{collection}", collection)
    filled = re.sub(r"\{(.+?)\}", lambda found: FILLED.get(found[1], "missing"), filled)
    params = {"mapping": "odd"} if path.endswith("/import") else {}
    if method in ("GET", "HEAD", "DELETE"):
        return client.request(method, filled, headers=headers, params=params)
    return client.request(method, filled, headers=headers, params=params, json={"no such field": 1})


def code_of(answer: Any) -> str | None:
    """Return the code of a problem; None for another answer."""
    is_problem = answer.headers.get("content-type") == "application/problem+json"
    return answer.json()["code"] if is_problem and answer.content else None


def test_every_route_has_a_declared_access_and_no_other() -> None:
    assert served_operations() == set(MATRIX)


@every_operation
def test_a_request_without_a_valid_key_is_refused_unless_it_is_open(
    client: TestClient, callers: dict[str, dict[str, str]], operation: str
) -> None:
    for name in ("none", "wrong", "foreign", "basic", "expired"):
        answer = ask(client, operation, callers[name])
        if MATRIX[operation] == OPEN:
            assert answer.status_code == 200, name
        else:
            assert (answer.status_code, code_of(answer)) == (401, "unauthorized"), name
            assert answer.headers["www-authenticate"] == "Bearer"


@every_operation
def test_a_scope_allows_its_operations_and_no_other(
    client: TestClient, callers: dict[str, dict[str, str]], operation: str
) -> None:
    for scope in (*LIMITED, "admin"):
        code = code_of(ask(client, operation, callers[scope]))
        if MATRIX[operation] == OPEN or scope == "admin" or scope in MATRIX[operation].split():
            assert code not in REFUSALS, scope
            assert code != "collection_not_found", scope
        else:
            assert code == "scope_missing", scope


@pytest.mark.parametrize("operation", [one for one in MATRIX if "{collection}" in one])
def test_another_collection_answers_like_a_collection_that_does_not_exist(
    client: TestClient, callers: dict[str, dict[str, str]], operation: str
) -> None:
    for scope in LIMITED:
        answers = [ask(client, operation, callers[scope], name) for name in ("other", "another", "gone")]
        contents = {re.sub(rb"/v1/collections/\w+", b"", answer.content) for answer in answers}
        heads = {(one.status_code, frozenset(set(one.headers.items()) - length(one))) for one in answers}
        assert (len(contents), len(heads)) == (1, 1), scope
        allowed = scope in MATRIX[operation].split()
        assert code_of(answers[0]) == ("collection_not_found" if allowed else "scope_missing"), scope
        gone = ask(client, operation, callers["admin"], "gone")  # the answer of the operation itself
        if allowed and code_of(gone) == "collection_not_found":
            assert re.sub(rb"/v1/collections/\w+", b"", gone.content) == contents.pop()
            assert set(gone.headers.items()) - length(gone) == heads.pop()[1]


def length(answer: Any) -> set[tuple[str, str]]:
    """Return the header that depends on the length of the address in the body."""
    return {("content-length", answer.headers["content-length"])}


@every_operation
def test_a_key_with_a_filter_searches_recommends_and_sends_events_only(
    client: TestClient, callers: dict[str, dict[str, str]], operation: str
) -> None:
    code = code_of(ask(client, operation, callers["filtered"]))
    if MATRIX[operation] == OPEN or operation in FILTERED:
        assert code not in REFUSALS
    else:
        assert code in ("scope_missing", "key_is_filtered")


@every_operation
def test_options_is_open_and_says_nothing(client: TestClient, operation: str) -> None:
    path = re.sub(r"\{.+?\}", "x", operation.split(" ")[1])
    answer = client.options(path)
    assert (answer.status_code, answer.content) == (204, b"")


def test_an_address_without_a_route_needs_a_key_too(client: TestClient, keys: Keys) -> None:
    for path in ("/nowhere", "/v1/keys/x/y", "/livez/", "//v1/keys"):
        assert client.get(path).status_code == 401
        assert code_of(client.get(path, headers=bearer(keys.admin))) == "not_found"
    assert client.delete("/v1/audit").status_code == 401
    assert code_of(client.delete("/v1/audit", headers=bearer(keys.admin))) == "method_not_allowed"


def test_keys_in_addresses_and_in_cookies_are_not_read(client: TestClient, keys: Keys) -> None:
    for params in ({"key": keys.admin}, {"api_key": keys.admin}, {"authorization": f"Bearer {keys.admin}"}):
        assert client.get("/v1/keys", params=params).status_code == 401
    assert client.get("/v1/keys", headers={"Cookie": f"key={keys.admin}"}).status_code == 401
    both = [("Authorization", f"Bearer {keys.admin}"), ("Authorization", "Bearer x")]
    assert client.get("/v1/keys", headers=both).status_code == 401


def test_a_list_of_collections_has_those_of_the_key(client: TestClient, callers: dict[str, dict[str, str]]) -> None:
    def names(caller: str) -> list[str]:
        found = client.get("/v1/collections", headers=callers[caller]).json()["collections"]
        return [one["name"] for one in found]

    assert names("admin") == ["default", "other"]
    assert names("search") == ["default"]


def test_a_search_among_several_in_another_collection_is_as_in_none(
    client: TestClient, callers: dict[str, dict[str, str]]
) -> None:
    searches = [{"collection": name, "q": "x"} for name in ("default", "other", "another", "gone")]
    answer = client.post("/v1/multi-search", json={"searches": searches}, headers=callers["search"])
    own, *others = answer.json()["results"]
    assert own["hits"] == []
    for one in others:
        assert one.pop("instance").startswith("/v1/collections/")
    assert others[0] == others[1] == others[2]
    assert others[0]["code"] == "collection_not_found"


def test_a_task_of_another_collection_answers_like_a_missing_task(
    client: TestClient, keys: Keys, callers: dict[str, dict[str, str]]
) -> None:
    batch = {"documents": [{"id": "d", "text": "d"}]}
    ids = [keys.act("POST", f"/v1/collections/{name}/documents", batch).json()["id"] for name in ("default", "other")]
    assert client.get(f"/v1/tasks/{ids[0]}", headers=callers["write"]).status_code == 200
    for method, end in (("GET", ""), ("POST", "/cancel")):
        seen = [client.request(method, f"/v1/tasks/{id}{end}", headers=callers["write"]) for id in (ids[1], "0" * 36)]
        bodies = [re.sub(rb"/v1/tasks/[\w-]+", b"", one.content) for one in seen]
        assert bodies[0] == bodies[1]
        assert code_of(seen[0]) == "task_not_found"


def test_only_admin_creates_collections(client: TestClient, keys: Keys) -> None:
    write = keys.headers("write")
    refused = client.put("/v1/collections/brand-new", json={}, headers=write)
    assert (refused.status_code, code_of(refused)) == (403, "scope_missing")
    assert client.put("/v1/collections/other", json={"filterable": ["tenant"]}, headers=write).status_code == 200
    assert keys.act("GET", "/v1/collections/brand-new").status_code == 404


def test_the_task_of_a_collection_that_a_key_names_by_an_alias_is_shown(client: TestClient, keys: Keys) -> None:
    headers = keys.headers("write", collections=["another"])
    batch = {"documents": [{"id": "by-alias", "text": "d"}]}
    task = client.post("/v1/collections/another/documents", json=batch, headers=headers).json()["id"]
    assert client.get(f"/v1/tasks/{task}", headers=headers).status_code == 200
    elsewhere = keys.act("POST", "/v1/collections/default/documents", batch).json()["id"]
    assert client.get(f"/v1/tasks/{elsewhere}", headers=headers).status_code == 404


@pytest.mark.parametrize("name", ["other", "another"], ids=["by its name", "by an alias"])
def test_a_key_covers_a_collection_under_each_of_its_names(client: TestClient, keys: Keys, name: str) -> None:
    headers = keys.headers("search", collections=[name])
    listed = client.get("/v1/collections", headers=headers).json()["collections"]
    assert [one["name"] for one in listed] == ["other"]
    for asked, status in (("other", 200), ("another", 200), ("default", 404)):
        path = f"/v1/collections/{asked}"
        assert client.get(path, headers=headers).status_code == status
        assert client.post(f"{path}/search", json={"q": "a"}, headers=headers).status_code == status
    searches = [{"collection": asked, "q": "a"} for asked in ("other", "another", "default")]
    answers = client.post("/v1/multi-search", json={"searches": searches}, headers=headers).json()["results"]
    assert ["hits" in one for one in answers] == [True, True, False]


def test_a_key_for_an_alias_follows_the_alias(client: TestClient, keys: Keys) -> None:
    headers = keys.headers("search", collections=["moving"])

    def covered(collection: str) -> list[str]:
        keys.act("PUT", "/v1/aliases/moving", {"collection": collection})
        return [one["name"] for one in client.get("/v1/collections", headers=headers).json()["collections"]]

    try:
        assert covered("other") == ["other"]
        assert client.get("/v1/collections/other", headers=headers).status_code == 200
        assert covered("default") == ["default"]
        assert client.get("/v1/collections/other", headers=headers).status_code == 404
    finally:
        keys.act("DELETE", "/v1/aliases/moving")
    assert client.get("/v1/collections/default", headers=headers).status_code == 404


def test_readiness_shows_details_to_admin_only(client: TestClient, callers: dict[str, dict[str, str]]) -> None:
    assert client.get("/readyz").json() == {"status": "ready"}
    assert client.get("/readyz", headers=callers["train"]).json() == {"status": "ready"}
    assert client.get("/readyz", headers=callers["admin"]).json() == {"status": "ready", "degraded": {}}


def test_the_schema_names_the_scopes_of_every_operation(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()
    assert schema["components"]["securitySchemes"] == {"ApiKey": {"type": "http", "scheme": "bearer"}}
    for operation, scopes in MATRIX.items():
        method, path = operation.split(" ")
        described = schema["paths"].get(path.replace(":path", ""), {}).get(method.lower())
        if described is not None:
            assert described["security"] == ([] if scopes == OPEN else [{"ApiKey": []}])
            assert described.get("x-softseek-scopes") == (
                None if scopes == OPEN else sorted({*scopes.split(), "admin"})
            )


def test_the_documented_table_of_scopes_is_the_table_of_the_code() -> None:
    text = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ((?:`\w+`(?: or )?)+) \| ((?:`\w+`(?: \(f\))?,? ?)+)\|$", text, re.MULTILINE)
    documented = {
        name: (frozenset(re.findall(r"\w+", scopes.replace(" or ", " "))), bool(filtered))
        for scopes, names in rows
        for name, filtered in re.findall(r"`(\w+)`( \(f\))?", names)
    }
    declared = {name: (one.scopes, one.filtered) for name, one in ACCESS.items() if one.scopes is not None}
    assert documented == declared


def test_a_route_without_a_declared_access_is_refused_to_all_keys(tmp_path: Path) -> None:
    app = create_app(Settings(encoder="hashing", data=tmp_path / "data", log_level="warning"))

    @app.get("/forgotten")
    def forgotten() -> dict[str, str]:
        return {}

    with TestClient(app) as client:
        keys = Keys.first(client)
        assert client.get("/forgotten").status_code == 401
        assert code_of(client.get("/forgotten", headers=bearer(keys.admin))) == "scope_missing"


def test_a_wrong_key_is_compared_as_often_as_a_right_key(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []
    monkeypatch.setattr(keyring.hmac, "compare_digest", lambda a, b: compared.append(a) or a == b)
    for token in (keys.admin, f"{keys.admin}x", "sk_unknown_x", "x"):
        compared.clear()
        runtime_of(keys.client).keyring.caller(token.encode())
        assert [len(one) for one in compared] == [32]
