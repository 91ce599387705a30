"""A worker recommends documents as the service does, also while documents change."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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


def test_a_stored_document_that_is_not_published_yet_is_waited_for(pair: Pair) -> None:
    pair.client.put("/v1/collections/default/documents/yew", json={"text": "a yew tree"}).raise_for_status()
    pair.publisher.publish()
    answer = pair.worker.post(RECOMMEND, json={"like": ["yew"]})
    assert {hit["id"] for hit in answer.json()["hits"]} == set(TREES)


def test_a_deleted_document_that_the_worker_still_has_is_not_recommended(pair: Pair) -> None:
    pair.client.delete("/v1/collections/default/documents/elm").raise_for_status()
    pair.publisher.publish()
    answer = pair.worker.post(RECOMMEND, json={"like": ["oak"]})
    assert {hit["id"] for hit in answer.json()["hits"]} == {"ash", "sea"}
