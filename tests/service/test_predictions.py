"""Searches predict metadata fields from all candidates."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from tests.service.client import DEFAULT, CollectionClient, create, opened, problem


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("predictions") / "data") as client:
        yield client


@pytest.fixture(scope="module")
def shop(client: TestClient) -> CollectionClient:
    """A collection of shoes and bowls. Every second document has a price, and a bowl has no category."""
    shop = create(client, "shop", filterable=["number"])
    shop.add(*(thing(n) for n in range(40)))
    return shop


def thing(n: int) -> dict[str, Any]:
    kind = "shoe" if n < 20 else "bowl"
    metadata: dict[str, Any] = {"number": n, "category": kind, "tags": [kind, "thing"], "new": n % 4 == 0}
    if n % 2:
        metadata["price"] = n / 2
    if n == 39:
        del metadata["category"]
    return {"id": f"{kind}-{n}", "text": f"{kind} number {n}", "metadata": metadata}


def categories(found: dict[str, Any]) -> dict[Any, float]:
    return {one["value"]: one["weight"] for one in found["distribution"]}


def by_hand(hits: list[dict[str, Any]], field: str) -> tuple[dict[Any, float], float]:
    """Return the weight of each value over all hits, and the share of the weight of hits with a value."""
    total = sum(hit["score"] for hit in hits)
    having = [hit for hit in hits if field in hit["metadata"]]
    mass = sum(hit["score"] for hit in having)
    weights: dict[Any, float] = {}
    for hit in having:
        weights[hit["metadata"][field]] = weights.get(hit["metadata"][field], 0) + hit["score"] / mass
    return weights, mass / total


@pytest.mark.parametrize("mode", ["hybrid", "dense", "words"])
def test_a_prediction_is_the_weighted_share_of_each_value_over_all_candidates(
    shop: CollectionClient, mode: str
) -> None:
    answer = shop.search("shoe number 7", predict=["category"], mode=mode, limit=100)
    found = answer["predictions"]["category"]
    weights, coverage = by_hand(answer["hits"], "category")
    assert categories(found) == pytest.approx(weights, rel=1e-4)
    assert found["coverage"] == pytest.approx(coverage, rel=1e-4)
    assert found["distribution"][0]["value"] == "shoe"
    assert found["documents"] == sum("category" in hit["metadata"] for hit in answer["hits"])


def test_a_number_is_predicted_as_the_weighted_mean_of_the_candidates_with_the_field(shop: CollectionClient) -> None:
    answer = shop.search("bowl number 31", predict=["price"], limit=100)
    having = [(hit["score"], hit["metadata"]["price"]) for hit in answer["hits"] if "price" in hit["metadata"]]
    weights, prices = np.asarray(having).T
    found = answer["predictions"]["price"]
    assert found["mean"] == pytest.approx(np.average(prices, weights=weights), rel=1e-4)
    assert found["effective_sample_size"] == pytest.approx(weights.sum() ** 2 / (weights**2).sum(), rel=1e-4)
    assert (found["type"], found["documents"]) == ("number", 20)
    assert 1 < found["coverage"] + 1 < 2


def test_pages_do_not_change_a_prediction(shop: CollectionClient) -> None:
    whole = shop.search("shoe number 7", predict=["category", "price"], limit=40)["predictions"]
    for page in ({"limit": 1}, {"limit": 5, "offset": 10}, {"limit": 5, "offset": 500}):
        assert shop.search("shoe number 7", predict=["category", "price"], **page)["predictions"] == whole


def test_with_a_filter_only_matching_documents_predict(shop: CollectionClient) -> None:
    found = shop.search("shoe number 7", predict=["category"], filter="number >= 30")["predictions"]["category"]
    assert categories(found) == {"bowl": pytest.approx(1)}
    assert found["documents"] == 9


def test_lists_and_booleans_are_categories(shop: CollectionClient) -> None:
    found = shop.search("shoe number 7", predict=["tags", "new"], limit=1)["predictions"]
    assert categories(found["tags"])["thing"] == pytest.approx(0.5)
    assert categories(found["new"]).keys() == {True, False}


def test_an_unknown_field_gives_an_empty_distribution_and_no_error(shop: CollectionClient) -> None:
    found = shop.search("shoe", predict=["weight of é"])["predictions"]["weight of é"]
    assert (found["distribution"], found["coverage"], found["documents"]) == ([], 0, 0)


def test_a_search_that_finds_nothing_predicts_nothing(shop: CollectionClient) -> None:
    answer = shop.search("nothingofthekind", mode="words", predict=["category"])
    assert answer["attention"]["null_weight"] == pytest.approx(1)
    assert answer["predictions"]["category"]["distribution"] == []


def test_predictions_are_made_only_on_request(shop: CollectionClient) -> None:
    assert "predictions" not in shop.search("shoe")


def test_a_prediction_changes_neither_the_ranking_nor_the_weights(shop: CollectionClient) -> None:
    assert shop.ranking("shoe 3", predict=["category"]) == shop.ranking("shoe 3")


def test_deleted_documents_do_not_predict(client: TestClient) -> None:
    pair = create(client, "pair")
    pair.add(*({"id": one, "text": "a pair", "metadata": {"side": one}} for one in ("left", "right")))
    assert len(pair.search("pair", predict=["side"])["predictions"]["side"]["distribution"]) == 2
    client.delete(f"{pair.path}/documents/left")
    assert categories(pair.search("pair", predict=["side"])["predictions"]["side"]) == {"right": 1.0}


@pytest.mark.parametrize(
    "fields", [[], ["a", "a"], [""], ["x" * 129], [f"f{n}" for n in range(17)], "category", [1], [None]]
)
def test_fields_that_cannot_be_predicted_are_refused(client: TestClient, fields: Any) -> None:
    problem(client.post(f"{DEFAULT}/search", json={"q": "x", "predict": fields}), 422, "invalid_request")


def test_sixteen_fields_are_predicted_at_once(shop: CollectionClient) -> None:
    fields = [f"f{n}" for n in range(15)] + ["category"]
    assert list(shop.search("shoe", predict=fields)["predictions"]) == fields


def test_the_schema_has_the_limits_of_predict(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()["components"]["schemas"]["SearchIn"]["properties"]["predict"]["anyOf"][
        0
    ]
    assert (schema["minItems"], schema["maxItems"], schema["uniqueItems"], schema["items"]["maxLength"]) == (
        1,
        16,
        True,
        128,
    )


def test_the_quantiles_of_large_integers_are_values_of_documents(client: TestClient) -> None:
    parts = create(client, "parts")
    serials = [2**53 + 1, 2**53 + 3]
    parts.add(*({"id": f"{n}", "text": "a part", "metadata": {"serial": serials[n]}} for n in range(2)))
    found = parts.search("part", predict=["serial"])["predictions"]["serial"]["quantiles"]
    assert set(found.values()) <= set(serials)
