"""Explored lists as training data: which document was chosen at each position, with which probability, and the clicks.

Sees rows and numbers. The baseline of a reward is the mean reward of other lists at the same position (leave one out;
Williams 1992), so that a list does not lower its own reward.

Letters: S lists, P positions, N candidate documents.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from index.ranking.array_api import Array
from index.records import Floats

SLATE = 10
"""Positions of an explored list that are learned from."""
MAX_SLATES = 100
"""Lists of a query that are learned from, at most: the newest."""
PRIOR_LISTS = 5
"""Weight of the mean over all queries in the baseline of a query, in lists."""
NO_PLACE = -1
"""The place of a document that is not a candidate."""


@dataclass(frozen=True)
class Slate:
    """An explored list, from its first position on: rows, whether each keeps its place, probabilities, and clicks."""

    rows: tuple[int, ...]
    kept: tuple[bool, ...]
    probabilities: tuple[float, ...]
    clicked: tuple[bool, ...]


@dataclass(frozen=True)
class Slates:
    """S lists as arrays (S, P), and query (S,): the index of each list's query in its batch.

    places: of the shown documents among the candidates, or NO_PLACE. free: True where a document was chosen, False for
    a document that keeps its place and after the end of the list. logs: log of the logged probability of the prefix.
    rewards: 1 for a click, minus the baseline; 0 where not free.
    """

    query: Array
    places: Array
    free: Array
    logs: Array
    rewards: Array


def rewards_above_baseline(by_query: Sequence[Sequence[Slate]]) -> list[Floats]:
    """Return (S, P) for each query: clicks minus the baseline.

    The baseline of a list at a position is the mean reward of the other lists of its query there, together with
    PRIOR_LISTS lists that have the mean of all other lists.
    """
    clicks = [np.stack([_padded(one.clicked) for one in slates]) for slates in by_query]
    total, count = sum((each.sum(axis=0) for each in clicks), np.zeros(SLATE)), sum(len(each) for each in clicks)
    return [
        each
        - (each.sum(axis=0) - each + PRIOR_LISTS * (total - each) / max(1, count - 1)) / (len(each) - 1 + PRIOR_LISTS)
        for each in clicks
    ]


def slate_arrays(slates: Sequence[Slate], rewards: Floats, place_of: Mapping[int, int]) -> Slates:
    """Return the lists of one query as arrays. rewards (S, P); place_of: row -> place among the candidates."""
    places = np.full((len(slates), SLATE), NO_PLACE, np.int64)
    free, logs = np.zeros(places.shape, np.bool_), np.zeros(places.shape)
    for at, one in enumerate(slates):
        shown = len(one.rows)
        places[at, :shown] = [place_of.get(row, NO_PLACE) for row in one.rows]
        free[at, :shown] = ~np.asarray(one.kept)
        logs[at] = np.pad(np.cumsum(np.log(one.probabilities)), (0, SLATE - shown), mode="edge")
    query = np.zeros(len(slates), np.int64)
    return Slates(query, places, free, logs.astype(np.float32), np.where(free, rewards, 0.0).astype(np.float32))


def stacked(each: Sequence[Slates]) -> Slates:
    """Return the lists of several queries as one batch; the query of a list is its index in the sequence."""
    query = np.repeat(np.arange(len(each)), [len(one.query) for one in each])
    joined = {
        name: np.concatenate([getattr(one, name) for one in each]) for name in ("places", "free", "logs", "rewards")
    }
    return Slates(query=query, **joined)


def _padded(clicked: Sequence[bool]) -> NDArray[np.float64]:
    return np.pad(np.asarray(clicked, np.float64), (0, SLATE - len(clicked)))
