"""Keys with a filter, as tenants have: they see the documents of their filter, and nothing of the others."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from service.documents.acceptance import accept
from service.erasures.repository import subject_rows
from service.storage.tenants import tenant_of_filter
from tests.service.authorised import Keys, bearer
from tests.service.client import CollectionClient, create, event, good, opened, problem, runtime_of

FILTER = 'tenant = "mine"'
HIDDEN = ("zanzibar", "hidden", "yours")
"""Words that only the documents of the other tenant have; their ids have one too."""
MINE = [
    ("apples", "Apple pie with cinnamon. The oven is hot.", "food", 3),
    ("pears", "Pears and apples keep in a cold cellar.", "food", 5),
    ("roads", "A road leads to the harbour and the market.", "travel", 7),
    ("boats", "Boats in the harbour carry apples to market.", "travel", 9),
]
YOURS = [
    ("hidden-1", "Zanzibar apples are a hidden secret of the harbour market.", "food", 1),
    ("hidden-2", "The road to Zanzibar has a hidden oven for apple pie.", "travel", 2),
    ("hidden-3", "Hidden apples of zanzibar, cinnamon and pears in the cellar.", "zanzibar", 99),
]
QUERIES = (
    "apple pie",
    "harbour market",
    "the road",
    "zanzibar",
    "hidden apples",
    "*",
    "cold oven cinnamon",
    "boats",
    "apples zan",
)
PARAMETERS: tuple[dict[str, Any], ...] = (
    {},
    {"mode": "words"},
    {"mode": "dense", "limit": 2, "offset": 1},
    {"facets": ["kind", "price"]},
    {"sort": ["price:desc"], "distinct": "kind"},
    {"snippet": True, "answer": True, "prefix": "last"},
    {"filter": "price > 2", "operators": True},
    {"pooled": True, "predict": ["kind"]},
    {"context": ["hidden-1", "apples"]},
    {"explain": "matrix"},
    {"prefix": "last", "explain": "matrix"},
)
VOLATILE = ("query_id", "took_ms", "timings_ms")


def document(tenant: str, id: str, text: str, kind: str, price: int) -> dict[str, Any]:
    metadata = {"tenant": tenant, "kind": kind, "price": price}
    return {"id": id, "title": f"About {kind}", "text": text, "metadata": metadata}


class Tenants:
    """A collection of two tenants with feedback of both, the owner's key, and a key of the first tenant."""

    def __init__(self, client: TestClient) -> None:
        self.shop = create(client, "shop", filterable=["tenant", "kind", "price"])
        self.shop.add(*(document("mine", *one) for one in MINE), *(document("yours", *one) for one in YOURS))
        rule = {
            "query": {"contains": "apple pie"},
            "pin": [{"id": "hidden-2", "position": 1}, {"id": "boats", "position": 2}],
        }
        good(client.put(f"{self.shop.path}/rules/pins", json=rule))
        self.shop.judge("the way to zanzibar", "apples", 4)
        self.shop.judge("hidden harbour", "roads", 3)
        self.shop.judge("zanzibar pie", "hidden-1", 4)
        self.keys = Keys.first(client)
        self.client = client
        self.tenant = self.keys.headers("search", "events", filter=FILTER)
        self.owner = bearer(self.keys.admin)

    def search(self, q: str, more: dict[str, Any], headers: dict[str, str]) -> Any:
        body = {"q": q, "log": False, "typos": False, **more}
        return good(self.client.post(f"{self.shop.path}/search", json=body, headers=headers))

    def as_tenant(self, path: str, body: Any, tenant: dict[str, str] | None = None) -> Any:
        return self.client.post(f"{self.shop.path}/{path}", json=body, headers=tenant or self.tenant)


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    with opened(tmp_path_factory.mktemp("filters") / "data") as client:
        yield Tenants(client)


def stable(body: dict[str, Any]) -> dict[str, Any]:
    """Return an answer without what differs between equal searches, and without past queries."""
    body = {name: value for name, value in body.items() if name not in VOLATILE}
    for hit in body["hits"]:
        if "explain" in hit:
            hit["explain"]["keys"] = [key for key in hit["explain"]["keys"] if key["kind"] != "query"]
    return body


def reveals(q: str, body: Any) -> list[str]:
    """Return the hidden words in an answer that its request did not have."""
    text = json.dumps(body).lower()
    return [word for word in HIDDEN if word in text and word not in q.lower()]


@pytest.mark.parametrize("more", PARAMETERS, ids=lambda more: "-".join(more) or "plain")
@pytest.mark.parametrize("q", QUERIES)
def test_a_search_is_as_the_owners_with_the_filter_and_reveals_no_hidden_word(
    tenants: Tenants, q: str, more: dict[str, Any]
) -> None:
    filtered = f"({FILTER}) AND ({more['filter']})" if "filter" in more else FILTER
    mine = [id for id, *_ in MINE]
    context = {"context": [id for id in more["context"] if id in mine]} if "context" in more else {}
    unfinished = {"prefix": "none"} if "prefix" in more else {}
    wanted = tenants.search(q, {**more, **context, **unfinished, "filter": filtered}, tenants.owner)
    found = tenants.search(q, more, tenants.tenant)
    assert stable(found) == stable(wanted)
    assert {hit["id"] for hit in found["hits"]} <= set(mine)
    assert reveals(q, found) == []


def test_the_owner_sees_what_the_tenant_does_not(tenants: Tenants) -> None:
    seen = tenants.search("apple pie", {"explain": True, "facets": ["kind"]}, tenants.owner)
    assert reveals("", seen) == list(HIDDEN)


def test_a_filter_of_the_search_cannot_widen_the_filter_of_the_key(tenants: Tenants) -> None:
    for condition in (
        'tenant = "yours"',
        'tenant = "yours" OR price > 0',
        "NOT tenant EXISTS",
        "price > 0) OR (price > 0",
    ):
        answer = tenants.as_tenant("search", {"q": "apples", "filter": condition})
        assert answer.status_code in (200, 422)
        assert reveals(condition, answer.json()) == []
    params = {"q": "tenant:yours apples", "operators": "true", "filter": 'tenant = "yours"'}
    found = good(tenants.client.get(f"{tenants.shop.path}/search", params=params, headers=tenants.tenant))
    assert found["hits"] == []


def test_no_word_of_another_document_corrects_a_query(tenants: Tenants) -> None:
    owner = tenants.search("zanzibra", {"typos": True}, tenants.owner)
    assert owner["corrections"] == [{"from": "zanzibra", "to": "zanzibar"}]
    found = tenants.search("zanzibra", {"typos": True}, tenants.tenant)
    assert found["corrections"] == []
    assert reveals("", found) == []


@pytest.mark.parametrize(
    ("q", "more", "corrections", "encoded"),
    [
        ("cinamon pie", {}, [{"from": "cinamon", "to": "cinnamon"}], "cinnamon pie"),
        ("hot ove", {"prefix": "last"}, [], "hot oven"),
        ("cold celar", {"mode": "dense"}, [{"from": "celar", "to": "cellar"}], "cold cellar"),
        ("secrets", {}, [], "secrets"),  # a word of others, which is not known and near no own word
        ("hiden", {"prefix": "last"}, [], "hiden"),
    ],
)
def test_the_words_of_a_tenants_own_documents_correct_and_complete(
    tenants: Tenants, q: str, more: dict[str, Any], corrections: list[dict[str, str]], encoded: str
) -> None:
    found = tenants.search(q, {"typos": True, "explain": "matrix", **more}, tenants.tenant)
    assert found["corrections"] == corrections
    assert found["matrix"]["words_by_keys"]["text"] == encoded
    assert reveals(q, found) == []


def test_what_others_store_changes_no_correction(tmp_path: Path) -> None:
    """`kettel` is a mistake of who sells kettles, and a brand for another tenant."""
    with opened(tmp_path) as client:
        shop = create(client, "shop", filterable=["tenant"])
        shop.add(document("mine", "a", "A kettle of steel and a tea pot.", "tea", 1))
        headers = Keys.first(client)
        mine = headers.headers("search", filter=FILTER)
        yours = headers.headers("search", filter='tenant = "yours"')

        def searched(q: str, as_whom: dict[str, str], **more: Any) -> Any:
            body = {"q": q, "log": False, **more}
            answer = good(client.post(f"{shop.path}/search", json=body, headers=as_whom))
            return [hit["id"] for hit in answer["hits"]], answer["corrections"]

        asked = [("kettel", {}), ("teapot", {}), ("ket", {"prefix": "last"}), ("steal", {"mode": "words"})]
        before = [searched(q, mine, **more) for q, more in asked]
        assert before[0] == (["a"], [{"from": "kettel", "to": "kettle"}])
        own = [document("yours", str(n), "The kettel brand: kettels, teapot, steal.", "brand", n) for n in range(9)]
        body = {"documents": own}
        good(client.post(f"{shop.path}/documents?wait=60", json=body, headers=bearer(headers.admin)))
        assert [searched(q, mine, **more) for q, more in asked] == before
        assert searched("kettel", yours)[1] == []
        assert searched("ketel", yours)[1] == [{"from": "ketel", "to": "kettel"}]


def test_no_word_of_another_document_completes_a_query(tenants: Tenants) -> None:
    more = {"prefix": "last", "explain": "matrix"}
    owner = tenants.search("apples zan", more, tenants.owner)
    assert owner["matrix"]["words_by_keys"]["text"] == "apples zanzibar"
    found = tenants.search("apples zan", more, tenants.tenant)
    assert found["matrix"]["words_by_keys"]["text"] == "apples zan"
    assert reveals("", found) == []


def test_several_searches_are_filtered_too(tenants: Tenants) -> None:
    searches = [{"collection": "shop", "q": q, "explain": True} for q in ("apple pie", "harbour", "*")]
    answer = good(tenants.client.post("/v1/multi-search", json={"searches": searches}, headers=tenants.tenant))
    assert all(one["hits"] for one in answer["results"])
    assert reveals("", answer) == []


def test_recommendations_know_no_other_documents(tenants: Tenants) -> None:
    body = {"like": ["apples"], "explain": True}
    found = good(tenants.as_tenant("recommend", body))
    owner = tenants.client.post(
        f"{tenants.shop.path}/recommend", json={**body, "filter": FILTER}, headers=tenants.owner
    )
    assert stable(found) == stable(good(owner))
    assert {hit["id"] for hit in found["hits"]} == {"pears", "roads", "boats"}
    assert reveals("", found) == []
    for named in ({"like": ["{}"]}, {"like": ["apples"], "dislike": ["{}"]}):
        bodies = []
        for id in ("hidden-1", "no-such"):
            answer = tenants.as_tenant("recommend", json.loads(json.dumps(named).replace("{}", id)))
            bodies.append(problem(answer, 404, "document_not_found"))
        assert bodies[0] == bodies[1]


@pytest.mark.parametrize("action", ["click", "impression", "thumbs_down", "own_action"])
def test_an_event_for_another_document_is_as_for_a_document_that_does_not_exist(tenants: Tenants, action: str) -> None:
    answers = [
        tenants.as_tenant("events", event(id, action, user_query="apples")).json() for id in ("hidden-1", "no-such")
    ]
    assert answers[0] == answers[1]
    assert tenants.as_tenant("events", event("pears", action, user_query="apples")).json()["accepted"] == 1


def test_a_search_of_another_tenant_is_unknown_to_events(tenants: Tenants) -> None:
    def logged(headers: dict[str, str]) -> str:
        body = {"q": "apples"}
        return str(good(tenants.client.post(f"{tenants.shop.path}/search", json=body, headers=headers))["query_id"])

    yours = tenants.keys.headers("search", "events", filter='tenant = "yours"')
    own = logged(tenants.tenant)
    assert tenants.as_tenant("events", event("pears", query_id=own)).json()["accepted"] == 1
    for other in (logged(yours), logged(tenants.owner), "0" * 36):
        answer = tenants.as_tenant("events", event("pears", query_id=other)).json()
        assert [one["code"] for one in answer["rejected"]] == ["unknown_query"]
    foreign = logged(yours)
    kept = tenants.as_tenant("events", event("pears", query_id=foreign, user_query="by its text")).json()
    assert kept["accepted"] == 1
    runtime = runtime_of(tenants.client)
    with runtime.database.read() as connection:
        found = connection.exec_driver_sql(
            "SELECT query_id, position FROM events WHERE query_text = 'by its text'"
        ).all()
    assert found == [(f"{tenant_of_filter(FILTER)}{foreign}", None)]  # a search of its own, which was not logged
    renewed = tenants.keys.headers("events", filter=FILTER)  # the filter is the tenant, not the key
    assert tenants.as_tenant("events", event("pears", query_id=own), renewed).json()["accepted"] == 1


def test_a_pending_document_of_another_tenant_is_unknown_to_events(tenants: Tenants) -> None:
    """The answer does not tell that the document exists."""
    runtime = runtime_of(tenants.client)
    waiting = {"mine": "late-mine", "yours": "late-yours"}
    accept(
        runtime, runtime.collection("shop"), [document(of, id, "a late one", "food", 1) for of, id in waiting.items()]
    )
    events = [event(id, user_query="late") for id in (*waiting.values(), "absent")]
    rejected = tenants.as_tenant("events", events).json()["rejected"]
    for id in waiting.values():
        tenants.client.delete(f"{tenants.shop.path}/documents/{id}", headers=tenants.owner).raise_for_status()
    assert [one["code"] for one in rejected] == ["unknown_document"] * 3
    mine, yours, absent = (one["detail"] for one in rejected)
    assert "not searchable yet" in mine
    assert yours == absent


def test_sessions_of_other_filters_do_not_join_and_an_erasure_finds_them(tenants: Tenants) -> None:
    yours = tenants.keys.headers("search", "events", filter='tenant = "yours"')
    for headers in (tenants.tenant, yours, tenants.owner):
        search = {"q": "a session", "session_id": "shared"}
        found = good(tenants.client.post(f"{tenants.shop.path}/search", json=search, headers=headers))
        assert found["query_id"]
        verdict = event(None, "thumbs_down", session_id="shared")
        assert tenants.as_tenant("events", verdict, headers).json()["accepted"] == 1
    runtime = runtime_of(tenants.client)
    runtime.impressions.flush()
    with runtime.database.read() as connection:
        searched, sent = (
            connection.execute(text(f"SELECT session_id FROM {table} WHERE session_id LIKE '%shared'")).scalars()
            for table in ("queries", "events")
        )
        stored = sorted(searched)
        assert stored == sorted(sent)
        rows = subject_rows(connection, runtime.collection("shop").id, "session", "shared")
    assert len(set(stored)) == 3
    assert "shared" in stored
    assert (len(rows.impressions), len(rows.events)) == (3, 3)


def test_a_verdict_on_a_search_of_another_tenant_is_rejected(tenants: Tenants) -> None:
    search = {"q": "apples"}
    foreign = good(tenants.client.post(f"{tenants.shop.path}/search", json=search, headers=tenants.owner))["query_id"]
    for more in ({"session_id": "s"}, {"session_id": "s", "user_query": "apples"}, {"user_query": "apples"}):
        answer = tenants.as_tenant("events", event(None, "thumbs_down", query_id=foreign, **more)).json()
        assert [one["code"] for one in answer["rejected"]] == ["unknown_query"]


def test_past_queries_are_explained_to_keys_that_may_read_the_log_only(tenants: Tenants) -> None:
    q, more = "the way to zanzibar", {"explain": True}

    def kinds(headers: dict[str, str]) -> set[str]:
        hits = tenants.search(q, more, headers)["hits"]
        return {key["kind"] for hit in hits for key in hit["explain"]["keys"]}

    assert "query" in kinds(tenants.owner)
    assert "query" not in kinds(tenants.tenant)
    assert "query" not in kinds(tenants.keys.headers("search"))
    assert "query" in kinds(tenants.keys.headers("search", "train"))
    hits = tenants.search(q, more, tenants.tenant)["hits"]
    assert any(hit["explain"]["parts"]["memory"] > 0 for hit in hits)
    for hit in hits:
        assert sum(hit["explain"]["parts"].values()) == pytest.approx(hit["logit"], abs=1e-4)


def test_a_filter_needs_no_filterable_field(tenants: Tenants) -> None:
    plain = CollectionClient(tenants.client)
    body = {"documents": [document("mine", *MINE[0]), document("yours", *YOURS[0])]}
    good(tenants.client.post(f"{plain.path}/documents?wait=60", json=body, headers=tenants.owner))
    found = tenants.client.post(f"{plain.path}/search", json={"q": "apple"}, headers=tenants.tenant).json()
    assert [hit["id"] for hit in found["hits"]] == ["apples"]


def test_a_search_of_a_key_with_a_filter_teaches_as_a_filtered_search(tenants: Tenants) -> None:
    answer = good(tenants.as_tenant("search", {"q": "roads"}))
    shown = good(tenants.keys.act("GET", f"{tenants.shop.path}/queries/{answer['query_id']}"))
    assert shown["request"]["key_filter"] == FILTER
    assert runtime_of(tenants.client).keyring.last_uses()


def test_a_compound_of_another_tenant_hides_no_document(tmp_path: Path) -> None:
    mine = ["Der Vertrag läuft zwei Jahre", "Ein Mietvertrag", "Die Versicherung zahlt", "Der Kuchen ist warm"]
    yours = ["Wir prüfen den Kaufvertrag", "Eine Grundstückshaftpflichtversicherung", "Haftpflichtversicherung"]
    every = [
        {"id": f"{tenant}-{n}", "text": one, "metadata": {"tenant": tenant}}
        for tenant, texts in (("mine", mine), ("yours", yours))
        for n, one in enumerate(texts)
    ]
    with opened(tmp_path) as client:
        for name, documents in (("shared", every), ("alone", every[: len(mine)])):
            create(client, name, language="german", filterable=["tenant"]).add(*documents)
        headers = Keys.first(client).headers("search", filter=FILTER)

        def found(name: str, q: str) -> tuple[set[str], Any]:
            body = {"q": q, "mode": "words", "facets": ["tenant"], "log": False}
            answer = good(client.post(f"/v1/collections/{name}/search", json=body, headers=headers))
            return {hit["id"] for hit in answer["hits"]}, answer["facets"]

        for q in ("Kaufvertrag", "Pachtvertrag", "Vertrag", "Haftpflichtversicherung", "Kuchen"):
            assert found("shared", q) == found("alone", q)
            assert found("alone", q)[0], q
