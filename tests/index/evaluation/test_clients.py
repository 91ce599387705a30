"""Intervals of means over lists of clients that click at different rates."""

import numpy as np
import pytest
from scipy.special import stdtrit

from index.evaluation.clients import LEAST_CLIENTS, clustered_interval, effective_clients
from index.evaluation.off_policy import estimate
from index.evaluation.significance import interval

LISTS = 300


def logged(random: np.random.Generator, clients: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the clicks per list and the clients of a log: .5 in the mean, clients with a log rate of deviation .8."""
    rates = 0.5 * np.exp(random.normal(-0.32, 0.8, clients))
    client = random.integers(0, clients, LISTS)
    return random.poisson(rates[client]).astype(np.float64), client


def test_the_interval_contains_the_truth_although_clients_differ() -> None:
    random = np.random.default_rng(0)
    covered = {"by clients": 0, "by lists": 0}
    for _ in range(400):
        clicks, client = logged(random, 60)
        for name, (low, high) in (("by clients", clustered_interval(clicks, client)), ("by lists", interval(clicks))):
            covered[name] += low <= 0.5 <= high
    assert covered["by clients"] > 0.91 * 400
    assert covered["by lists"] < 0.86 * 400


def test_clients_with_one_list_each_have_the_interval_of_student() -> None:
    values = np.random.default_rng(0).poisson(0.5, 40).astype(np.float64)
    assert clustered_interval(values, np.arange(40)) == interval(values)
    names = np.arange(40)
    names[1] = 0  # nearly the same with one client of two lists
    assert clustered_interval(values, names) == pytest.approx(interval(values), rel=0.1)


def test_the_variance_is_that_of_the_means_without_one_client() -> None:
    values, clients = np.asarray([3.0, 1.0, 0.0, 0.0, 2.0]), np.asarray([4, 4, 9, 9, 5])
    without = np.asarray([2 / 3, 6 / 3, 4 / 4])
    half = stdtrit(25 / 9 - 1, 0.975) * (2 / 3 * ((without - 1.2) ** 2).sum()) ** 0.5
    assert effective_clients(clients) == pytest.approx(25 / 9)
    assert clustered_interval(values, clients) == pytest.approx((1.2 - half, 1.2 + half))


def test_clients_with_equal_means_by_chance_have_no_narrower_interval_than_their_lists() -> None:
    values, clients = np.tile([0.0, 1.0], 100), np.repeat(range(4), 50)
    assert clustered_interval(values, clients) == interval(values)


def test_the_lists_of_very_few_clients_have_no_interval() -> None:
    values = np.arange(60.0)
    few = estimate(values, 60.0, 60.0, clients=np.repeat([0, 1], 30))
    assert few.interval is None
    assert few.reason == "the effective number of clients is 2.00, and an interval needs 3"
    assert estimate(values, 60.0, 60.0, clients=np.repeat(range(LEAST_CLIENTS), 20)).interval is not None
