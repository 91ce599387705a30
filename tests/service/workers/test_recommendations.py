"""A worker recommends as the service does, and passes the request on while it lacks a change of the documents."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.http.metrics import samples
from service.http.request_counter import NOT_MIRRORED
from tests.service.authorised import bearer
from tests.service.workers.pairs import VOLATILE, Pair, paired

RECOMMEND = "/v1/collections/default/recommend"
TREES = {"oak": "an oak tree", "elm": "an elm tree", "ash": "an ash tree", "sea": "salt water"}


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with paired(tmp_path / "data") as one:
        for id, text in TREES.items():
            one.client.put(f"/v1/collections/default/documents/{id}", json={"text": text}).raise_for_status()
        one.publish()
        yield one


def same(pair: Pair, status: int = 200, **asked: Any) -> Any:
    """Assert that both recommend alike; return the answer."""
    answers = [each.post(RECOMMEND, json=asked) for each in (pair.client, pair.worker)]
    assert [answer.status_code for answer in answers] == [status, status]
    ours, theirs = ({k: v for k, v in answer.json().items() if k not in VOLATILE} for answer in answers)
    assert theirs == ours
    return ours


def test_a_worker_recommends_the_same_documents_with_the_same_weights(pair: Pair) -> None:
    assert len(same(pair, like=["oak"], dislike=["sea"], explain=True)["hits"]) == 2
    same(pair, 404, like=["palm"])
    same(pair, 422, like=["oak"], dislike=["oak"])


def test_the_other_process_recommends_while_a_stored_document_is_not_published(pair: Pair) -> None:
    pair.client.put("/v1/collections/default/documents/yew", json={"text": "a yew tree"}).raise_for_status()
    assert pair.worker.post(RECOMMEND, json={"like": ["yew"]}).status_code == NOT_MIRRORED
    pair.publish()
    assert {hit["id"] for hit in same(pair, like=["yew"])["hits"]} == set(TREES)


def test_a_request_that_is_passed_on_is_counted_by_the_process_that_answers(pair: Pair) -> None:
    def counted() -> float:
        return sum(
            number for name, number in samples().items() if "search_seconds_count" in name and "recommend" in name
        )

    pair.client.put("/v1/collections/default/documents/yew", json={"text": "a yew tree"}).raise_for_status()
    before = counted()
    assert pair.worker.post(RECOMMEND, json={"like": ["yew"]}).status_code == NOT_MIRRORED
    assert counted() == before
    assert pair.client.post(RECOMMEND, json={"like": ["yew"]}).status_code == 200
    assert counted() == before + 1


def test_the_other_process_recommends_while_a_deletion_is_not_published(pair: Pair) -> None:
    pair.client.delete("/v1/collections/default/documents/elm").raise_for_status()
    assert pair.worker.post(RECOMMEND, json={"like": ["oak"]}).status_code == NOT_MIRRORED
    pair.publish()
    assert {hit["id"] for hit in same(pair, like=["oak"])["hits"]} == {"ash", "sea"}


def test_a_key_with_a_filter_recommends_its_documents_alone(pair: Pair) -> None:
    lakes = "/v1/collections/lakes"
    pair.client.put(lakes, json={"filterable": ["land"]}).raise_for_status()
    for id, land in (("bodensee", "de"), ("titisee", "de"), ("loch-ness", "uk")):
        document = {"text": f"the lake {id}", "metadata": {"land": land}}
        pair.client.put(f"{lakes}/documents/{id}", json=document).raise_for_status()
    admin = pair.client.post("/v1/keys", json={"name": "admin", "scopes": ["admin"]}).json()["key"]
    body = {"name": "german", "scopes": ["search"], "filter": 'land = "de"', "collections": ["lakes"]}
    made = pair.client.post("/v1/keys", json=body, headers=bearer(admin))
    assert made.status_code == 201, made.text
    pair.publish()
    for each in (pair.client, pair.worker):
        answer = each.post(f"{lakes}/recommend", json={"like": ["bodensee"]}, headers=bearer(made.json()["key"]))
        assert [hit["id"] for hit in answer.json()["hits"]] == ["titisee"], answer.text
