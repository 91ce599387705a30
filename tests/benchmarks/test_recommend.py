"""The benchmark of recommendations: sessions, carts, measures and tables."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks import recommend_tables
from benchmarks.carts import LEAST, MOST, PURPOSES, carts
from benchmarks.recommend import AVERSIONS, CHOSEN_ON, SHARPNESSES, Session, attention, gains, judged_shelf, measured
from benchmarks.shop import products
from index.encoding.hashing_encoder import HashingEncoder
from tests.benchmarks.sets import animals


def sets() -> list[Any]:
    """Return two sets, in which the documents of an animal are relevant and two others are not."""
    one = animals()
    ids = [document["id"] for document in one.documents]

    def qrels(names: tuple[str, ...]) -> dict[str, dict[str, int]]:
        of = {name: [id for id in ids if id.startswith(name)] for name in names}
        others = {name: [id for id in ids if not id.startswith(name)][:2] for name in names}
        return {name: dict.fromkeys(of[name], 1) | dict.fromkeys(others[name], 0) for name in names}

    train, test = qrels(("cat", "dog", "horse")), qrels(("owl", "trout", "bee"))
    return [replace(one, name=name, train=train, test=test) for name in (CHOSEN_ON[0], "other")]


def test_every_system_is_measured_and_shown() -> None:
    shelves = [judged_shelf(one, HashingEncoder(), 2, 0) for one in sets()]
    assert [(len(one.train), len(one.test)) for one in shelves] == [(2, 2), (2, 2)]
    figures = json.loads(json.dumps(measured(shelves)))
    assert list(figures["sharpness"]["ndcg"]) == [str(tau) for tau in SHARPNESSES]
    assert list(figures["aversion"]["ndcg"]) == [str(f) for f in AVERSIONS]
    assert figures["sharpness"]["sets"] == figures["aversion"]["sets"] == [CHOSEN_ON[0]]
    for one in figures["sets"].values():
        assert all(0 <= values["ndcg"] <= values["hit_rate"] <= 1 for values in one["systems"].values())
    tables = [getattr(recommend_tables, name)(figures) for name in ("systems", "gaps", "choices", "dislikes")]
    shown = "\n".join(tables)
    assert [name for name in ("attention", "popularity", "other", "tau = 0", "f = 0.5") if name not in shown] == []


def test_a_held_out_document_is_ranked_among_all_that_are_not_liked() -> None:
    shelf = judged_shelf(sets()[0], HashingEncoder(), 2, 0)
    best = Session((0, 1))
    nearest_first = gains(shelf, [best], lambda liked, _: np.where(np.arange(len(liked)) < 2, 1.0, 0.0))
    assert nearest_first.tolist() == [[1.0, 1.0]]
    last = gains(shelf, [best], lambda liked, _: np.where(np.arange(len(liked)) < 2, 0.0, 1.0))
    assert last.tolist() == [[0.0, 0.0]]


def test_attention_without_sharpness_ranks_by_the_mean_of_the_liked() -> None:
    cosines = np.asarray([[0.9, 0.1], [0.6, 0.5], [0.2, 0.2]], np.float32)
    nothing = np.empty((3, 0), np.float32)
    assert attention(0.0)(cosines, nothing).tolist() == pytest.approx([0.5, 0.55, 0.2])
    assert attention(1000.0)(cosines, nothing).tolist() == pytest.approx([0.9, 0.6, 0.2])
    pushed = attention(1000.0, 0.5)(cosines, cosines[:, 1:])
    assert pushed.tolist() == pytest.approx([0.9, 0.6, 0.2])
    pushed = attention(0.0, 0.5)(cosines[:, 1:], cosines[:, :1])
    assert pushed.tolist() == pytest.approx([0.1 - 0.4, 0.5 - 0.05, 0.2])


def test_a_cart_has_products_of_one_purpose_and_the_same_seed_gives_the_same_carts() -> None:
    catalogue = products(np.random.default_rng(0))
    kind_of = {one.id: one.kind.name for one in catalogue}
    made = carts(catalogue, 40, np.random.default_rng(1))
    for cart in made:
        assert LEAST <= len(set(cart)) == len(cart) <= MOST
        assert any({kind_of[id] for id in cart} <= set(kinds) for kinds in PURPOSES.values())
    assert made == carts(catalogue, 40, np.random.default_rng(1))
    assert {name for kinds in PURPOSES.values() for name in kinds} <= set(kind_of.values())
