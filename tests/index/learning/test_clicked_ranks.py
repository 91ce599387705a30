"""nDCG@10 by clicks: the order of two heads, by click rates that positions do not bias."""

import math

import numpy as np
import pytest

from index.evaluation.significance import Comparison, compare
from index.learning.click_likelihood import Clicked
from index.learning.clicked_ranks import RANKS, rank_measures

SHOWN, QUERIES = 10, 300
EXAMINED = 1 / np.arange(1, SHOWN + 1)


def compare_ranks(before: dict[str, Clicked], after: dict[str, Clicked]) -> Comparison:
    return compare(RANKS, *rank_measures(before, after))


def drawn(lists: str, seed: int = 0, shown: int = 4) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return clicks and expected examinations of queries whose documents are worse from the first to the last.

    lists: `best` shows them in this order, `worst` in the opposite, `mixed` in a random order. Lists are shown `shown`
    times.
    """
    random = np.random.default_rng(seed)
    found = []
    for _ in range(QUERIES):
        order = {"best": np.arange(SHOWN), "worst": np.arange(SHOWN)[::-1], "mixed": random.permutation(SHOWN)}[lists]
        chance = np.empty(SHOWN)
        chance[order] = EXAMINED
        clicks = random.binomial(shown, chance * np.linspace(0.6, 0.05, SHOWN))
        found.append((clicks.astype(float), shown * chance))
    return [(clicks, examinations) for clicks, examinations in found if clicks.any()]


def under(orders: list[np.ndarray], queries: list[tuple[np.ndarray, np.ndarray]]) -> dict[str, Clicked]:
    """Return the queries under a head that ranks the documents of each in an order."""
    found = {}
    for at, (order, (clicks, examinations)) in enumerate(zip(orders, queries, strict=True)):
        logits = np.empty(SHOWN)
        logits[order] = -np.arange(SHOWN)
        found[f"query {at}"] = Clicked(logits, np.log(examinations / examinations.max()), clicks, examinations)
    return found


def test_it_is_the_sum_of_rates_over_the_logarithms_of_ranks() -> None:
    logits, other = np.asarray([3.0, 2.0, 1.0]), np.asarray([3.0, 1.0, 2.0])
    clicks, examinations = np.asarray([0.0, 0.0, 2.0]), np.asarray([4.0, 2.0, 1.0])
    before, after = ({"a": Clicked(of, np.zeros(3), clicks, examinations)} for of in (logits, other))
    found = compare_ranks(before, after)
    rates = [0.0, 2 / 3, 2 / 3]  # the second and the third document have the same mean rank, rounded down
    gains = [(c + r) / (e + 1) for c, r, e in zip(clicks, rates, examinations, strict=True)]
    best = gains[2] + gains[1] / math.log2(3)
    assert found.a == pytest.approx((gains[1] / math.log2(3) + gains[2] / 2) / best)
    assert found.b == pytest.approx((gains[2] / math.log2(3) + gains[1] / 2) / best)
    assert (found.measure, found.queries) == (RANKS, 1)


def test_ranks_after_the_tenth_count_nothing_and_queries_weigh_alike_in_rates() -> None:
    count, moved = 12, np.asarray([11, *range(11)])
    clicks, examinations = np.zeros(count), np.ones(count)
    clicks[11] = 1.0
    far, near = -np.arange(count, dtype=float), np.empty(count)
    near[moved] = -np.arange(count)
    one = [Clicked(of, np.zeros(count), clicks, examinations) for of in (far, near)]
    loud = Clicked(far, np.zeros(count), np.full(count, 100.0), np.full(count, 1000.0))
    found = [compare_ranks({"a": one[0]} | more, {"a": one[1]} | more) for more in ({}, {"b": loud})]
    groups = np.minimum((np.arange(count) + np.argsort(moved)) // 2, 10)
    own, others = (np.bincount(of, minlength=11) for of in (groups, np.minimum(np.arange(count), 10)))
    clicked = np.bincount(groups, clicks, 11)
    alone = clicked / np.maximum(own, 1)
    beside = (clicked + 0.1 * others) / (own + others)  # the other query has .1 clicks a look, and weighs as much
    discounts = np.where(np.arange(count) < 10, 1 / np.log2(np.arange(count) + 2.0), 0.0)
    for rates, comparison in zip((alone, beside), found, strict=True):
        gains = (clicks + rates[groups]) / 2
        difference = (gains[moved] - gains) @ discounts / (np.sort(gains)[::-1] @ discounts)
        assert comparison.difference * comparison.queries == pytest.approx(difference)


def test_documents_that_no_list_showed_do_not_count() -> None:
    shown = [np.asarray([3.0, 1.0]), np.zeros(2), np.asarray([0.0, 1.0]), np.ones(2)]
    unseen = [np.insert(of, 1, value) for of, value in zip(shown, (2.0, 0.0, 0.0, 0.0), strict=True)]
    plain, more = Clicked(*shown), Clicked(*unseen)
    assert compare_ranks({"a": plain}, {"a": plain}).a == compare_ranks({"a": more}, {"a": more}).a


@pytest.mark.parametrize("lists", ["best", "worst", "mixed"])
def test_the_better_order_has_the_better_measure_whichever_order_was_shown(lists: str) -> None:
    queries = drawn(lists)
    random = np.random.default_rng(1)
    best = [np.arange(SHOWN)] * len(queries)
    worse = []
    for _ in queries:  # one document moves to the top
        moved = int(random.integers(1, SHOWN))
        worse.append(np.asarray([moved, *(at for at in range(SHOWN) if at != moved)]))
    assert compare_ranks(under(worse, queries), under(best, queries)).low > 0
    assert compare_ranks(under(best, queries), under(worse, queries)).high < 0


@pytest.mark.parametrize("lists", ["best", "mixed"])
def test_random_orders_of_the_first_documents_are_seldom_better_than_the_best_order(lists: str) -> None:
    gains = []
    for seed in range(20):
        queries, random = drawn(lists, seed, shown=2), np.random.default_rng(100 + seed)
        best = [np.arange(SHOWN)] * len(queries)
        near = [np.argsort(np.arange(SHOWN) + random.normal(0, 1.0, SHOWN)) for _ in queries]
        gains.append(compare_ranks(under(best, queries), under(near, queries)))
    assert sum(one.low > 0 for one in gains) == 0
    assert np.mean([one.difference for one in gains]) < 0


def test_equal_orders_are_equal() -> None:
    queries = drawn("mixed")
    one = under([np.arange(SHOWN)] * len(queries), queries)
    found = compare_ranks(one, one)
    assert (found.difference, found.changed, found.p_value) == (0.0, 0, 1.0)
    assert 0 < found.a <= 1
