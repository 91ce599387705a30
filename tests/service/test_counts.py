"""`count` adds the number of the documents that facets are about: those that pass and have a word of the query."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.service.authorised import Keys
from tests.service.client import CollectionClient, create, good, opened

COLOURS = ("red", "blue", "green")
WORDS = ("kettle", "sofa", "lamp", "couch")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with opened(tmp_path_factory.mktemp("counts") / "data") as client:
        yield client


@pytest.fixture(scope="module")
def shop(client: TestClient) -> CollectionClient:
    """24 documents: each word of WORDS is in six of them, each colour in eight."""
    shop = create(client, "shop", filterable=["colour"])
    made = [(at, WORDS[at % 4], COLOURS[at % 3]) for at in range(24)]
    shop.add(*({"id": f"d{at}", "text": f"a {word}", "metadata": {"colour": colour}} for at, word, colour in made))
    return shop


@pytest.mark.parametrize(
    ("search", "matching"),
    [
        ({"q": "kettle"}, 6),
        ({"q": "kettles and lamps"}, 12),
        ({"q": "kettle", "mode": "dense"}, 6),
        ({"q": "kettle", "mode": "words", "limit": 2, "offset": 4}, 6),
        ({"q": "kettle", "filter": "colour = red"}, 2),
        ({"q": "ketle"}, 6),
        ({"q": "ketle", "typos": False}, 0),
        ({"q": "ket", "prefix": "last"}, 6),
        ({"q": "*"}, 24),
        ({"q": "*", "filter": "colour IN [red, blue]", "limit": 1}, 16),
        ({"q": "lamp sofa -sofa", "operators": True}, 6),
        ({"q": "kettle", "sort": ["colour:asc"], "distinct": "colour"}, 6),
        ({"q": "kettle", "distinct": "colour"}, 6),
        ({"q": "kettle", "facets": ["colour"]}, 6),
        ({"q": "kettle", "min_logit": 1000.0}, 6),
        ({"q": "nothing of it"}, 0),
    ],
    ids=str,
)
def test_documents_that_pass_and_have_a_word_are_counted(
    shop: CollectionClient, search: dict[str, Any], matching: int
) -> None:
    answer = shop.search(**search, count=True)
    assert answer["matching"] == matching
    plain = shop.search(**search)
    assert "matching" not in plain
    assert [hit["id"] for hit in plain["hits"]] == [hit["id"] for hit in answer["hits"]]
    counted = shop.search(**search | {"facets": ["colour"]})["facets"]["colour"]["values"]
    assert sum(counted.values()) == matching


def test_synonyms_hidden_and_deleted_documents_count_as_searches_find_them(client: TestClient) -> None:
    shop = create(client, "changing")
    shop.add(*({"id": f"d{at}", "text": f"a {word}"} for at, word in enumerate(WORDS * 2)))
    assert shop.search("sofa", count=True)["matching"] == 2
    good(client.put(f"{shop.path}/synonyms/seat", json={"words": ["sofa", "couch"]}))
    assert shop.search("sofa", count=True)["matching"] == 4
    good(client.put(f"{shop.path}/rules/gone", json={"query": {"exact": "sofa"}, "hide": ["d1"]}))
    assert shop.search("sofa", count=True)["matching"] == 3
    client.delete(f"{shop.path}/documents/d3")
    assert shop.search("sofa", count=True)["matching"] == 2


def test_a_query_string_and_a_key_with_a_filter_count_too(client: TestClient, shop: CollectionClient) -> None:
    keys = Keys.first(client)
    key = keys.headers("search", filter="colour = red")
    found = good(client.get(f"{shop.path}/search", params={"q": "kettle", "count": "true"}, headers=key))
    assert found["matching"] == 2
    everything = good(client.post(f"{shop.path}/search", json={"q": "*", "count": True}, headers=key))
    assert everything["matching"] == 8
