"""Questions find what they ask about, and not what is asked in the same words."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from tests.service.client import CollectionClient, create, good, opened

ARTICLES = {
    "password": ("Reset your password", "Open the settings of the account and choose a new password."),
    "plan": ("How do I cancel my subscription?", "I can cancel my plan at any time. How do I do that? In my account."),
    "delete": ("Delete your account", "The account is deleted with all files."),
    **{f"other{n}": (f"Set up device {n}", f"Device number {n} is connected to a network.") for n in range(20)},
}
QUESTION = "How do I reset my password?"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("questions") / "data") as client:
        yield client


@pytest.fixture
def center(client: TestClient, request: pytest.FixtureRequest) -> CollectionClient:
    center = create(client, request.node.name.replace("_", "-")[:60])
    center.add(*({"id": id, "title": title, "text": text} for id, (title, text) in ARTICLES.items()))
    return center


def test_a_question_finds_its_subject(center: CollectionClient) -> None:
    assert center.get()["settings"]["question_words"] is True
    assert center.search(QUESTION, mode="words")["hits"][0]["id"] == "password"
    marked = {
        hit[mark["field"]][mark["start"] : mark["end"]].lower()
        for hit in center.search(QUESTION, mode="words")["hits"]
        for mark in hit["highlights"]
    }
    assert marked == {"reset", "password"}
    assert [hit["id"] for hit in center.search(QUESTION, all_words=True)["hits"]] == ["password"]
    good(center.client.put(center.path, json={"question_words": False}))
    assert center.search(QUESTION, mode="words")["hits"][0]["id"] == "plan"
    assert center.search(QUESTION, all_words=True)["hits"] == []


def test_an_exact_title_and_quoted_words_keep_the_words_of_a_question(center: CollectionClient) -> None:
    assert center.search("how do i cancel my subscription")["hits"][0]["id"] == "plan"
    quoted = center.search('"how do I" my account', operators=True)
    assert [hit["id"] for hit in quoted["hits"]] == ["plan"]


def test_a_language_without_question_words_keeps_all(client: TestClient) -> None:
    none = create(client, "no-language", language="none")
    none.add(*({"id": id, "title": title, "text": text} for id, (title, text) in ARTICLES.items()))
    assert none.search(QUESTION, mode="words")["hits"][0]["id"] == "plan"
