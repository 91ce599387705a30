"""Synonyms of a collection hold for the forms of their words in its language."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from tests.service.authorised import Keys
from tests.service.client import create, good, opened

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
