"""Rules: which queries they match, what they pin and hide, and what learning reads of it."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from index.learning.examples import Feedback
from service.rules.schemas import MAX_RULES
from service.runtime.feedback_log import gather_feedback
from service.runtime.rules import Rule, Rulebook
from tests.service.client import CollectionClient, create, good, opened, problem, runtime_of

FRUIT = ("apple", "pear", "plum", "cherry", "quince", "medlar")
QUERY = "sweet fruit"
MODES = pytest.mark.parametrize("mode", ["hybrid", "dense", "words"])


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("rules") / "data") as client:
        yield client


@pytest.fixture
def shop(client: TestClient, request: pytest.FixtureRequest) -> CollectionClient:
    """A new collection of six kinds of fruit."""
    shop = create(client, f"shop-{abs(hash(request.node.name))}", filterable=["stone", "price"])
    shop.add(*(fruit(name, number) for number, name in enumerate(FRUIT)))
    return shop


def fruit(name: str, number: int) -> dict[str, Any]:
    metadata = {"stone": name in ("plum", "cherry"), "price": number}
    return {"id": name, "text": f"the {name} is a sweet fruit", "metadata": metadata}


def put(shop: CollectionClient, id: str, query: dict[str, Any], **more: Any) -> Any:
    return good(shop.client.put(f"{shop.path}/rules/{id}", json={"query": query, **more}))


def pin(id: str, position: int = 1) -> dict[str, Any]:
    return {"id": id, "position": position}


def applies(shop: CollectionClient, q: str, **more: Any) -> bool:
    """Return whether the rule that hides the apple applies to a query."""
    return "apple" not in shop.ids(q, limit=100, **more)


# --- The resource ---


def test_a_rule_is_stored_shown_listed_replaced_and_deleted(shop: CollectionClient) -> None:
    path = f"{shop.path}/rules/autumn"
    body = {"query": {"near": "autumn", "cosine": 0.9}, "pin": [pin("pear", 2), pin("apple", 1)], "hide": ["plum"]}
    first = shop.client.put(path, json=body | {"from": "2026-09-01T02:00:00+02:00", "until": None})
    assert first.status_code == 201
    stored = first.json()
    assert stored | {"id": "autumn", "query": body["query"], "hide": ["plum"], "until": None} == stored
    assert (stored["pin"], stored["from"]) == ([pin("apple", 1), pin("pear", 2)], "2026-09-01T00:00:00.000Z")
    assert shop.get("rules/autumn") == stored
    again = shop.client.put(path, json={"query": {"exact": "pears"}, "pin": [pin("pear")]})
    assert (again.status_code, again.json()["created_at"]) == (200, stored["created_at"])
    assert shop.get("rules") == {"rules": [again.json()]}
    assert shop.client.delete(path).status_code == 204
    assert shop.get("rules") == {"rules": []}
    problem(shop.client.get(path), 404, "rule_not_found")
    problem(shop.client.delete(path), 404, "rule_not_found")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"query": {"exact": "a"}}, ""),
        ({"query": {}, "hide": ["a"]}, "/query"),
        ({"query": {"exact": "a", "near": "b"}, "hide": ["a"]}, "/query"),
        ({"query": {"exact": "a", "cosine": 0.5}, "hide": ["a"]}, "/query"),
        ({"query": {"contains": "..."}, "hide": ["a"]}, "/query"),
        ({"query": {"exact": " "}, "hide": ["a"]}, "/query"),
        ({"query": {"near": "a", "cosine": 1.5}, "hide": ["a"]}, "/query/cosine"),
        ({"query": {"exact": "a"}, "pin": [pin("a", 0)]}, "/pin/0/position"),
        ({"query": {"exact": "a"}, "pin": [pin("a", 1001)]}, "/pin/0/position"),
        ({"query": {"exact": "a"}, "pin": [pin("a", 1), pin("b", 1)]}, ""),
        ({"query": {"exact": "a"}, "pin": [pin("a", 1), pin("a", 2)]}, ""),
        ({"query": {"exact": "a"}, "pin": [pin("a")], "hide": ["a"]}, ""),
        ({"query": {"exact": "a"}, "pin": [pin(f"d{n}", n + 1) for n in range(51)]}, "/pin"),
        ({"query": {"exact": "a"}, "hide": [f"d{n}" for n in range(201)]}, "/hide"),
        ({"query": {"exact": "a"}, "hide": ["a"], "from": "tomorrow"}, "/from"),
        ({"query": {"exact": "a"}, "hide": ["a"], "from": "2026-09-01T00:00:00"}, "/from"),
        ({"query": {"exact": "a"}, "hide": ["a"], "until": 7}, "/until"),
        ({"query": {"exact": "a"}, "hide": ["a"], "from": "2026-09-02T00:00:00Z", "until": "2026-09-01T00:00:00Z"}, ""),
        ({"query": {"exact": "a"}, "hide": ["a"], "unpin": []}, "/unpin"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_position(client: TestClient, body: dict[str, Any], pointer: str) -> None:
    answer = problem(client.put("/v1/collections/default/rules/r", json=body), 422, "invalid_request")
    assert answer["errors"][0]["pointer"] == pointer
    problem(client.get("/v1/collections/default/rules/r"), 404, "rule_not_found")


def test_an_id_with_other_characters_is_refused(client: TestClient) -> None:
    body = {"query": {"exact": "a"}, "hide": ["a"]}
    problem(client.put("/v1/collections/default/rules/a%20b", json=body), 422, "invalid_request")


def test_a_collection_has_a_limited_number_of_rules(shop: CollectionClient) -> None:
    state = runtime_of(shop.client).collection(shop.name)
    state.rules = type(state.rules)(Rule(f"r{n}", "exact", f"text {n}") for n in range(MAX_RULES))
    answer = shop.client.put(f"{shop.path}/rules/more", json={"query": {"exact": "a"}, "hide": ["apple"]})
    problem(answer, 422, "too_many_rules")
    put(shop, "r7", {"exact": "a"}, hide=["apple"])


# --- Conditions ---


def test_exact_matches_the_query_in_any_case_and_spacing(shop: CollectionClient) -> None:
    put(shop, "r", {"exact": "Sweet  Fruit"}, hide=["apple"])
    assert applies(shop, "sweet fruit")
    assert applies(shop, " SWEET fruit ")
    assert not applies(shop, "sweet fruits")
    assert not applies(shop, "a sweet fruit")


def test_contains_matches_the_words_in_their_order(shop: CollectionClient) -> None:
    put(shop, "r", {"contains": "Sweet fruit"}, hide=["apple"])
    assert applies(shop, "which sweet, ripe FRUIT is it?")
    assert not applies(shop, "fruit that is sweet")
    assert not applies(shop, "sweet fruitcake")


@pytest.mark.parametrize(
    ("text", "q", "matches"),
    [
        ("5年", "5年", True),
        ("5年", "5年保証", True),
        ("5年", "年5", False),
        ("茶", "緑茶", True),
        ("茶", "茶 安い", True),
        ("茶", "緑茶屋", True),
        ("茶", "紅葉", False),
        ("緑茶", "茶緑", False),
        ("iPhone用", "iphone用ケース", True),
        ("第3章", "物語第3章の問題", True),
        ("緑茶屋", "緑茶屋さん", True),
        ("เ", "เสื้อ", True),
        ("茶 茶", "緑茶屋", False),
        ("茶 茶", "緑茶 茶屋", True),
        ("茶 茶", "茶茶屋", True),
        ("社 社", "㍿", False),
        ("社", "㍿", True),
    ],
)
def test_contains_finds_a_character_in_longer_words_of_scripts_without_spaces(text: str, q: str, matches: bool) -> None:
    rules = Rulebook([Rule("r", "contains", text, pins=(("apple", 1),))])
    found = rules.matching([q], np.zeros(4, np.float32), "2026-01-01T00:00:00.000Z")
    assert [rule.id for rule in found] == ["r"] * matches


def test_contains_ignores_accents(shop: CollectionClient) -> None:
    put(shop, "r", {"contains": "fruit café"}, hide=["apple"])
    assert applies(shop, "the fruit cafe")


def test_near_matches_from_its_cosine_on(shop: CollectionClient) -> None:
    encoder = runtime_of(shop.client).encoder
    rule, asked = encoder.encode_queries(["sweet fruit of the garden", "sweet fruit of the house"])
    cosine = float(rule @ asked)
    assert 0 < cosine < 1
    put(shop, "r", {"near": "sweet fruit of the garden", "cosine": cosine - 0.001}, hide=["apple"])
    assert applies(shop, "sweet fruit of the house")
    put(shop, "r", {"near": "sweet fruit of the garden", "cosine": cosine + 0.001}, hide=["apple"])
    assert not applies(shop, "sweet fruit of the house")
    assert applies(shop, "sweet fruit of the garden")


def test_near_matches_its_own_text_also_where_the_encoder_reads_it_corrected(shop: CollectionClient) -> None:
    put(shop, "r", {"near": "chery tart", "cosine": 1}, hide=["apple"])
    assert shop.search("chery tart")["corrections"], "the encoder reads `cherry tart`"
    assert applies(shop, "chery tart")
    assert not applies(shop, "cherry tart")


def test_a_rule_applies_to_the_corrected_query_too(shop: CollectionClient) -> None:
    put(shop, "r", {"contains": "cherry"}, hide=["apple"])
    assert applies(shop, "chery fruit")
    assert not applies(shop, "chery fruit", typos=False)


def test_operators_are_not_words_of_the_query(shop: CollectionClient) -> None:
    put(shop, "r", {"exact": "sweet"}, hide=["apple"])
    assert applies(shop, "sweet -pear", operators=True)


@pytest.mark.parametrize(
    ("begins", "ends", "expected"),
    [
        (None, None, True),
        ("2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z", True),
        ("2100-01-01T00:00:00Z", None, False),
        (None, "2020-01-01T00:00:00Z", False),
    ],
)
def test_a_rule_applies_between_its_times(
    shop: CollectionClient, begins: str | None, ends: str | None, expected: bool
) -> None:
    put(shop, "r", {"exact": QUERY}, hide=["apple"], **{"from": begins, "until": ends})
    assert applies(shop, QUERY) is expected


# --- Effects ---


@MODES
def test_pinned_documents_have_their_positions_and_the_others_move_down(shop: CollectionClient, mode: str) -> None:
    before = shop.ids(QUERY, mode=mode)
    last, second = before[-1], before[1]
    put(shop, "r", {"exact": QUERY}, pin=[pin(last, 1), pin(second, 4)])
    hits = shop.search(QUERY, mode=mode)["hits"]
    others = [id for id in before if id not in (last, second)]
    assert [hit["id"] for hit in hits] == [last, *others[:2], second, *others[2:]]
    assert [hit["position"] for hit in hits] == list(range(1, 7))
    assert [hit["id"] for hit in hits if hit.get("pinned")] == [last, second]


def test_a_pinned_document_keeps_its_logit_and_all_weights_sum_to_one(shop: CollectionClient) -> None:
    before = {id: logit for id, logit, _ in shop.ranking(QUERY)}
    put(shop, "r", {"exact": QUERY}, pin=[pin("medlar")])
    answer = shop.search(QUERY)
    assert {hit["id"]: hit["logit"] for hit in answer["hits"]} == before
    assert sum(hit["score"] for hit in answer["hits"]) + answer["attention"]["null_weight"] == pytest.approx(1)


@MODES
def test_a_document_without_evidence_is_pinned(shop: CollectionClient, mode: str) -> None:
    shop.add({"id": "hours", "text": "we open at nine"})
    put(shop, "r", {"contains": "cherry"}, pin=[pin("hours")])
    hits = shop.search("cherry", mode=mode, candidates=1, limit=1)["hits"]
    assert [(hit["id"], hit["pinned"]) for hit in hits] == [("hours", True)]


@MODES
def test_hidden_documents_are_no_candidates(shop: CollectionClient, mode: str) -> None:
    before = shop.search(QUERY, mode=mode)["attention"]["candidates"]
    put(shop, "r", {"exact": QUERY}, hide=["plum", "apple", "unknown"])
    answer = shop.search(QUERY, mode=mode, facets=["stone"])
    assert {hit["id"] for hit in answer["hits"]} == {"pear", "cherry", "quince", "medlar"}
    assert answer["attention"]["candidates"] == before - 2
    assert answer["facets"]["stone"]["values"] == {"true": 1, "false": 3}


def test_a_filter_excludes_pinned_documents(shop: CollectionClient) -> None:
    put(shop, "r", {"exact": QUERY}, pin=[pin("apple", 1), pin("cherry", 2)])
    hits = shop.search(QUERY, filter="stone = true")["hits"]
    assert [hit["id"] for hit in hits] == ["plum", "cherry"]


def test_pages_are_parts_of_the_same_list(shop: CollectionClient) -> None:
    put(shop, "r", {"exact": QUERY}, pin=[pin("quince", 2), pin("medlar", 5)])
    whole = shop.ids(QUERY)
    pages = [shop.search(QUERY, limit=2, offset=offset, candidates=1) for offset in (0, 2, 4)]
    assert [hit["id"] for page in pages for hit in page["hits"]] == whole
    assert [page["page"]["has_more"] for page in pages] == [True, True, False]
    assert (whole[1], whole[4]) == ("quince", "medlar")


def test_a_position_beyond_the_list_is_its_end(shop: CollectionClient) -> None:
    put(shop, "r", {"exact": QUERY}, pin=[pin("apple", 900), pin("pear", 1000)])
    assert shop.ids(QUERY)[-2:] == ["apple", "pear"]


def test_the_first_rule_takes_a_position_and_hiding_wins(shop: CollectionClient) -> None:
    put(shop, "b", {"exact": QUERY}, pin=[pin("pear", 1), pin("plum", 3)])
    put(shop, "a", {"contains": "fruit"}, pin=[pin("quince", 1), pin("plum", 5)])
    put(shop, "c", {"contains": "sweet"}, hide=["medlar"])
    put(shop, "d", {"contains": "sweet"}, pin=[pin("medlar", 1)])
    found = shop.ids(QUERY)
    assert (found[:2], found[4]) == (["quince", "pear"], "plum")
    assert "medlar" not in found


def test_thresholds_and_distinct_keep_pinned_documents(shop: CollectionClient) -> None:
    put(shop, "r", {"exact": QUERY}, pin=[pin("cherry", 2)])
    assert shop.ids(QUERY, min_logit=1e6) == ["cherry"]
    assert shop.ids(QUERY, max_null_weight=0.0) == ["cherry"]
    found = shop.ids(QUERY, distinct="stone")
    assert len(found) == 2
    assert found[1] == "cherry"


def test_rules_hide_and_do_not_pin_in_sorted_searches(shop: CollectionClient) -> None:
    put(shop, "r", {"exact": QUERY}, pin=[pin("medlar")], hide=["apple"])
    assert shop.ids(QUERY, sort=["price:asc"]) == [id for id in FRUIT if id != "apple"]
    assert "apple" in shop.ids("*")


def test_rules_of_everything_apply_to_searches_without_words(shop: CollectionClient) -> None:
    newest = shop.ids("*")
    put(shop, "all", {"exact": "*"}, pin=[pin(newest[-1], 1), pin(newest[3], 2)], hide=[newest[0]])
    shown = [newest[-1], newest[3], *(id for id in newest[1:-1] if id != newest[3])]
    assert shop.ids("*") == shown
    assert [shop.ids("*", limit=2, offset=at) for at in (0, 2)] == [shown[:2], shown[2:4]]
    assert shop.search("*", explain=True)["hits"][0]["explain"]["rule"] == "all"
    assert newest[0] in shop.ids(QUERY)
    assert shop.ids("*", sort=["price:asc"]) == [id for id in FRUIT if id != newest[0]]
    dear = shop.ids("*", filter="price > 2")
    assert dear == [id for id in shown if id in dear], "a page of a category"
    assert shop.ids("stone:true", operators=True) == ["cherry", newest[3]], "conditions are no words"


def test_a_pinned_document_beyond_the_newest_is_shown(shop: CollectionClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.search.actions.MAX_WINDOW", 2)
    newest = shop.ids("*")
    put(shop, "all", {"exact": "*"}, pin=[pin(FRUIT[0], 1)])
    assert len(newest) == 2
    assert shop.ids("*") == [FRUIT[0], *newest]


def test_an_explanation_names_the_rule(shop: CollectionClient) -> None:
    put(shop, "spring", {"exact": QUERY}, pin=[pin("pear")])
    first, *others = shop.search(QUERY, explain=True)["hits"]
    assert first["explain"]["rule"] == "spring"
    assert all("rule" not in hit["explain"] for hit in others)


def test_selected_fields_keep_the_mark_of_a_pinned_hit(shop: CollectionClient) -> None:
    put(shop, "r", {"exact": QUERY}, pin=[pin("pear")])
    assert shop.search(QUERY, fields=["title"])["hits"][0]["pinned"] is True


def test_a_deleted_rule_has_no_effect(shop: CollectionClient) -> None:
    before = shop.ranking(QUERY)
    put(shop, "r", {"exact": QUERY}, pin=[pin("medlar")], hide=["apple"])
    assert shop.ranking(QUERY) != before
    shop.client.delete(f"{shop.path}/rules/r")
    assert shop.ranking(QUERY) == before


def test_rules_are_kept_after_a_restart(tmp_path: Any) -> None:
    with opened(tmp_path / "data") as client:
        shop = CollectionClient(client)
        shop.add(*(fruit(name, 0) for name in FRUIT))
        put(shop, "r", {"near": QUERY}, pin=[pin("medlar")], hide=["apple"])
        before = shop.ranking(QUERY)
        assert before[0][0] == "medlar"
    with opened(tmp_path / "data") as client:
        assert CollectionClient(client).ranking(QUERY) == before


# --- Feedback ---


def learned(shop: CollectionClient) -> dict[str, Feedback]:
    with runtime_of(shop.client).database.read() as connection:
        return {one.query_key: one for one in gather_feedback(connection, shop.id) if not one.is_silent}


def rows(shop: CollectionClient) -> dict[str, int]:
    with runtime_of(shop.client).database.read() as connection:
        found = connection.exec_driver_sql("SELECT id, row FROM documents WHERE collection_id = ?", (shop.id,))
        return {row[0]: row[1] for row in found}


def test_an_impression_marks_pinned_hits(shop: CollectionClient) -> None:
    put(shop, "r", {"exact": QUERY}, pin=[pin("medlar", 2)])
    shown = shop.get(f"queries/{shop.search(QUERY)['query_id']}")["shown"]
    assert [one["id"] for one in shown if one.get("pinned")] == ["medlar"]


def test_training_reads_lists_without_their_pinned_documents(shop: CollectionClient) -> None:
    put(shop, "r", {"exact": QUERY}, pin=[pin("medlar", 1)])
    answer = shop.search(QUERY)
    third = answer["hits"][2]["id"]
    for id in ("medlar", third):
        shop.act(id, query_id=answer["query_id"], client_id="ada")
    one, row_of = learned(shop)[QUERY], rows(shop)
    assert dict(one.gains) == {row_of[third]: 1.0}
    assert one.shown is not None
    assert row_of["medlar"] not in one.shown
    assert one.shown[row_of[third]] == {3: 1}
    assert dict(one.clicks or {}) == {row_of[third]: {3: 1}}
    assert row_of["medlar"] not in (one.examined or set())


def test_a_click_on_a_pinned_document_is_memory_and_nothing_else(shop: CollectionClient) -> None:
    put(shop, "r", {"exact": QUERY}, pin=[pin("medlar", 1)])
    before = shop.search(QUERY, explain=True)
    shop.act("medlar", query_id=before["query_id"], client_id="ada")
    first = shop.search(QUERY, explain=True, log=False)["hits"][0]
    assert (before["hits"][0]["explain"]["parts"]["memory"], first["id"]) == (0, "medlar")
    assert first["explain"]["parts"]["memory"] > 0
    assert learned(shop) == {}
