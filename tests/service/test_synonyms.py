"""Synonyms of a collection hold for the forms of their words in its language."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from tests.service.authorised import Keys
from tests.service.client import create, good, opened, problem

TEXTS = {
    "english": {"sofa": "a comfortable sofa", "couch": "leather couch", "kettle": "a garden kettle"},
    "french": {"sofa": "un canapé gris", "couch": "le divan du salon", "kettle": "une bouilloire"},
}
DECLARED = {"english": ["sofa", "couch"], "french": ["canapé", "divan"]}


@pytest.fixture
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("forms") / "data") as client:
        yield client


@pytest.mark.parametrize(("language", "forms"), [("english", ["sofas", "couches"]), ("french", ["Canapés", "divans"])])
def test_forms_of_the_words_find_the_synonyms(client: TestClient, language: str, forms: list[str]) -> None:
    shop = create(client, language, language=language)
    shop.add(*({"id": id, "text": text} for id, text in TEXTS[language].items()))
    good(client.put(f"{shop.path}/synonyms/s", json={"words": DECLARED[language]}))
    for form in forms:
        assert set(shop.ids(form, mode="words")) == {"sofa", "couch"}
        assert set(shop.ids(f'"{form}"', mode="words", operators=True)) == {shop.ids(form, mode="words")[0]}
        assert set(shop.ids(form, mode="words", prefix="last")) == {"sofa", "couch"}


def test_a_key_with_a_filter_finds_synonyms_of_forms(client: TestClient) -> None:
    shop = create(client, "shop", filterable=["tenant"])
    shop.add(*({"id": id, "text": text, "metadata": {"tenant": id}} for id, text in TEXTS["english"].items()))
    good(client.put(f"{shop.path}/synonyms/s", json={"words": DECLARED["english"]}))
    key = Keys.first(client).headers("search", collections=["shop"], filter='tenant = "couch"')
    answer = good(client.post(f"{shop.path}/search", json={"q": "sofas", "mode": "words"}, headers=key))
    assert [hit["id"] for hit in answer["hits"]] == ["couch"]


def test_many_entries_are_stored_in_one_change(client: TestClient) -> None:
    shop = create(client, "shop")
    shop.add(*({"id": id, "text": text} for id, text in TEXTS["english"].items()))
    good(client.put(f"{shop.path}/synonyms/old", json={"words": ["pot", "pan"]}))
    many = [{"id": f"n{n}", "words": [f"word{n}", f"other{n}"]} for n in range(9_998)]
    seats = {"id": "seats", "words": ["sofa"], "from": "seat"}
    assert shop.post("synonyms", {"synonyms": [seats, *many]}) == {"stored": 9_999, "deleted": 0, "entries": 10_000}
    assert shop.ids("seat", mode="words") == ["sofa"]
    refused = client.post(f"{shop.path}/synonyms", json={"synonyms": [{"id": "more", "words": ["a", "b"]}]})
    problem(refused, 422, "too_many_synonyms")
    assert shop.get("synonyms/old")["words"] == ["pot", "pan"]
    replaced = shop.post("synonyms", {"synonyms": [seats], "replace_all": True})
    assert replaced == {"stored": 1, "deleted": 9_999, "entries": 1}
    assert shop.get("synonyms") == {"synonyms": [seats]}


def test_faulty_entries_are_named_and_nothing_is_stored(client: TestClient) -> None:
    shop = create(client, "shop")
    good_one = {"id": "a", "words": ["x", "y"]}
    for faulty, pointer in (
        ([good_one, {"id": "b", "words": ["x"]}], "/synonyms/1"),
        ([good_one, {"words": ["x", "y"]}], "/synonyms/1/id"),
        ([{"id": "a/b", "words": ["x", "y"]}], "/synonyms/0/id"),
        ([good_one, good_one], ""),
        ([good_one] * 10_001, "/synonyms"),
    ):
        answer = problem(client.post(f"{shop.path}/synonyms", json={"synonyms": faulty}), 422, "invalid_request")
        assert answer["errors"][0]["pointer"] == pointer
    assert shop.get("synonyms") == {"synonyms": []}
