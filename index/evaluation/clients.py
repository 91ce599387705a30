"""The interval of a mean over lists of few clients, whose lists resemble each other.

The click rates of clients differ, so the clicks on two lists of one client are not independent. The variance is that
of the means without one client each (the delete-one-cluster jackknife, a cluster-robust variance: Liang and Zeger 1986;
Bell and McCaffrey 2002). Where every list has a client of its own, it is the variance of Student's t.

Letters: M lists.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from index.evaluation.significance import CONFIDENCE, interval
from index.records import Ints

LEAST_CLIENTS = 3
"""Least effective number of clients for an interval."""


def effective_clients(clients: Ints) -> float:
    """Return M^2 / sum n^2 for the numbers n of lists of each client (Kish 1965). clients (M,): M > 0 numbers."""
    return float(len(clients) ** 2 / (np.unique(clients, return_counts=True)[1] ** 2).sum())


def clustered_interval(values: NDArray[np.float64], clients: Ints) -> tuple[float, float]:
    """Return the interval of the mean of values (M,) at CONFIDENCE. clients (M,): the number of each list's client.

    Student's t has as many degrees of freedom as effective clients, less one: a client with most of the lists decides
    the variance alone. The effective number must be 2 or more. The interval is at least as wide as for independent
    lists, because few clients may have equal means by chance.
    """
    names, client = np.unique(clients, return_inverse=True)
    if len(names) == len(values):
        return interval(values)
    lists, sums = np.bincount(client), np.bincount(client, values)
    mean = float(values.mean())
    without = (values.sum() - sums) / (len(values) - lists)
    variance = (1 - 1 / len(names)) * float(((without - mean) ** 2).sum())
    half = float(stdtrit(effective_clients(clients) - 1, (1 + CONFIDENCE) / 2)) * variance**0.5
    low, high = interval(values)
    return min(low, mean - half), max(high, mean + half)
