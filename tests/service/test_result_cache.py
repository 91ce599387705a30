"""The result cache: a repeated search has the answer of a new search, whatever happened in between."""

import gc
import random
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from fastapi.testclient import TestClient

from index.ranking.attention import AttentionHead
from service.http.metrics import CACHED_RESULTS
from service.operations.housekeeping import age_memory
from service.operations.retention import forget_old_feedback
from service.runtime.result_cache import Result, ResultCache
from service.runtime.rules import Rule
from service.runtime.search_runtime import SearchRuntime
from service.runtime.served_collection import ServedCollection, Serving
from service.search import actions
from service.search.actions import Answered
from service.search.schemas import SearchIn
from tests.service.authorised import Keys
from tests.service.client import CollectionClient, create, event, good, opened, runtime_of
from tests.service.workers.pairs import VOLATILE, paired

QUERY = "which tree is tall"
ELSEWHERE = "maple syrup on pancakes"
TREES = ("oak", "pine", "birch", "willow", "maple")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("cache") / "data") as client:
        yield client


@pytest.fixture
def wood(client: TestClient, request: pytest.FixtureRequest) -> CollectionClient:
    """A new collection with five documents and a past query far from QUERY."""
    wood = create(client, request.node.name.replace("_", "-").replace("[", "-").rstrip("]")[:100], filterable=["kind"])
    wood.add(*({"id": tree, "text": f"the {tree} is a tall tree", "metadata": {"kind": tree}} for tree in TREES))
    wood.judge("a spoon of honey", "maple", 1)
    return wood


def cached(search: Callable[[], Any]) -> int:
    """Return how many searches are answered from the cache meanwhile."""
    before = CACHED_RESULTS._value.get()
    search()
    return int(CACHED_RESULTS._value.get() - before)


def stable(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name not in VOLATILE}


# --- A repeated search ---


def test_a_repeated_search_has_the_same_answer_and_an_impression_of_its_own(wood: CollectionClient) -> None:
    first = wood.search(QUERY, client_id="ada", session_id="morning")
    again = wood.search(QUERY, client_id="bo")
    assert stable(again) == stable(first)
    assert again["query_id"] != first["query_id"]
    assert ("cache" in first["timings_ms"], "cache" in again["timings_ms"]) == (False, True)
    assert again["timings_ms"].keys() > first["timings_ms"].keys()
    logged = [wood.get(f"queries/{answer['query_id']}") for answer in (first, again)]
    assert [(one["client_id"], one["session_id"]) for one in logged] == [("ada", "morning"), ("bo", None)]
    assert logged[0]["shown"] == logged[1]["shown"]
    wood.act(again["hits"][0]["id"], query_id=again["query_id"], client_id="bo")
    assert wood.search(QUERY)["hits"] != first["hits"], "a click on the repeated search is learned"


def test_a_search_that_is_not_logged_leaves_no_impression_also_after_one_that_is(wood: CollectionClient) -> None:
    wood.search(QUERY)
    for _ in range(2):
        unlogged = wood.search(QUERY, log=False)
        assert wood.client.get(f"{wood.path}/queries/{unlogged['query_id']}").status_code == 404


def test_get_and_multi_search_are_answered_from_the_cache_with_the_same_etag(wood: CollectionClient) -> None:
    path = f"{wood.path}/search"
    tags = {wood.client.get(path, params={"q": QUERY}).headers["ETag"] for _ in range(3)}
    assert len(tags) == 1
    several = {"searches": [{"collection": wood.name, "q": QUERY, "log": False}] * 3}
    assert cached(lambda: good(wood.client.post("/v1/multi-search", json=several))) >= 2


SHARED = [{"q": "*"}, {"mode": "words"}, {"mode": "dense"}, {"facets": ["kind"]}, {"filter": 'kind = "oak"'}]
SHARED += [{"sort": ["kind:asc"]}, {"snippet": True}, {"answer": True}, {"fields": ["title"]}, {"predict": ["kind"]}]
SHARED += [{"prefix": "last"}, {"operators": True}, {"distinct": "kind"}, {"count": True}, {"min_logit": 1.0}]


@pytest.mark.parametrize("more", SHARED, ids=lambda more: next(iter(more)))
def test_each_kind_of_search_is_cached_apart(wood: CollectionClient, more: dict[str, Any]) -> None:
    search = {"q": QUERY, **more}
    other = wood.search(QUERY)
    first = wood.search(**search)
    assert "cache" not in first["timings_ms"], "the result of another search"
    again = wood.search(**search)
    assert "cache" in again["timings_ms"]
    assert stable(again) == stable(first)
    assert stable(wood.search(QUERY)) == stable(other)


@pytest.mark.parametrize(
    "more", [{"explain": True}, {"explore": 0.5}, {"context": ["oak"]}, {"model": 0}], ids=lambda more: next(iter(more))
)
def test_a_search_with_other_inputs_is_not_cached(wood: CollectionClient, more: dict[str, Any]) -> None:
    assert cached(lambda: [wood.search(QUERY, **more) for _ in range(3)]) == 0


def test_the_parameter_candidates_is_read_also_where_it_has_the_default(wood: CollectionClient) -> None:
    search = {"q": "which tree is tal", "prefix": "last"}
    fewer, more = (
        good(wood.client.post(f"{wood.path}/search", json=search | one)) for one in ({}, {"candidates": 200})
    )
    assert "cache" not in more["timings_ms"]
    asked = [wood.get(f"queries/{answer['query_id']}")["request"]["candidates"] for answer in (fewer, more)]
    assert asked[0] != asked[1] == 200


# --- What ends a result ---


def test_feedback_ends_the_results_near_it_alone(wood: CollectionClient) -> None:
    wood.search(QUERY)
    wood.search(ELSEWHERE)
    wood.judge(QUERY, "willow", 4)
    assert wood.search(QUERY)["hits"][0]["id"] == "willow"
    elsewhere = wood.search(ELSEWHERE)
    assert "cache" in elsewhere["timings_ms"]
    assert elsewhere["generation"] == wood.get()["generation"]
    wood.judge(QUERY, "willow", None)
    assert "cache" not in wood.search(QUERY)["timings_ms"]
    assert "cache" in wood.search(ELSEWHERE)["timings_ms"]


def change_settings(wood: CollectionClient, **settings: Any) -> None:
    good(wood.client.put(wood.path, json={"filterable": ["kind"], **settings}))


def serve_another_model(wood: CollectionClient) -> None:
    state = runtime_of(wood.client).collection(wood.name)
    with state.lock:
        state.serve(Serving(1, AttentionHead(replace(state.initial, inverse_temperature=3.0))))


def hide(wood: CollectionClient) -> None:
    """Remove a document as a write does whose index cannot be written."""
    state = runtime_of(wood.client).collection(wood.name)
    state.store.hide([int(state.generation.rows[0])])


CHANGES: dict[str, Callable[[CollectionClient], Any]] = {
    "a document is added": lambda wood: wood.add({"id": "elm", "text": "the elm is a tall tree"}),
    "a document is replaced": lambda wood: wood.add({"id": "oak", "text": "an oak"}),
    "a document is changed": lambda wood: good(wood.client.patch(f"{wood.path}/documents/oak", json={"url": "u"})),
    "a document is deleted": lambda wood: wood.client.delete(f"{wood.path}/documents/oak"),
    "a document is hidden": hide,
    "a rule is made": lambda wood: good(
        wood.client.put(f"{wood.path}/rules/r", json={"query": {"contains": "tall"}, "hide": ["oak"]})
    ),
    "a synonym is made": lambda wood: good(
        wood.client.put(f"{wood.path}/synonyms/s", json={"words": ["tall", "pine"]})
    ),
    "corrections end": lambda wood: change_settings(wood, typos=False),
    "another model serves": serve_another_model,
    "a similar query gets feedback": lambda wood: wood.act(
        "oak", "thumbs_down", user_query="which willow tree is tall"
    ),
    "all feedback is deleted": lambda wood: wood.post("events/delete", {"client_id": "ada"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_in_the_next_answer(client: TestClient, change: str) -> None:
    wood = create(client, change.replace(" ", "-"), filterable=["kind"])
    wood.add(*({"id": tree, "text": f"the {tree} is a tall tree", "metadata": {"kind": tree}} for tree in TREES))
    wood.act("birch", user_query="tree tall", client_id="ada")
    misspelt = "which willlow tree is tall"
    before = wood.search(misspelt)
    CHANGES[change](wood)
    after = wood.search(misspelt)
    assert "cache" not in after["timings_ms"]
    assert (after["hits"], after["attention"]) != (before["hits"], before["attention"])
    assert stable(after) == stable(expected_answer(runtime_of(client), wood.name, SearchIn(q=misspelt, log=False)))


def test_a_rule_that_begins_later_is_obeyed_from_then_on(
    wood: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    rule = {"query": {"exact": QUERY}, "hide": ["oak"], "from": begins}
    good(wood.client.put(f"{wood.path}/rules/r", json=rule))
    assert "oak" in [hit["id"] for hit in (wood.search(QUERY), wood.search(QUERY))[1]["hits"]]
    monkeypatch.setattr(Rule, "applies_at", lambda *_: True)
    assert "oak" not in [hit["id"] for hit in wood.search(QUERY)["hits"]]


def test_a_result_whose_state_changed_during_its_search_is_not_kept(
    wood: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = actions.answered

    def slow(runtime: SearchRuntime, *given: Any) -> Answered:
        found = plain(runtime, *given)
        wood.add({"id": "elm", "text": "the elm is a tall tree"})
        return found

    with monkeypatch.context() as patch:
        patch.setattr("service.search.actions.answered", slow)
        assert "elm" not in wood.ids(QUERY)
    assert "elm" in wood.ids(QUERY)


def test_a_result_of_a_later_state_than_its_search_began_with_is_not_kept(
    wood: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = actions.answered

    def late(runtime: SearchRuntime, *given: Any) -> Answered:
        wood.judge(ELSEWHERE, "oak", 1)
        return plain(runtime, *given)

    with monkeypatch.context() as patch:
        patch.setattr("service.search.actions.answered", late)
        wood.search(QUERY)
    assert "cache" not in wood.search(QUERY)["timings_ms"]
    assert "cache" in wood.search(QUERY)["timings_ms"]


def test_a_degraded_collection_says_so_in_each_answer(wood: CollectionClient, monkeypatch: pytest.MonkeyPatch) -> None:
    wood.search(QUERY)
    monkeypatch.setattr(runtime_of(wood.client).collection(wood.name), "missing_changes", 3)
    assert wood.search(QUERY)["degraded"] == ["commits_missing"]
    monkeypatch.undo()
    assert wood.search(QUERY)["degraded"] == []


def test_an_erasure_leaves_no_text_of_a_query_in_the_cache(wood: CollectionClient) -> None:
    cache = runtime_of(wood.client).result_cache
    wood.search(QUERY, client_id="ada")
    assert len(cache)
    wood.ended_task(good(wood.client.post("/v1/erasures", json={"client": "ada"})))
    assert (len(cache), cache.size_bytes) == (0, 0)


def test_keys_with_other_filters_share_no_result(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        wood = create(client, "wood", filterable=["kind"])
        wood.add(*({"id": tree, "text": f"the {tree} is a tall tree", "metadata": {"kind": tree}} for tree in TREES))
        keys = Keys.first(client)
        oak, birch = (keys.headers("search", filter=f'kind = "{tree}"') for tree in ("oak", "birch"))

        def search(headers: dict[str, str]) -> Any:
            return good(client.post(f"{wood.path}/search", json={"q": QUERY}, headers=headers))

        found = [search(headers) for headers in (oak, birch, oak)]
        assert [[hit["id"] for hit in answer["hits"]] for answer in found] == [["oak"], ["birch"], ["oak"]]
        assert ["cache" in answer["timings_ms"] for answer in found] == [False, False, True]


def test_the_documents_of_an_earlier_state_are_not_kept_in_memory(wood: CollectionClient) -> None:
    wood.search(QUERY)
    state = runtime_of(wood.client).collection(wood.name)
    parts = [weakref.ref(state.generation), weakref.ref(state.generation.alive), weakref.ref(state.generation.words)]
    wood.add({"id": "elm", "text": "the elm is a tall tree"})
    gc.collect()
    assert [part() for part in parts] == [None, None, None]


class Copy:
    """A collection object of its own with the state of another."""

    def __init__(self, state: ServedCollection) -> None:
        for name in ("generation", "serving", "settings", "rules", "fingerprint"):
            setattr(self, name, getattr(state, name))


@pytest.mark.parametrize("clears", [True, False])
def test_a_collection_object_that_is_gone_leaves_no_result(wood: CollectionClient, clears: bool) -> None:
    cache, state = ResultCache(1 << 20), runtime_of(wood.client).collection(wood.name)
    gone: Any = Copy(state)
    cache.add(cache.moment(gone), "a key", Result("a value", [QUERY], [], 10))
    assert cache.find(cache.moment(gone), "a key") == "a value"
    del gone
    gc.collect()
    if clears:
        cache.clear()
    else:
        cache.moment(state)
    assert (len(cache), cache.size_bytes) == (0, 0)


# --- Whatever happened in between ---


@pytest.mark.parametrize("seed", range(2))
def test_answers_are_those_of_a_new_search_after_any_sequence_of_changes(tmp_path: Path, seed: int) -> None:
    generator = random.Random(seed)
    words, ids = ["oak", "elm", "wood", "leaf", "tall", "old"], ["a", "b", "c", "d", "e/1"]
    queries = ["tall oak", "oak tall", "old elm leaf", "old leaf", "wood", "syrup on pancakes", "*"]
    searches = [{"q": query} for query in queries] + [
        {"q": "tall oka"},
        {"q": "old lea", "prefix": "last"},
        {"q": "wood", "filter": "n = 1", "facets": ["n"], "sort": ["n:desc"]},
        {"q": "tall oak", "answer": True, "snippet": True},
    ]
    with paired(tmp_path / "data") as pair:
        client, runtime = pair.client, pair.runtime
        wood = create(client, "wood", filterable=["n"])
        for collection in (wood, create(client, "park", filterable=["n"])):
            documents = [{"id": id, "text": f"{id} tall oak {n}", "metadata": {"n": n}} for n, id in enumerate(ids)]
            collection.add(*documents)

        def text() -> str:
            return " ".join(generator.choices(words, k=generator.randrange(1, 9)))

        def feedback() -> dict[str, Any]:
            action = generator.choice(["click", "purchase", "thumbs_down"])
            return event(generator.choice(ids), action, user_query=generator.choice(queries[:-1]), client_id="ada")

        def judgment() -> dict[str, Any]:
            rating, query = generator.choice([0, 1, 3, 4, None]), generator.choice([*queries[:-1], text()])
            return {"query": query, "document_id": generator.choice(ids), "rating": rating, "rater": "bo"}

        def rule() -> dict[str, Any]:
            kind = generator.choice(["near", "exact", "contains"])
            place = generator.choice([{"hide": ["a"]}, {"pin": [{"id": "b", "position": 1}]}])
            return {"query": {kind: generator.choice(queries[:-1])}, **place}

        path = wood.path
        likely = [
            lambda: client.post(f"{path}/events", json=feedback()),
            lambda: wood.post("judgments", {"judgments": [judgment()]}),
        ]
        others = [
            lambda: wood.add({"id": generator.choice(ids), "text": text(), "metadata": {"n": generator.randrange(3)}}),
            lambda: client.patch(f"{path}/documents/{ids[0]}", json={"url": f"u{generator.random()}"}),
            lambda: client.patch(f"{path}/documents/{ids[1]}", json={"metadata": {"n": generator.randrange(3)}}),
            lambda: client.delete(f"{path}/documents/{generator.choice(ids)}"),
            lambda: wood.post("events/delete", {"client_id": "ada"}),
            lambda: good(client.put(f"{path}/rules/r{generator.randrange(2)}", json=rule())),
            lambda: client.delete(f"{path}/rules/r{generator.randrange(2)}"),
            lambda: good(client.put(path, json={"filterable": ["n"], "typos": generator.choice([True, False])})),
            lambda: good(client.put(f"{path}/synonyms/s", json={"words": generator.sample(words, 2)})),
            lambda: forget_old_feedback(runtime, datetime.now(UTC) + timedelta(days=3)),
            lambda: age_memory(runtime),
            lambda: good(client.post("/v1/collections/swap", json={"a": "wood", "b": "park"})),
            lambda: runtime.collection("wood").save(),
        ]
        used = 0
        for _ in range(60):
            generator.choice(likely if generator.random() < 0.7 else others)()
            pair.publish()
            for search in generator.sample(searches, 5):
                request = SearchIn.model_validate({**search, "log": False})
                for each, answerer in ((runtime, pair.client), (pair.follower, pair.worker)):
                    expected = stable(expected_answer(each, "wood", request))
                    found = good(answerer.post(f"{path}/search", json=request.model_dump(exclude_unset=True)))
                    assert stable(found) == expected
                    used += "cache" in found["timings_ms"]
        assert used > 100


def expected_answer(runtime: SearchRuntime, collection: str, request: SearchIn) -> dict[str, Any]:
    """Return the answer of a new search, as a client reads it."""
    answer: dict[str, Any] = orjson.loads(
        orjson.dumps(actions.answer(runtime, runtime.collection(collection), request))
    )
    return answer
