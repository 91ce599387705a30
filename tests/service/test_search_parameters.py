"""Facets, sorting, distinct results, thresholds, fields, snippets, operators, synonyms, GET and several searches."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from fastapi.testclient import TestClient

from service.search import field_columns, routes
from tests.service.client import CollectionClient, create, good, opened, problem, runtime_of

LONG = "Nothing of interest stands here. " * 20 + "A kettle boils water in two minutes. " + "The end comes late. " * 20
DOCUMENTS: list[dict[str, Any]] = [
    {"id": "kettle", "title": "Steel kettle", "text": LONG, "metadata": {"brand": "Ada", "price": 30, "tags": ["tea"]}},
    {
        "id": "kettle-2",
        "title": "Glass kettle",
        "text": "A kettle of glass.",
        "metadata": {"brand": "Ada", "price": 45.5},
    },
    {
        "id": "pot",
        "title": "Tea pot",
        "text": "A pot for tea.",
        "metadata": {"brand": "Bo", "price": 20, "tags": ["tea", "gift"]},
    },
    {"id": "cup", "title": "Cup", "text": "A cup for tea, not for a kettle.", "metadata": {"price": 5, "sold": True}},
    {"id": "lamp", "title": "Desk lamp", "text": "A lamp.", "metadata": {"brand": "Bo"}},
    {"id": "neko", "title": "猫のカップ", "text": "東京都の猫カフェで使われるカップ", "metadata": {"brand": "Neko"}},
]
FILTERABLE = ["brand", "price", "tags", "sold"]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("parameters") / "data") as client:
        yield client


@pytest.fixture(scope="module")
def shop(client: TestClient) -> CollectionClient:
    shop = create(client, "shop", filterable=FILTERABLE)
    shop.add(*DOCUMENTS)
    return shop


def ids(answer: dict[str, Any]) -> list[str]:
    return [hit["id"] for hit in answer["hits"]]


# --- Words as they are typed ---


def test_a_typing_mistake_still_finds_and_is_reported(shop: CollectionClient) -> None:
    answer = shop.search("ketle", mode="words", explain=True)
    assert set(ids(answer)) == {"kettle", "kettle-2", "cup"}
    assert answer["corrections"] == [{"from": "ketle", "to": "kettle"}]
    assert answer["hits"][0]["explain"]["parts"]["corrected"] > 0
    assert answer["hits"][0]["highlights"]


@pytest.mark.parametrize(
    ("typed", "meant", "wanted"), [("steelkettle", "steel kettle", "kettle"), ("ket tle", "kettle", "kettle-2")]
)
def test_other_spaces_still_find_and_are_reported(shop: CollectionClient, typed: str, meant: str, wanted: str) -> None:
    answer = shop.search(typed, mode="words")
    assert wanted in ids(answer)
    assert answer["corrections"] == [{"from": typed, "to": meant}]
    assert all(hit["highlights"] for hit in answer["hits"])
    assert shop.search(typed, mode="words", typos=False)["hits"] == []


def test_typos_can_be_switched_off_for_a_search_and_for_a_collection(
    client: TestClient, shop: CollectionClient
) -> None:
    assert shop.search("ketle", mode="words", typos=False)["hits"] == []
    exact = create(client, "exact", typos={"enabled": True, "off_words": ["ketle"]})
    exact.add(*DOCUMENTS)
    assert exact.search("ketle", mode="words")["hits"] == []
    assert exact.search("cupp", mode="words")["hits"]
    client.put(exact.path, json={"typos": False})
    assert exact.search("cupp", mode="words")["hits"] == []
    assert exact.search("cupp", mode="words", typos=True)["hits"]


def test_half_a_word_finds_if_the_last_word_may_be_unfinished(shop: CollectionClient) -> None:
    assert shop.search("ket", mode="words")["hits"] == []
    answer = shop.search("ket", mode="words", prefix="last", explain=True)
    assert set(ids(answer)) == {"kettle", "kettle-2", "cup"}
    assert answer["hits"][0]["explain"]["parts"]["completed"] > 0
    parts = answer["hits"][0]["explain"]["parts"]
    assert sum(parts.values()) == pytest.approx(answer["hits"][0]["logit"], abs=1e-4)


def test_dense_evidence_counts_less_while_the_last_word_is_unfinished(shop: CollectionClient) -> None:
    def passage(q: str) -> float:
        hits = shop.search(q, explain=True, prefix="last")["hits"]
        part: float = next(hit["explain"]["parts"]["passage"] for hit in hits if hit["id"] == "pot")
        return part

    # "pot" is the only word that begins with "po": the encoded text is the same, and 2 of 3 letters are there
    assert passage("tea po") == pytest.approx((1 + 2 / 3) / 2 * passage("tea pot "), rel=1e-4)


def test_japanese_text_is_found_and_marked(shop: CollectionClient) -> None:
    answer = shop.search("猫カフェ", mode="words")
    assert ids(answer) == ["neko"]
    text = answer["hits"][0]["text"]
    marked = [text[one["start"] : one["end"]] for one in answer["hits"][0]["highlights"] if one["field"] == "text"]
    assert "猫カフェ" in marked


# --- Operators ---


@pytest.mark.parametrize(
    ("q", "expected"),
    [
        ('kettle -"for tea"', {"kettle", "kettle-2"}),
        ("kettle -glass", {"kettle", "cup"}),
        ('"kettle of glass"', {"kettle-2"}),
        ('"glass of kettle"', set()),
        ("brand:Bo", {"pot", "lamp"}),
        ("tea brand:bo", {"pot"}),
        ("price:20", {"pot"}),
        ("-kettle", {"pot", "lamp", "neko"}),
    ],
)
def test_operators_restrict_the_documents(shop: CollectionClient, q: str, expected: set[str]) -> None:
    answer = shop.search(q, operators=True, mode="words")
    assert set(ids(answer)) == expected
    assert set(answer["operators"]) == {"phrases", "excluded", "conditions"}


def test_operators_are_plain_text_unless_they_are_asked_for(shop: CollectionClient) -> None:
    assert "lamp" not in ids(shop.search("kettle -glass", mode="words"))
    assert "kettle-2" in ids(shop.search("kettle -glass", mode="words"))


@pytest.mark.parametrize("q", ["*", " * "])
def test_a_star_finds_all_documents_that_pass_the_newest_first(shop: CollectionClient, q: str) -> None:
    assert ids(shop.search(q)) == ["neko", "lamp", "cup", "pot", "kettle-2", "kettle"]
    answer = shop.search(q, filter="brand = Ada", limit=1, explain=True)
    assert (ids(answer), answer["page"]["has_more"]) == (["kettle-2"], True)
    assert runtime_of(shop.client).impressions.flush() is None
    assert shop.client.get(f"{shop.path}/queries/{answer['query_id']}").status_code == 404


@pytest.mark.parametrize("q", ["🫖", "the of a", '""', "-", "\u200b", "a" * 2048])
def test_odd_queries_are_answered(shop: CollectionClient, q: str) -> None:
    for operators in (False, True):
        assert len(shop.search(q, operators=operators, prefix="last")["hits"]) <= len(DOCUMENTS)


# --- Facets, sorting, distinct results ---


def test_facets_count_all_documents_that_match_a_word(shop: CollectionClient) -> None:
    answer = shop.search("kettle", facets=["brand", "price", "tags", "sold"], limit=1)
    assert answer["facets"] == {
        "brand": {"values": {"Ada": 2}},
        "price": {"min": 5, "max": 45.5, "mean": pytest.approx(80.5 / 3), "values": {"30": 1, "45.5": 1, "5": 1}},
        "tags": {"values": {"tea": 1}},
        "sold": {"values": {"true": 1}},
    }


def test_facets_follow_filter_corrections_and_star(shop: CollectionClient) -> None:
    assert shop.search("*", facets=["brand"])["facets"]["brand"]["values"] == {"Ada": 2, "Bo": 2, "Neko": 1}
    assert shop.search("ketle", facets=["brand"], filter="price > 40")["facets"]["brand"]["values"] == {"Ada": 1}
    assert shop.search("nowhere", facets=["brand"])["facets"]["brand"]["values"] == {}


def test_facets_see_a_write_and_a_deletion_at_once(client: TestClient) -> None:
    small = create(client, "small", filterable=["brand"])
    assert small.search("*", facets=["brand"])["facets"] == {"brand": {"values": {}}}
    small.add(*DOCUMENTS[:3])
    assert small.search("*", facets=["brand"])["facets"]["brand"]["values"] == {"Ada": 2, "Bo": 1}
    client.delete(f"{small.path}/documents/pot")
    small.add(DOCUMENTS[1] | {"metadata": {"brand": "Cy"}})
    assert small.search("*", facets=["brand"])["facets"]["brand"]["values"] == {"Ada": 1, "Cy": 1}
    client.put(small.path, json={"filterable": ["brand", "price"]})
    assert small.search("*", facets=["price"])["facets"]["price"]["max"] == 30


def test_hits_are_sorted_over_all_matching_documents(shop: CollectionClient) -> None:
    assert ids(shop.search("kettle", sort=["price:asc"])) == ["cup", "kettle", "kettle-2"]
    answer = shop.search("kettle", sort=["price:desc"], limit=1, offset=1, candidates=1)
    assert (ids(answer), answer["page"]["has_more"], answer["hits"][0]["position"]) == (["kettle"], True, 2)
    assert answer["hits"][0]["score"] > 0
    assert ids(shop.search("*", sort=["brand:desc", "price:asc"])) == [
        "neko",
        "pot",
        "lamp",
        "kettle",
        "kettle-2",
        "cup",
    ]


def test_a_value_is_shown_once_with_distinct(shop: CollectionClient) -> None:
    answer = shop.search("kettle tea", distinct="brand")
    brands = [hit["metadata"].get("brand") for hit in answer["hits"]]
    assert sorted(filter(None, brands)) == sorted(set(filter(None, brands)))
    assert "cup" in ids(answer)  # documents without the field are all kept
    assert ids(shop.search("*", distinct="brand", sort=["price:desc"])) == ["kettle-2", "pot", "cup", "neko"]


@pytest.mark.parametrize(
    ("more", "pointer"),
    [({"facets": ["color"]}, "/facets/0"), ({"sort": ["size:asc"]}, "/sort/0"), ({"distinct": "size"}, "/distinct")],
)
def test_fields_that_are_not_filterable_are_refused(shop: CollectionClient, more: dict[str, Any], pointer: str) -> None:
    body = problem(shop.client.post(f"{shop.path}/search", json={"q": "tea", **more}), 422, "field_not_filterable")
    assert body["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize(
    "more", [{"sort": ["price"]}, {"sort": ["price:up"]}, {"facets": []}, {"prefix": "all"}, {"snippet_length": 5},
             {"max_null_weight": 2}, {"typos": "yes"}, {"min_logit": "low"}, {"fields": [""]}],
)  # fmt: skip
def test_parameters_out_of_their_limits_are_refused(shop: CollectionClient, more: dict[str, Any]) -> None:
    problem(shop.client.post(f"{shop.path}/search", json={"q": "tea", **more}), 422, "invalid_request")


# --- Thresholds, fields, snippets ---


def test_hits_below_a_logit_are_left_out(shop: CollectionClient) -> None:
    hits = shop.search("kettle")["hits"]
    least = hits[1]["logit"]
    assert [hit["id"] for hit in hits[:2]] == ids(shop.search("kettle", min_logit=least))
    assert shop.search("kettle", min_logit=1e9)["hits"] == []


def test_an_answer_that_is_probably_none_is_empty_with_max_null_weight(shop: CollectionClient) -> None:
    answer = shop.search("kettle")
    weight = answer["attention"]["null_weight"]
    assert shop.search("kettle", max_null_weight=min(1.0, weight + 0.001))["hits"] == answer["hits"]
    assert shop.search("kettle", max_null_weight=max(0.0, weight - 0.001))["hits"] == []


def test_fields_select_what_a_hit_contains(shop: CollectionClient) -> None:
    hit = shop.search("kettle", fields=["title", "price"])["hits"][0]
    assert set(hit) == {"id", "position", "score", "logit", "title", "metadata", "highlights"}
    assert set(hit["metadata"]) == {"price"}
    assert {one["field"] for one in hit["highlights"]} == {"title"}
    assert set(shop.search("kettle", fields=[])["hits"][0]) == {"id", "position", "score", "logit", "highlights"}


def test_a_snippet_is_the_part_of_a_long_text_with_the_words(shop: CollectionClient) -> None:
    hits = shop.search("kettle boils", snippet=True, snippet_length=120, fields=["title"])["hits"]
    snippet = next(hit for hit in hits if hit["id"] == "kettle")["snippet"]
    assert "A kettle boils water" in snippet["text"]
    assert len(snippet["text"]) <= 122
    assert snippet["text"].startswith("…")
    assert {snippet["text"][one["start"] : one["end"]] for one in snippet["highlights"]} == {"kettle", "boils"}
    whole = next(hit for hit in hits if hit["id"] == "kettle-2")["snippet"]
    assert whole["text"] == "A kettle of glass."
    assert "text" not in hits[0]


# --- Synonyms and stop words ---


def test_synonyms_work_with_the_next_search(client: TestClient) -> None:
    shop = create(client, "synonymous")
    shop.add(*DOCUMENTS)
    assert shop.search("boiler", mode="words", typos=False)["hits"] == []
    path = f"{shop.path}/synonyms/boil"
    assert client.put(path, json={"words": ["boiler", "kettle"]}).status_code == 201
    assert set(ids(shop.search("boiler", mode="words"))) == {"kettle", "kettle-2", "cup"}
    assert client.put(path, json={"words": ["kettle"], "from": "boiler"}).status_code == 200
    assert ids(shop.search("boiler", mode="words"))
    assert good(client.get(path)) == {"id": "boil", "words": ["kettle"], "from": "boiler"}
    assert shop.get("synonyms") == {"synonyms": [{"id": "boil", "words": ["kettle"], "from": "boiler"}]}
    assert client.delete(path).status_code == 204
    assert shop.search("boiler", mode="words", typos=False)["hits"] == []
    problem(client.get(path), 404, "synonyms_not_found")
    problem(client.delete(path), 404, "synonyms_not_found")
    problem(client.put(path, json={"words": ["kettle"]}), 422, "invalid_request")


def test_synonyms_survive_a_restart(tmp_path: Any) -> None:
    with opened(tmp_path / "data") as client:
        shop = create(client, "shop")
        shop.add(*DOCUMENTS)
        client.put(f"{shop.path}/synonyms/1", json={"words": ["boiler", "kettle"]})
    with opened(tmp_path / "data") as client:
        assert len(CollectionClient(client, "shop").search("boiler", mode="words")["hits"]) == 3


def test_stop_words_neither_find_nor_mark(client: TestClient) -> None:
    shop = create(client, "stopped", stop_words=["for", "a"])
    shop.add(*DOCUMENTS)
    answer = shop.search("a cup for tea", mode="words")
    assert "lamp" not in ids(answer)
    marked = {hit["text"][one["start"] : one["end"]].lower() for hit in answer["hits"]
              for one in hit["highlights"] if one["field"] == "text"}  # fmt: skip
    assert not marked & {"for", "a"}
    assert shop.search("for a", mode="words")["hits"]


# --- GET, several searches ---


def test_a_search_by_get_has_the_parameters_of_post(shop: CollectionClient) -> None:
    posted = shop.search("ketle", facets=["brand", "price"], sort=["price:asc"], limit=2, log=False)
    fetched = shop.get("search", q="ketle", facets="brand,price", sort="price:asc", limit=2)
    for body in (posted, fetched):
        for name in ("query_id", "took_ms", "timings_ms"):
            body.pop(name)
    assert posted == fetched


def test_get_is_not_logged_and_can_be_cached(shop: CollectionClient) -> None:
    first = shop.client.get(f"{shop.path}/search", params={"q": "kettle"})
    assert first.headers["cache-control"] == "no-cache"
    again = shop.client.get(
        f"{shop.path}/search", params={"q": "kettle"}, headers={"If-None-Match": first.headers["etag"]}
    )
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["vary"] == first.headers["vary"] == "Accept-Encoding"
    runtime_of(shop.client).impressions.flush()
    assert shop.client.get(f"{shop.path}/queries/{first.json()['query_id']}").status_code == 404


def test_if_none_match_is_a_list_of_tags_or_a_star(shop: CollectionClient) -> None:
    def status(*values: str) -> int:
        headers = [("If-None-Match", value) for value in values]
        return shop.client.get(f"{shop.path}/search", params={"q": "kettle"}, headers=headers).status_code

    tag = shop.client.get(f"{shop.path}/search", params={"q": "kettle"}).headers["etag"].removeprefix("W/")
    same = ([f"W/{tag}"], ['"a", ' + tag], ['"a"', f"W/{tag}"], ["*"], [" * "])
    assert [status(*values) for values in same] == [304] * len(same)
    others = ([], ['"a"'], [tag.strip('"')], ['"*"'])
    assert [status(*values) for values in others] == [200] * len(others)


def test_a_logged_search_says_no_store(shop: CollectionClient) -> None:
    logged = shop.client.get(f"{shop.path}/search", params={"q": "kettle", "log": "true"})
    assert logged.headers["cache-control"] == "no-store"
    assert shop.get(f"queries/{logged.json()['query_id']}")["q"] == "kettle"
    assert shop.client.post(f"{shop.path}/search", json={"q": "kettle"}).headers["cache-control"] == "no-store"


@pytest.mark.parametrize("query", ["", "q=a&q=b", "q=a&limit=x", "q=a&unknown=1", "q=a&log=maybe", "q=a&limit=0"])
def test_a_bad_query_string_is_refused(shop: CollectionClient, query: str) -> None:
    problem(shop.client.get(f"{shop.path}/search?{query}"), 422, "invalid_request")


def test_several_searches_are_answered_in_their_order(client: TestClient, shop: CollectionClient) -> None:
    searches = [
        {"collection": "shop", "q": "kettle", "limit": 1},
        {"collection": "missing", "q": "kettle"},
        {"collection": "shop", "q": "lamp", "facets": ["nowhere"]},
        {"collection": "shop", "q": "lamp", "fields": ["title"]},
    ]
    results = good(client.post("/v1/multi-search", json={"searches": searches}))["results"]
    assert [one.get("code") for one in results] == [None, "collection_not_found", "field_not_filterable", None]
    assert len(results[0]["hits"]) == 1
    assert results[3]["hits"][0]["title"] == "Desk lamp"
    problem(client.post("/v1/multi-search", json={"searches": []}), 422, "invalid_request")


def test_the_searches_of_a_request_have_a_bounded_sum_of_hits_and_are_converted_off_the_event_loop(
    client: TestClient, shop: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches = [{"collection": "shop", "q": "kettle", "limit": 1000}, {"collection": "shop", "q": "lamp", "limit": 1}]
    problem(client.post("/v1/multi-search", json={"searches": searches}), 422, "invalid_request")
    searches[0]["limit"] = 999
    converted_in = set()

    def dumps(value: Any) -> bytes:
        converted_in.add(threading.current_thread().name)
        return orjson.dumps(value)

    monkeypatch.setattr(routes, "orjson", SimpleNamespace(dumps=dumps))
    assert len(good(client.post("/v1/multi-search", json={"searches": searches}))["results"]) == 2
    assert converted_in
    assert all(name.startswith("search") for name in converted_in)


def test_values_of_replaced_documents_are_dropped(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field_columns, "SPARE_ROWS", 2)
    small = create(client, "replaced", filterable=["brand"])
    for number in range(8):
        small.add(DOCUMENTS[0] | {"metadata": {"brand": f"brand {number}"}})
        facets = small.search("*", facets=["brand"])["facets"]
        assert facets == {"brand": {"values": {f"brand {number}": 1}}}
        columns = runtime_of(client).collection("replaced").field_columns
        assert isinstance(columns, field_columns.Columns)
        assert len(columns) <= 2 + 2 * len(runtime_of(client).collection("replaced").generation.rows)
