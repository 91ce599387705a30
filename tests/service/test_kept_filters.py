"""A filter is evaluated once for each document, and searches see every change at once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.search import kept_filters, repository
from service.search.kept_filters import KeptFilters
from tests.service.authorised import Keys
from tests.service.client import CollectionClient, create, opened, runtime_of

COUNT = 6


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with opened(tmp_path / "data") as client:
        yield client


@pytest.fixture
def shop(client: TestClient) -> CollectionClient:
    shop = create(client, "shop", filterable=["price", "tag"])
    shop.add(*map(product, range(COUNT)))
    return shop


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows after which filters were evaluated."""
    matching, read = repository.matching_rows, []

    def noted(*call: Any) -> Any:
        read.append(call[3])
        return matching(*call)

    monkeypatch.setattr(repository, "matching_rows", noted)
    return read


def product(n: int, **more: Any) -> dict[str, Any]:
    return {"id": f"p{n}", "text": "a tree", "metadata": {"price": n, "tag": "1" if n % 2 else 1, **more}}


def found(shop: CollectionClient, condition: str) -> list[str]:
    return sorted(shop.ids("tree", filter=condition, limit=50))


def test_a_filter_reads_each_document_once(shop: CollectionClient, read: list[int]) -> None:
    assert found(shop, "price >= 3") == ["p3", "p4", "p5"]
    assert found(shop, "price >= 3") == ["p3", "p4", "p5"]
    assert read == [0]
    shop.add(product(9))
    assert found(shop, "price >= 3") == ["p3", "p4", "p5", "p9"]
    assert min(read[1:]) > 0, "later documents alone"
    shop.judge("tree", "p3", 4)
    seen = len(read)
    assert found(shop, "price >= 3") == ["p3", "p4", "p5", "p9"]
    assert len(read) == seen, "feedback changes no filter"


def test_changes_of_documents_are_seen_at_once(shop: CollectionClient) -> None:
    assert found(shop, "price < 2") == ["p0", "p1"]
    shop.client.patch(f"{shop.path}/documents/p0", json={"metadata": {"price": 7}})
    assert found(shop, "price < 2") == ["p1"]
    assert found(shop, "price >= 5") == ["p0", "p5"]
    shop.client.delete(f"{shop.path}/documents/p1")
    assert found(shop, "price < 2") == []
    shop.add(product(1))
    assert found(shop, "price < 2") == ["p1"]


def test_a_conjunction_is_evaluated_at_once(shop: CollectionClient, read: list[int]) -> None:
    assert found(shop, "price > 1 AND price < 4") == ["p2", "p3"]
    assert len(read) == 1


def test_the_filter_of_a_key_is_kept(client: TestClient, shop: CollectionClient, read: list[int]) -> None:
    headers = Keys.first(client).headers("search", filter="price > 1 AND price < 5")
    for condition in ("price > 2", "price > 3"):
        answer = client.post(f"{shop.path}/search", json={"q": "tree", "filter": condition}, headers=headers).json()
        assert len(answer["hits"]) == (2 if condition == "price > 2" else 1)
    assert len(read) == 3, "the filter of the key once, and those of the searches"


def test_texts_and_numbers_are_other_conditions(shop: CollectionClient) -> None:
    assert found(shop, "tag IN [1]") == [f"p{n}" for n in range(COUNT)]
    assert found(shop, "tag > 0") == ["p0", "p2", "p4"]


def test_filters_that_were_used_long_ago_are_forgotten(shop: CollectionClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_filters, "KEPT_BYTES", 2 * kept_filters.ENTRY_BYTES)
    for n in range(COUNT):
        assert found(shop, f"price = {n}") == [f"p{n}"]
    kept = runtime_of(shop.client).collection("shop").kept_filters
    assert isinstance(kept, KeptFilters)
    assert len(kept._kept) == kept_filters.LEAST_KEPT, "each counts with its text"


def test_rows_of_replaced_documents_are_forgotten(
    shop: CollectionClient, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_filters, "SPARE_ROWS", 0)
    for turn in range(5):
        shop.add(*(product(n, tag=f"turn {turn}") for n in range(COUNT)))
        assert found(shop, "price >= 0") == [f"p{n}" for n in range(COUNT)]
    assert read.count(0) > 1


def test_a_change_is_read_by_its_number_and_not_beside_many_other_documents(
    client: TestClient, shop: CollectionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = []
    numbered = repository.numbered
    monkeypatch.setattr(
        repository, "numbered", lambda *call, by_number: plans.append(by_number) or numbered(*call, by_number=by_number)
    )
    assert found(shop, "price >= 4") == ["p4", "p5"]
    shop.add(product(7))
    assert found(shop, "price >= 4") == ["p4", "p5", "p7"]
    create(client, "other").add(*map(product, range(3 * COUNT)))
    shop.add(product(8))
    assert found(shop, "price >= 4") == ["p4", "p5", "p7", "p8"]
    assert plans == [False, True, False]


def test_filters_are_forgotten_with_the_index(shop: CollectionClient) -> None:
    assert found(shop, "price >= 4") == ["p4", "p5"]
    state = runtime_of(shop.client).collection("shop")
    state.reset_index()
    assert state.kept_filters is None
