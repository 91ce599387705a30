"""Documents that are chosen on many queries come first on new queries: a training run learns their priors."""

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
