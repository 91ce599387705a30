"""What a tenant searches makes no search of another tenant faster: the time of an answer would tell what was typed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from index.words.postings import Postings
from tests.service.authorised import Keys
from tests.service.client import create, good, opened, runtime_of

TENANTS = ("a", "b")
QUERY = "the price of old copper"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with opened(tmp_path / "data") as client:
        for name in ("shop", "store"):
            documents = ({"id": one, "text": "Old copper has a price.", "metadata": {"tenant": one}} for one in TENANTS)
            create(client, name).add(*documents)
        yield client


@pytest.fixture
def encoded(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that the encoder has encoded, in their order."""
    encoder, texts = runtime_of(client).encoder, list[str]()
    encode = encoder.encode_query
    monkeypatch.setattr(encoder, "encode_query", lambda text: texts.append(text) or encode(text))
    return texts


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The terms whose documents the word index has counted, in their order."""
    terms: list[str] = []
    count = Postings.frequency
    monkeypatch.setattr(
        Postings, "frequency", lambda self, field, term: terms.append(f"{field}:{term}") or count(self, field, term)
    )
    return terms


def search(client: TestClient, headers: dict[str, str], collection: str = "shop", **more: Any) -> Any:
    return good(client.post(f"/v1/collections/{collection}/search", json={"q": QUERY, **more}, headers=headers))


def test_each_tenant_has_its_text_encoded(client: TestClient, encoded: list[str]) -> None:
    keys = Keys.first(client)
    a, same, b = (keys.headers("search", filter=f"tenant = {tenant}") for tenant in ("a", "a", "b"))
    for headers, count in ((a, 1), (a, 1), (same, 1), (b, 2), (keys.headers("search"), 3), (b, 3)):
        search(client, headers)
        assert encoded == [QUERY] * count


def test_keys_of_other_collections_have_their_text_encoded(client: TestClient, encoded: list[str]) -> None:
    keys = Keys.first(client)
    for name, count in (("shop", 1), ("store", 2), ("shop", 2)):
        search(client, keys.headers("search", collections=[name]), name)
        assert encoded == [QUERY] * count


def test_each_tenant_looks_its_words_up(client: TestClient, counted: list[str]) -> None:
    keys = Keys.first(client)
    a, b = (keys.headers("search", filter=f"tenant = {tenant}") for tenant in TENANTS)

    def looked_up(headers: dict[str, str]) -> list[str]:
        counted.clear()
        search(client, headers, mode="words")
        return sorted(counted)

    first, second = looked_up(a), looked_up(a)
    assert len(second) < len(first), "the words of a tenant are kept for it"
    assert [looked_up(b), looked_up(b)] == [first, second]
