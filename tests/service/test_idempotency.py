"""A POST that is repeated with the same Idempotency-Key is executed once."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.service.client import DEFAULT, SECRET, CollectionClient, event, opened, problem


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("bad") / "data") as client:
        CollectionClient(client).add({"id": "known", "text": "a known document"})
        yield client


def test_a_repeated_post_with_the_same_key_gets_the_first_answer(client: TestClient) -> None:
    spoken = CollectionClient(client)
    before = spoken.get()["counts"]["events"]
    key = {"Idempotency-Key": "once"}
    one = event("known", user_query="only once")
    first = client.post(f"{DEFAULT}/events", json=one, headers=key)
    again = client.post(f"{DEFAULT}/events", json=one, headers=key)
    assert (again.status_code, again.content) == (first.status_code, first.content) == (202, first.content)
    assert again.headers["content-type"] == first.headers["content-type"]
    assert spoken.get()["counts"]["events"] == before + 1
    problem(
        client.post(f"{DEFAULT}/events", json=one | {"user_query": SECRET}, headers=key), 422, "idempotency_key_reused"
    )
    problem(client.post(f"{DEFAULT}/search", json=one, headers=key), 422, "idempotency_key_reused")


def test_a_refusal_is_repeated_for_the_same_key(client: TestClient) -> None:
    key = {"Idempotency-Key": "refused"}
    first = client.post(f"{DEFAULT}/search", json={"q": ""}, headers=key)
    again = client.post(f"{DEFAULT}/search", json={"q": ""}, headers=key)
    assert problem(first, 422, "invalid_request") == problem(again, 422, "invalid_request")


@pytest.mark.parametrize("key", ["", "k" * 256])
def test_an_idempotency_key_of_invalid_length_is_refused(client: TestClient, key: str) -> None:
    problem(search_with(client, key), 422, "invalid_request")


def search_with(client: TestClient, key: str) -> Any:
    return client.post(f"{DEFAULT}/search", json={"q": "x"}, headers={"Idempotency-Key": key})
