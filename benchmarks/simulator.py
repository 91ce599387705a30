"""Simulated searchers: shown lists and true grades in, clicks as the service takes them out.

Two models of how a list is read (Chuklin, Markov, de Rijke 2015). By position (Craswell et al. 2008): place p is looked
at with chance p^-eta, whatever stands elsewhere. As a cascade (Craswell et al. 2008, with the stop after a click of the
dependent click model, Guo et al. 2009): from the top down; after a place without a click the searcher goes on with a
chance that makes p^-eta of them reach place p where nothing is clicked, after a click only where it did not satisfy.
Either way a document that is looked at is clicked by its grade, with clicks on what is worth nothing as well, and some
searchers leave without reading at all. The same seed gives the same clicks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from index.records import Floats, Mask

SEVERITIES = (0.0, 0.5, 1.0, 1.5, 2.0)
"""eta, from everybody reading everything to one in a hundred reaching place 10."""
MODELS = ("position", "cascade")
UNSATISFIED = 0.3
"""Chance that a cascade goes on after a click on the best grade."""


@dataclass(frozen=True)
class Searchers:
    """How the simulated searchers read and click."""

    model: str = "position"
    eta: float = 1.0
    noise: float = 0.1
    """Chance that a document without worth is clicked when it is looked at."""
    best: float = 0.9
    """Chance that one of the best grade is."""
    abandonment: float = 0.1
    """Share of lists that nobody reads."""


@dataclass(frozen=True)
class Impression:
    """A list that was shown: its search, and document ids from the top down."""

    query_id: str
    text: str
    documents: Sequence[str]


def attraction(searchers: Searchers, grades: Sequence[int], best_grade: int) -> Floats:
    """Return (N,) the chance of a click on each document that is looked at: by 2^grade - 1 (Chapelle et al. 2009)."""
    worth = (2.0 ** np.maximum(grades, 0) - 1) / (2.0**best_grade - 1)
    return (searchers.noise + (searchers.best - searchers.noise) * worth).astype(np.float32)


def examination(eta: float, count: int) -> Floats:
    """Return (count,) the chance that each place is looked at."""
    curve: Floats = (np.arange(1, count + 1, dtype=np.float64) ** -eta).astype(np.float32)
    return curve


def clicked(searchers: Searchers, attractive: Floats, random: np.random.Generator) -> Mask:
    """Return (N,) which places of one list are clicked; attractive (N,) is the chance of a click where it is read."""
    count = len(attractive)
    draws = random.random((3, count))
    if random.random() < searchers.abandonment:
        return np.zeros(count, np.bool_)
    looked_at = examination(searchers.eta, count)
    if searchers.model == "position":
        by_position: Mask = (draws[0] < looked_at) & (draws[1] < attractive)
        return by_position
    clicks = np.zeros(count, np.bool_)
    for place in range(count):
        if place and not clicks[place - 1] and draws[0, place] >= looked_at[place] / looked_at[place - 1]:
            break
        if place and clicks[place - 1] and draws[2, place] < attractive[place - 1] * (1 - UNSATISFIED):
            break
        clicks[place] = draws[1, place] < attractive[place]
    return clicks


def simulate(
    searchers: Searchers,
    impressions: Sequence[Impression],
    qrels: Mapping[str, Mapping[str, int]],
    seed: int | np.random.Generator,
    best_grade: int | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the events of searchers who were shown these lists; qrels give the true grades by query text.

    A generator in the seed's place is drawn on, so that a log can be continued. best_grade is the highest of the
    scale, that of the qrels where it is not given.
    """
    random = np.random.default_rng(seed)
    best = best_grade or max((grade for grades in qrels.values() for grade in grades.values()), default=1)
    for number, one in enumerate(impressions):
        grades = qrels.get(one.text, {})
        attractive = attraction(searchers, [grades.get(document, 0) for document in one.documents], max(1, best))
        for place in np.flatnonzero(clicked(searchers, attractive, random)).tolist():
            yield click(one, place, number)


def click(one: Impression, place: int, number: int) -> dict[str, Any]:
    """Return the click of searcher `number` on a 0-based place of a list, in UBI's schema."""
    return {
        "action_name": "click",
        "query_id": one.query_id,
        "user_query": one.text,
        "client_id": f"searcher-{number}",
        "timestamp": f"2026-01-01T00:00:{place % 60:02d}Z",
        "event_attributes": {
            "object": {"object_id": one.documents[place], "object_id_field": "id"},
            "position": {"ordinal": place + 1},
        },
    }
