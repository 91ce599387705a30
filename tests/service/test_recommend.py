"""Recommendations over HTTP: the contract, and every refused request."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.service.client import SECRET, CollectionClient, create, event, opened, problem, runtime_of

TEXTS = {
    "pie-1": "a red apple pie with cinnamon",
    "pie-2": "a red apple pie with cream",
    "pie-3": "a green pear pie with cream",
    "car-1": "a blue car with a loud engine",
    "car-2": "a blue car with four wheels",
    "car-3": "a blue van with a loud engine",
}


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectionClient]:
    with opened(tmp_path_factory.mktemp("recommend") / "data") as client:
        kitchen = create(client, "kitchen", filterable=["kind"])
        kitchen.add(*({"id": id, "text": text, "metadata": {"kind": id[:3]}} for id, text in TEXTS.items()))
        yield kitchen


def recommended(kitchen: CollectionClient, *like: str, **more: Any) -> Any:
    return kitchen.post("recommend", {"like": list(like), **more})


def refused(kitchen: CollectionClient, **body: Any) -> Any:
    return kitchen.client.post(f"{kitchen.path}/recommend", json=body)


def ids(answer: Any) -> list[str]:
    return [hit["id"] for hit in answer["hits"]]


def test_documents_like_the_liked_document_come_first(kitchen: CollectionClient) -> None:
    assert ids(recommended(kitchen, "pie-1"))[0] == "pie-2"
    assert set(ids(recommended(kitchen, "pie-1", "car-1", limit=2))) == {"pie-2", "car-3"}


def test_the_answer_has_the_form_of_a_search(kitchen: CollectionClient) -> None:
    answer = recommended(kitchen, "pie-1", limit=2)
    searched = kitchen.search("pie", log=False)
    left_out = {"corrections"}
    assert answer.keys() == searched.keys() - left_out
    assert answer["attention"].keys() == searched["attention"].keys()
    assert answer["hits"][0].keys() == searched["hits"][0].keys() - {"highlights"}
    assert [hit["position"] for hit in answer["hits"]] == [1, 2]
    assert answer["page"] == {"limit": 2, "offset": 0, "has_more": True}
    assert answer["model"] == {"version": 0, "alias": "champion"}
    assert answer["attention"]["null_calibrated"] is False
    everything = recommended(kitchen, "pie-1")
    weights = math.fsum(hit["score"] for hit in everything["hits"]) + everything["attention"]["null_weight"]
    assert weights == pytest.approx(1.0, abs=1e-6)


def test_pages_follow_each_other(kitchen: CollectionClient) -> None:
    whole = recommended(kitchen, "pie-1", "car-1")["hits"]
    pages = [recommended(kitchen, "pie-1", "car-1", limit=2, offset=offset) for offset in (0, 2)]
    assert [hit for page in pages for hit in page["hits"]] == whole
    assert [page["page"]["has_more"] for page in pages] == [True, False]


def test_liked_and_disliked_documents_never_come_back(kitchen: CollectionClient) -> None:
    assert set(ids(recommended(kitchen, "pie-1", dislike=["car-2"]))) == TEXTS.keys() - {"pie-1", "car-2"}
    assert ids(recommended(kitchen, *TEXTS)) == []


def test_a_dislike_lowers_the_logit_of_its_neighbour(kitchen: CollectionClient) -> None:
    def logits(**more: Any) -> dict[str, float]:
        return {hit["id"]: hit["logit"] for hit in recommended(kitchen, "car-2", **more)["hits"]}

    assert logits(dislike=["pie-1"])["pie-2"] < logits()["pie-2"] - 1


def test_an_explanation_sums_to_the_logit_and_names_the_documents(kitchen: CollectionClient) -> None:
    answer = recommended(kitchen, "pie-1", "car-1", dislike=["car-2"], explain=True)
    for hit in answer["hits"]:
        explained = hit["explain"]
        assert list(explained["parts"]) == ["like", "dislike"]
        assert math.fsum(explained["parts"].values()) == pytest.approx(hit["logit"], abs=1e-4)
        assert explained["keys"] == []
        assert {(one["id"], one["part"]) for one in explained["documents"]} == {
            ("pie-1", "like"), ("car-1", "like"), ("car-2", "dislike"),
        }  # fmt: skip
        assert math.fsum(one["share"] for one in explained["documents"]) == pytest.approx(2.0, abs=1e-5)
    assert answer["hits"][0]["explain"]["documents"][0]["share"] > 0.5
    assert "explain" not in recommended(kitchen, "pie-1")["hits"][0]


def test_a_filter_selects_and_a_repeated_id_counts_once(kitchen: CollectionClient) -> None:
    cars = recommended(kitchen, "pie-1", filter="kind = car")
    assert set(ids(cars)) == {"car-1", "car-2", "car-3"}
    once, twice = recommended(kitchen, "pie-1", "car-1"), recommended(kitchen, "pie-1", "pie-1", "car-1")
    assert once["hits"] == twice["hits"]


def test_fields_select_the_content_of_hits(kitchen: CollectionClient) -> None:
    (hit,) = recommended(kitchen, "pie-1", limit=1, fields=["title", "kind"])["hits"]
    assert hit.keys() == {"id", "position", "score", "logit", "title", "metadata"}
    assert hit["metadata"] == {"kind": "pie"}


def test_unknown_documents_are_404_with_their_positions(kitchen: CollectionClient) -> None:
    answer = refused(kitchen, like=["pie-1", SECRET], dislike=["car-1", f"{SECRET}2"])
    body = problem(answer, 404, "document_not_found")
    assert [one["pointer"] for one in body["errors"]] == ["/like/1", "/dislike/1"]


def test_a_liked_document_without_a_vector_is_no_evidence(
    kitchen: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = runtime_of(kitchen.client).collection("kitchen")
    values = state.store.current.values.copy()
    values[0] = 0
    monkeypatch.setattr(state.store, "current", replace(state.store.current, values=values))
    monkeypatch.setattr(state, "without_vectors", {int(state.generation.rows[0])})
    monkeypatch.setattr(type(state.generation), "value_vectors", lambda generation, at: generation.values[at])
    alone = recommended(kitchen, "pie-1", explain=True)
    assert (alone["hits"], alone["attention"]["null_weight"], alone["degraded"]) == ([], 1.0, ["vectors_pending"])
    both = recommended(kitchen, "pie-1", "car-1", explain=True)
    assert {one["id"] for hit in both["hits"] for one in hit["explain"]["documents"]} == {"car-1"}


def test_an_unknown_document_waits_for_no_writer(kitchen: CollectionClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_of(kitchen.client).collection("kitchen"), "lock", None)
    problem(refused(kitchen, like=["pie-1", "gone"]), 404, "document_not_found")


def test_a_document_that_a_writer_publishes_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path / "data") as client:
        shelf = CollectionClient(client)
        shelf.add(*({"id": id, "text": text} for id, text in TEXTS.items()))
        store = runtime_of(client).collection(shelf.name).store
        before = store.current
        shelf.add({"id": "pie-4", "text": "a red apple pie with nuts"})
        after = store.current
        monkeypatch.setattr(runtime_of(client).collection(shelf.name), "lock", Writer(store, after))
        store.current = before
        assert ids(recommended(shelf, "pie-4"))[0].startswith("pie")


class Writer:
    """The lock of a collection while a writer publishes a generation: the lock is free when it is published."""

    def __init__(self, store: Any, generation: Any) -> None:
        self._store, self._generation = store, generation

    def __enter__(self) -> None:
        self._store.current = self._generation

    def __exit__(self, *_: object) -> None:
        """The lock is released."""


def test_a_document_both_liked_and_disliked_is_refused(kitchen: CollectionClient) -> None:
    body = problem(refused(kitchen, like=["pie-1"], dislike=["car-1", "pie-1"]), 422, "invalid_request")
    assert [one["pointer"] for one in body["errors"]] == ["/dislike/1"]


@pytest.mark.parametrize(
    ("pointer", "body"),
    [
        ("/like", {}),
        ("/like", {"like": []}),
        ("/like", {"like": ["pie-1"] * 101}),
        ("/like/0", {"like": [""]}),
        ("/like/0", {"like": ["x" * 513]}),
        ("/like/0", {"like": [7]}),
        ("/dislike", {"like": ["pie-1"], "dislike": ["car-1"] * 101}),
        ("/dislike", {"like": ["pie-1"], "dislike": None}),
        ("/limit", {"like": ["pie-1"], "limit": 0}),
        ("/limit", {"like": ["pie-1"], "limit": 1001}),
        ("/offset", {"like": ["pie-1"], "offset": -1}),
        ("", {"like": ["pie-1"], "limit": 10, "offset": 995}),
        ("/filter", {"like": ["pie-1"], "filter": "x" * 4097}),
        ("/log", {"like": ["pie-1"], "log": True}),
        ("/q", {"like": ["pie-1"], "q": SECRET}),
    ],
)
def test_an_invalid_request_is_refused_with_its_position(
    kitchen: CollectionClient, pointer: str, body: dict[str, Any]
) -> None:
    found = problem(refused(kitchen, **body), 422, "invalid_request")
    assert found["errors"][0]["pointer"] == pointer


def test_an_invalid_filter_and_an_unknown_collection_are_refused(kitchen: CollectionClient) -> None:
    problem(refused(kitchen, like=["pie-1"], filter="kind ="), 422, "invalid_filter")
    problem(refused(kitchen, like=["pie-1"], filter="colour = red"), 422, "invalid_filter")
    answer = kitchen.client.post("/v1/collections/nowhere/recommend", json={"like": ["pie-1"]})
    problem(answer, 404, "collection_not_found")


def test_a_recommendation_is_not_logged_and_takes_no_events(kitchen: CollectionClient) -> None:
    answer = recommended(kitchen, "pie-1")
    problem(kitchen.client.get(f"{kitchen.path}/queries/{answer['query_id']}"), 404, "query_not_found")
    posted = kitchen.post("events", [event("pie-2", query_id=answer["query_id"])])
    assert [one["code"] for one in posted["rejected"]] == ["unknown_query"]
    assert kitchen.post("events", [event("pie-2", "open_recommendation", query_id=answer["query_id"])])["accepted"] == 1


def test_replaced_and_deleted_documents_are_followed(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        shelf = CollectionClient(client)
        shelf.add(*({"id": id, "text": text} for id, text in TEXTS.items()))
        shelf.add({"id": "pie-1", "text": "a blue car with a silent engine"})
        assert recommended(shelf, "pie-1")["hits"][0]["id"].startswith("car")
        client.delete(f"{shelf.path}/documents/car-1")
        assert "car-1" not in ids(recommended(shelf, "pie-1"))
        problem(refused(shelf, like=["car-1"]), 404, "document_not_found")


def test_a_damaged_value_is_found_and_the_index_is_rebuilt(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    with opened(data) as client:
        shelf = CollectionClient(client)
        shelf.add(*({"id": id, "text": text} for id, text in TEXTS.items()))
        before = recommended(shelf, "pie-1")["hits"]
    (values,) = (data / "indexes").rglob("values*")
    content = bytearray(values.read_bytes())
    content[-4:] = b"\x00\x00\x80\x3f"
    values.write_bytes(content)
    with opened(data) as client:
        assert recommended(CollectionClient(client), "pie-1")["hits"] == before
    assert "index_rebuilt" in capfd.readouterr().err


def test_pages_beyond_the_candidates_are_of_one_ranking(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        shop = create(client, "shop")
        shop.add(
            *({"id": str(at), "text": f"a soap {at % 7} with salt {at % 13} and sand {at % 29}"} for at in range(320))
        )
        pages = [ids(recommended(shop, "0", offset=offset, limit=10)) for offset in range(200, 310, 10)]
        whole = ids(recommended(shop, "0", offset=200, limit=110))
        assert [one for page in pages for one in page] == whole
        assert recommended(shop, "0", offset=300, limit=10)["page"]["has_more"]
        assert not recommended(shop, "0", offset=309, limit=10)["page"]["has_more"]
