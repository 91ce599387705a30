"""The shop of repeated queries: texts without preferences, seen and unseen test queries, counts of clicks for peers."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from benchmarks import quality_tables, repeats
from benchmarks.measurements import Measurements
from benchmarks.repeats import Measuring, measure_shop, part_name
from benchmarks.shop import KINDS, SEEN_PREFIX, UNSEEN_PREFIX, Wish, grades, products, shop, wishes
from index.encoding.hashing_encoder import HashingEncoder
from index.learning.examples import Feedback

RANDOM = np.random.default_rng(0)
CATALOGUE = products(RANDOM)
VECTOR = np.ones(2, np.float32)


def test_a_shop_is_the_same_for_a_seed_and_seeds_differ() -> None:
    assert shop(0) == shop(0)
    assert shop(0).documents != shop(1).documents


def test_half_of_the_test_queries_have_texts_of_the_log() -> None:
    one = shop(0)
    logged = {one.queries[query] for query in one.train}
    seen = {query: one.queries[query] in logged for query in one.test}
    assert all(is_seen == query.startswith(SEEN_PREFIX) for query, is_seen in seen.items())
    assert sum(seen.values()) == sum(query.startswith(UNSEEN_PREFIX) for query in seen) == 200


def test_every_wish_is_met_and_has_a_best_product() -> None:
    for wish in list(wishes(CATALOGUE, np.random.default_rng(0)).values())[:200]:
        assert max(grades(wish, CATALOGUE).values()) == 3


def test_customers_prefer_popular_products_that_fit() -> None:
    wish = Wish(KINDS[0], purpose=KINDS[0].purposes[0])
    graded = grades(wish, CATALOGUE)
    by_id = {one.id: one for one in CATALOGUE}
    best = max(graded, key=lambda name: graded[name])
    assert all(KINDS[0].purposes[0] in by_id[name].fits for name in graded)
    assert by_id[best].popularity == max(by_id[name].popularity for name in graded)


def test_no_text_shows_a_purpose() -> None:
    texts = " ".join(f"{one['title']} {one['text']}" for one in shop(0).documents)
    assert not [purpose for kind in KINDS for purpose in kind.purposes if f"for {purpose}" in texts]


def test_counts_of_clicks_belong_to_their_query_and_document() -> None:
    counts_of = pytest.importorskip("benchmarks.peers.click_counts")
    one = Feedback("kettle", "kettle", VECTOR, {7: 3.0}, {7: {2: 9}, 8: {1: 9}}, {7: {2: 3}, 8: {1: 1}})
    curve = np.asarray([1.0, 0.5], np.float32)
    counts = counts_of.click_counts([one], curve, ["Kettle", "pan"], np.asarray([6, 7, 8]))
    assert counts[0, 1].tolist() == pytest.approx([np.log(4), 0.75, 3 / 10, 3 / 5.5])
    assert counts[0, 2, 1] == pytest.approx(0.25)
    assert not counts[0, 0].any()
    assert not counts[1].any()


def test_the_later_part_of_a_log_lacks_the_counts_of_the_earlier_part() -> None:
    counts_of = pytest.importorskip("benchmarks.peers.click_counts")
    early = Feedback("kettle", "kettle", VECTOR, {7: 2.0}, {7: {1: 2}, 8: {2: 2}}, {7: {1: 2}})
    whole = replace(early, gains={7: 2.0, 8: 1.0}, shown={7: {1: 3}, 8: {2: 3}}, clicks={7: {1: 2}, 8: {2: 1}})
    (late,) = counts_of.later([whole], [early])
    assert (late.gains, late.shown, late.clicks) == ({8: 1.0}, {7: {1: 1}, 8: {2: 1}}, {8: {2: 1}})


def test_memory_is_measured_on_seen_and_unseen_queries(tmp_path: Path) -> None:
    whole = shop(0)
    kept = {"0", "1"}
    few = {query: graded for query, graded in whole.test.items() if query[-1] in kept}
    one = replace(whole, documents=whole.documents[:200], test=few)
    results = Measurements(tmp_path / "results.json")
    measure_shop(Measuring(one, 0, results, Console(quiet=True)), HashingEncoder(), [400], ["untrained", "memory"])
    figures = {
        part: {system: {"nDCG@10": float(results.values(part_name(part, 400), system).mean())}
               for system in ("untrained", "memory")}
        for part in repeats.PARTS
    }  # fmt: skip
    assert figures[SEEN_PREFIX]["memory"] != figures[SEEN_PREFIX]["untrained"]
    table = quality_tables.repeats({"impressions": json.loads(json.dumps({400: figures}))})
    assert table.splitlines()[0] == "| system | seen, 400 impressions | unseen, 400 impressions |"
    assert "**memory**" in table
