"""Estimates the clicks per search of two models from explored lists, whether or not the models were ever live.

The policy of a model is its own Plackett-Luce sample. Every search is repeated with both models on the present
documents, read and encoded as a search is, but without the memory of its own query: the clicks on the list are in it.

`compare_models` imports this module at the first comparison with enough lists: scipy takes long to import.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.candidates.base import MISSING
from index.evaluation.off_policy import compared, fitted_rewards, with_rewards
from index.generation.generation import Generation
from index.learning.examples import hash_of
from index.memory.click_worth import ASSUMED_CURVE
from index.ranking.attention import AttentionHead
from index.ranking.replay import ABSENT, Policy, Replayed, policy, replayed
from index.ranking.retrieval import Mode, Query, as_searched, read_query
from index.ranking.search import Ranking, search
from index.records import Ints, Mask
from service.models.explored_lists import POSITIONS, ExploredList, Search
from service.runtime.collection import CollectionState
from service.runtime.runtime import Runtime
from service.storage.database import now

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Models:
    """Two models to compare, and what their searches need. rows: document id -> row, of the same state as generation.

    curve: the examination curve of the champion's click model; None: the assumed curve.
    """

    runtime: Runtime
    state: CollectionState
    generation: Generation
    rows: Mapping[str, int]
    heads: tuple[AttentionHead, AttentionHead]
    curve: Sequence[float] | None = None


@dataclass(frozen=True)
class _Sides:
    """What both models say of the lists: ratios (2, M, P) and alphas (2, M, P) by name."""

    ratios: Doubles
    attention: Mapping[str, Doubles]


def estimate_models(models: Models, lists: Sequence[ExploredList]) -> dict[str, Any]:
    """Return `a`, `b` and `difference` -> estimator -> estimate as JSON, and `logged`, the clicks per logged list."""
    sides = _replay_all(models, lists)
    curve = np.asarray(ASSUMED_CURVE if models.curve is None else models.curve, np.float64)[:POSITIONS]
    examination, clicks = np.zeros((2, len(lists), POSITIONS))
    for at, one in enumerate(lists):
        shown = len(one.clicks)
        clicks[at, :shown], examination[at, :shown] = one.clicks, curve[:shown]
    logged = sides.attention["predicted"].max(axis=0)  # a document that one model lacks has the alpha of the other
    coefficients = fitted_rewards(clicks, logged, examination)
    a, b = (
        with_rewards(
            ratios, {name: alphas[side] for name, alphas in sides.attention.items()}, coefficients, examination
        )
        for side, ratios in enumerate(sides.ratios)
    )
    found = compared(clicks, a, b, sum(one.share for one in lists), _clients(lists))
    estimates = {side: {name: one.as_dict() for name, one in by_name.items()} for side, by_name in found.items()}
    return {"logged": round(float(clicks.sum(axis=1).mean()), 5), **estimates}


def _clients(lists: Sequence[ExploredList]) -> Ints:
    """Return (M,) the number of the client of each list; a list without a client has a number of its own."""
    numbers: dict[str | int, int] = {}
    return np.asarray([numbers.setdefault(one.client or at, len(numbers)) for at, one in enumerate(lists)], np.int64)


def _replay_all(models: Models, lists: Sequence[ExploredList]) -> _Sides:
    """Return what both models say of the lists; each search is repeated once for each model."""
    shape = (2, len(lists), POSITIONS)
    ratios, attention = np.zeros(shape), {name: np.zeros(shape) for name in ("predicted", "expected", "start")}
    groups: dict[Search, list[int]] = {}
    for at, one in enumerate(lists):
        groups.setdefault(one.search, []).append(at)
    for wanted, members in groups.items():
        mine = [lists[at] for at in members]
        logged = np.stack([_padded(np.cumsum(np.log(one.probabilities))) for one in mine])
        for side, (documents, own) in enumerate(_policies(wanted, *rankings(models, mine[0]))):
            found = _replayed(documents, own, mine)
            ratios[side, members] = np.exp(found.logs - logged)
            for name, alphas in attention.items():
                alphas[side, members] = getattr(found, name)
    return _Sides(ratios, attention)


def rankings(models: Models, one: ExploredList) -> tuple[Ranking, Ranking]:
    """Return the rankings of both models for the search of a list, without the memory of its query."""
    query_key, mode, count, _ = one.search
    unread = np.zeros(models.generation.dim, np.float32)
    query = Query(one.text, unread, Mode(mode), count, excluded_query=query_key)
    query = as_searched(models.generation, query, models.runtime.encoded_query)
    query = replace(query, allowed=_allowed(models, query))
    a, b = (search(models.generation, head, query) for head in models.heads)
    return a, b


def _allowed(models: Models, query: Query) -> Mask | None:
    """Return the documents that no rule hides for this query; None if no rule hides any."""
    if not len(models.state.rules):
        return None
    reading = read_query(models.generation, query)
    rules = models.state.rules.matching((query.text, reading.text), query.vector, now())
    rows = [models.rows[id] for rule in rules for id in rule.hides if id in models.rows]
    if not rows:
        return None
    hidden = models.generation.doc_indices(np.asarray(rows, np.int64))
    allowed: Mask = models.generation.alive.copy()
    allowed[hidden[hidden != MISSING]] = False
    return allowed


def _policies(wanted: Search, a: Ranking, b: Ranking) -> list[tuple[NDArray[np.int64], Policy]]:
    """Return the doc indices (N,) and the policy of both models. Their reward model has the mean weight of both."""
    weights: dict[int, float] = {}
    for ranking in (a, b):
        for document, weight in zip(ranking.doc_indices.tolist(), ranking.weights.tolist(), strict=True):
            weights[document] = weights.get(document, 0.0) + weight / 2
    made = []
    for ranking in (a, b):
        generator = np.random.default_rng(hash_of(wanted[0]))  # both models get the same numbers
        free = ~np.isin(ranking.doc_indices, wanted[3])
        documents = ranking.doc_indices[free]
        attention = np.asarray([weights[one] for one in documents.tolist()], np.float64)
        made.append((documents, policy(ranking.logits[free].astype(np.float64), attention, POSITIONS, generator)))
    return made


def _replayed(documents: NDArray[np.int64], own: Policy, lists: Sequence[ExploredList]) -> Replayed:
    """Return the lists of a search under a policy over these documents (N,)."""
    place_of = {document: place for place, document in enumerate(documents.tolist())}
    places = np.full((len(lists), POSITIONS), ABSENT, np.int64)
    free = np.zeros(places.shape, np.bool_)
    for row, one in enumerate(lists):
        places[row, : len(one.documents)] = [place_of.get(document, ABSENT) for document in one.documents.tolist()]
        free[row, : len(one.documents)] = ~one.kept
    return replayed(own, places, free)


def _padded(logs: Doubles) -> Doubles:
    """Return the log probabilities of the prefixes for all POSITIONS: after the last document they do not change."""
    return np.pad(logs, (0, POSITIONS - len(logs)), mode="edge")
