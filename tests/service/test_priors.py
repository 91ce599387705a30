"""Documents that are chosen on many queries come first on new queries: a training run learns their priors.

Values of filterable fields have priors too, which count for documents without feedback.
"""

import random
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.service.client import CollectionClient, create, opened

pytestmark = pytest.mark.usefixtures("forked_training")

KINDS, MAKERS, QUERIES = ("anorak", "beret", "clog", "duffel", "glove", "hat", "jersey", "kilt"), 5, 88


def shop_of(client: TestClient) -> CollectionClient:
    """Return a collection in which each kind of product has five alike, of which people choose the third."""
    shop = create(client, "shop")
    shop.add(*(product(kind, maker) for kind in KINDS for maker in range(MAKERS)))
    letters = random.Random(0)  # no two queries are near
    for number in range(QUERIES):
        kind = KINDS[number % len(KINDS)]
        reasons = " ".join("".join(letters.sample("abcdefghijklmnopqrstuvwxyz", 9)) for _ in range(6))
        shop.judge(f"{kind} {reasons}", f"{kind}-2", 3)
    return shop


def product(kind: str, maker: int) -> dict[str, Any]:
    return {"id": f"{kind}-{maker}", "text": f"{kind} of wool"}


def first(shop: CollectionClient, kind: str) -> Any:
    """Return the best hit of a new query."""
    return shop.search(f"{kind} against the snow of a long winter", explain=True, log=False)["hits"][0]


def test_a_run_learns_what_people_choose_for_every_query(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as client:
        shop = shop_of(client)
        record = shop.train()
        assert record["decision"]["promote"], record["decision"]
        assert record["report"]["priors"]["chosen"] > 0
        assert record["report"]["priors"]["documents"] > 0
        hits = {kind: first(shop, kind) for kind in KINDS}
        for kind, hit in hits.items():
            parts = hit["explain"]["parts"]
            assert hit["id"] == f"{kind}-2"
            assert parts["prior"] > 0
            assert sum(parts.values()) == pytest.approx(hit["logit"], abs=1e-3)
        assert "prior" not in shop.search("hat", mode="words", explain=True, log=False)["hits"][0]["explain"]["parts"]
        shop.add(product("hat", 2) | {"text": "hat of wool, now lined"})
        assert first(shop, "hat")["explain"]["parts"]["prior"] == hits["hat"]["explain"]["parts"]["prior"]
    with opened(tmp_path / "data") as client:
        shop = CollectionClient(client, "shop")
        assert first(shop, "kilt")["explain"]["parts"]["prior"] == hits["kilt"]["explain"]["parts"]["prior"]


NEW_KIND = "parka"
"""A kind of product without a query in the feedback."""


def labelled(kind: str, maker: int) -> dict[str, Any]:
    """Return a product with its maker and how often it was sold; the maker of the third is another for each kind."""
    place = (maker + len(kind)) % MAKERS
    return product(kind, maker) | {"metadata": {"maker": f"maker{place}", "sold": 10 * place, "note": "x"}}


def labelled_shop(client: TestClient, *filterable: str) -> CollectionClient:
    """Return a collection whose customers choose the products of the fourth maker, which was sold 30 times."""
    shop = create(client, "shop", filterable=list(filterable))
    shop.add(*(labelled(kind, maker) for kind in (*KINDS, NEW_KIND) for maker in range(MAKERS)))
    letters = random.Random(0)  # no two queries are near
    for number in range(QUERIES):
        kind = KINDS[number % len(KINDS)]
        reasons = " ".join("".join(letters.sample("abcdefghijklmnopqrstuvwxyz", 9)) for _ in range(6))
        chosen = next(maker for maker in range(MAKERS) if labelled(kind, maker)["metadata"]["sold"] == 30)
        shop.judge(f"{kind} {reasons}", f"{kind}-{chosen}", 3)
    return shop


@pytest.mark.parametrize("field", ["maker", "sold"])
def test_a_product_that_nobody_has_chosen_ranks_by_what_people_prefer_in_others(tmp_path: Path, field: str) -> None:
    with opened(tmp_path / "data") as client:
        shop = labelled_shop(client, field)
        record = shop.train()
        assert record["decision"]["promote"], record["decision"]
        (effect,) = [one for one in record["report"]["priors"]["fields"] if one.get("value") in (None, "maker3")]
        assert {one["field"] for one in record["report"]["priors"]["fields"]} == {field}, "no other is filterable"
        assert effect["effect"] > 0
        hit = first(shop, NEW_KIND)
        assert hit["metadata"][field] in ("maker3", 30)
        parts = hit["explain"]["parts"]
        assert parts["prior"] > 0
        assert sum(parts.values()) == pytest.approx(hit["logit"], abs=1e-3)
        # a value counts as soon as it is written, on products of any age
        other = next(maker for maker in range(MAKERS) if labelled(NEW_KIND, maker)["metadata"]["sold"] == 0)
        for id, metadata in ((f"{NEW_KIND}-{other}", hit["metadata"]), (hit["id"], {field: None})):
            assert client.patch(f"{shop.path}/documents/{id}", json={"metadata": metadata}).status_code == 200
        moved = first(shop, NEW_KIND)
        assert moved["id"] == f"{NEW_KIND}-{other}"
        assert moved["explain"]["parts"]["prior"] == parts["prior"]
    with opened(tmp_path / "data") as client:
        again = first(CollectionClient(client, "shop"), NEW_KIND)
        assert again["explain"]["parts"]["prior"] == parts["prior"]
