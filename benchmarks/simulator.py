"""Simulated searchers: they get shown lists and true grades, and return clicks as UBI events.

There are two models of examination (Chuklin, Markov, de Rijke 2015). `position` (Craswell et al. 2008): rank p is
examined with probability p^-eta, independently of the other ranks. `cascade` (Craswell et al. 2008, with the stop after
a click of the dependent click model, Guo et al. 2009): a searcher reads from the top down. After a rank without a click
the searcher continues with a probability that makes p^-eta of them reach rank p where nothing is clicked; after a click
only if the document did not satisfy. In both models the probability of a click on an examined document grows with its
grade, documents of grade 0 get some clicks, and some searchers abandon a list unread. The same seed gives the same
clicks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from index.records import Floats, Mask

SEVERITIES = (0.0, 0.5, 1.0, 1.5, 2.0)
"""Values of eta: 0 means that every rank is examined, 2 that one in a hundred searchers reaches rank 10."""
MODELS = ("position", "cascade")
UNSATISFIED = 0.3
"""Probability that a cascade continues after a click on the best grade."""


@dataclass(frozen=True)
class Searchers:
    """The behaviour of simulated searchers."""

    model: str = "position"
    eta: float = 1.0
    noise: float = 0.1
    """Probability of a click on an examined document of grade 0."""
    best: float = 0.9
    """Probability of a click on an examined document of the best grade."""
    abandonment: float = 0.1
    """Share of lists that are abandoned unread."""


@dataclass(frozen=True)
class Impression:
    """A shown list: its search, and document ids from the top down."""

    query_id: str
    text: str
    documents: Sequence[str]


def attraction(searchers: Searchers, grades: Sequence[int], best_grade: int) -> Floats:
    """Return (N,) the probability of a click on each examined document, by 2^grade - 1 (Chapelle et al. 2009)."""
    gain = (2.0 ** np.maximum(grades, 0) - 1) / (2.0**best_grade - 1)
    return (searchers.noise + (searchers.best - searchers.noise) * gain).astype(np.float32)


def examination(eta: float, count: int) -> Floats:
    """Return (count,) the probability that each rank is examined."""
    curve: Floats = (np.arange(1, count + 1, dtype=np.float64) ** -eta).astype(np.float32)
    return curve


def clicked(searchers: Searchers, attractive: Floats, random: np.random.Generator) -> Mask:
    """Return (N,) which ranks of a list are clicked; attractive (N,) is the probability of a click if examined."""
    count = len(attractive)
    draws = random.random((3, count))
    if random.random() < searchers.abandonment:
        return np.zeros(count, np.bool_)
    examined = examination(searchers.eta, count)
    if searchers.model == "position":
        by_position: Mask = (draws[0] < examined) & (draws[1] < attractive)
        return by_position
    clicks = np.zeros(count, np.bool_)
    for rank in range(count):
        if rank and not clicks[rank - 1] and draws[0, rank] >= examined[rank] / examined[rank - 1]:
            break
        if rank and clicks[rank - 1] and draws[2, rank] < attractive[rank - 1] * (1 - UNSATISFIED):
            break
        clicks[rank] = draws[1, rank] < attractive[rank]
    return clicks


def simulate(
    searchers: Searchers,
    impressions: Sequence[Impression],
    qrels: Mapping[str, Mapping[str, int]],
    seed: int | np.random.Generator,
    best_grade: int | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the events of searchers on these lists. qrels: true grades by query text.

    seed: a seed, or a generator to continue a log. best_grade: the highest grade of the scale; default: of the qrels.
    """
    random = np.random.default_rng(seed)
    best = best_grade or max((grade for grades in qrels.values() for grade in grades.values()), default=1)
    for number, one in enumerate(impressions):
        grades = qrels.get(one.text, {})
        attractive = attraction(searchers, [grades.get(document, 0) for document in one.documents], max(1, best))
        for rank in np.flatnonzero(clicked(searchers, attractive, random)).tolist():
            yield click(one, rank, number)


def click(one: Impression, rank: int, number: int) -> dict[str, Any]:
    """Return the click of searcher `number` on a 0-based rank of a list, in UBI's schema."""
    return {
        "action_name": "click",
        "query_id": one.query_id,
        "user_query": one.text,
        "client_id": f"searcher-{number}",
        "timestamp": f"2026-01-01T00:00:{rank % 60:02d}Z",
        "event_attributes": {
            "object": {"object_id": one.documents[rank], "object_id_field": "id"},
            "position": {"ordinal": rank + 1},
        },
    }
