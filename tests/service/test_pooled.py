"""Searches return the pooled value: the answer of attention as a vector."""

from collections.abc import Iterator

import numpy as np
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from service.storage.tables import DOCUMENTS, VALUES
from service.storage.vector_codec import as_vector
from tests.service.client import CollectionClient, create, opened, problem, runtime_of

TEXTS = ["a red fox", "a grey wolf", "a brown bear", "a white hare"]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("pooled") / "data") as client:
        yield client


@pytest.fixture(scope="module")
def animals(client: TestClient) -> CollectionClient:
    animals = create(client, "animals")
    animals.add(*({"id": text, "text": text} for text in TEXTS))
    return animals


def stored_values(client: TestClient) -> dict[str, np.ndarray]:
    """Return id -> stored value."""
    with runtime_of(client).database.read() as connection:
        rows = connection.execute(
            select(DOCUMENTS.c.id, VALUES.c.vector).join(VALUES, VALUES.c.document_row == DOCUMENTS.c.row)
        )
        return {row.id: as_vector(row.vector) for row in rows}


def test_the_pooled_value_is_the_sum_of_weight_times_stored_value(
    client: TestClient, animals: CollectionClient
) -> None:
    found = animals.search("a fox", pooled=True, limit=100)
    assert found["attention"]["candidates"] == len(found["hits"]) == len(TEXTS)
    values = stored_values(client)
    expected = sum(hit["score"] * values[hit["id"]] for hit in found["hits"])
    assert found["pooled"] == pytest.approx(expected.tolist(), abs=1e-6)


def test_all_candidates_are_pooled_and_not_the_page_alone(animals: CollectionClient) -> None:
    assert animals.search("a fox", pooled=True, limit=1)["pooled"] == animals.search("a fox", pooled=True)["pooled"]


def test_the_pooled_value_is_returned_only_on_request(animals: CollectionClient) -> None:
    assert "pooled" not in animals.search("a fox")


def test_without_candidates_the_pooled_value_is_zero(client: TestClient) -> None:
    assert set(create(client, "empty").search("a fox", pooled=True)["pooled"]) == {0.0}


def test_pooled_is_a_boolean(animals: CollectionClient) -> None:
    problem(animals.client.post(f"{animals.path}/search", json={"q": "a", "pooled": "yes"}), 422, "invalid_request")
