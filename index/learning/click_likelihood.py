"""The likelihood of held-out clicks: how well the order of a head explains which of the shown documents were clicked.

A query with clicks has no complete judgments, so a measure of ranks knows only the documents that were shown and grades
them from few clicks. The likelihood uses every click as it is: P(n | query) is the softmax over the shown documents of
g(distance_n) + log propensity_n (`conditional_logit`), with the expected examinations as propensities (Joachims et al.
2017; Ai et al. 2018). A query with few clicks has less weight: its mean is noise.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.evaluation.significance import Comparison, compare
from index.generation.generation import Generation
from index.learning.conditional_logit import ChoiceTable, Doubles
from index.learning.examples import (
    UNKNOWN,
    Feedback,
    expected_examinations,
    half_of,
    make_batch,
    make_example,
    relative_log,
)
from index.ranking.attention import AttentionHead
from index.ranking.search import project
from index.records import Floats

CLICKS = "log likelihood per click"
"""The name of the measure."""
CLICK_VARIANCE = 5.0
"""The variance of a click within a query over the variance between queries, for differences between two heads."""
TOP = 10
HEAVIEST = 10
"""The most clients without each of whom heads are compared again."""
HEAVY = 0.01
"""The least share of such a client in the queries."""


@dataclass(frozen=True)
class Clicked:
    """The shown documents of a query with clicks under a head, all (n,).

    logits, log propensities, clicks, the expected examinations, the impressions that these are computed from, and who
    clicked: client -> number of clicks.
    """

    logits: NDArray[Any]
    log_propensity: NDArray[Any]
    clicks: NDArray[Any]
    examinations: NDArray[Any]
    impressions: Sequence[Mapping[int, int]] = ()
    clients: Sequence[Mapping[int, int]] = ()

    def under(self, curve: Floats) -> "Clicked":
        """Return the documents with the propensities and examinations of another curve."""
        examinations = np.asarray([expected_examinations(one, curve) for one in self.impressions], np.float64)
        return replace(self, log_propensity=relative_log(examinations), examinations=examinations)

    def without(self, client: int) -> "Clicked":
        """Return the documents without the clicks of a client."""
        own = np.asarray([clients.get(client, 0) for clients in self.clients], np.float64)
        return replace(self, clicks=self.clicks - own) if own.any() else self


def query_weights(clicks: Mapping[str, NDArray[Any]]) -> dict[str, float]:
    """Return query key -> weight, with the mean 1, of queries with these clicks (n,) on their documents.

    The difference between two heads has the variance v + CLICK_VARIANCE v / m on a query with m clicks. The mean has
    the least variance with weights in proportion to its inverse, m / (m + CLICK_VARIANCE) (random effects, DerSimonian
    and Laird 1986).
    """
    totals = {key: float(of.sum()) for key, of in clicks.items()}
    found = {key: total / (total + CLICK_VARIANCE) for key, total in totals.items()}
    mean = sum(found.values()) / max(1, len(found))
    return {key: weight / mean for key, weight in found.items()}


def click_counts(feedback: Feedback, rows: Sequence[int]) -> Doubles:
    """Return the number of clicks (n,) on the documents with these rows in the lists of a query."""
    return np.asarray([sum((feedback.clicks or {}).get(row, {}).values()) for row in rows], np.float64)


def clicked_queries(feedback: Sequence[Feedback]) -> list[Feedback]:
    """Return the queries with a click on a shown document, and at least two shown documents."""
    return [
        one for one in feedback if one.shown is not None and len(one.shown) > 1 and any((one.clicks or {}).values())
    ]


def clicked(generation: Generation, head: AttentionHead, feedback: Feedback, curve: Floats) -> Clicked | None:
    """Return the shown documents of a query under a head; None if the documents of all clicks are gone.

    The memory of the query itself is left out.
    """
    example = make_example(generation, feedback, project(head, feedback.vector), 0, curve)
    rows = generation.rows[example.candidates.doc_indices].tolist()
    clicks = click_counts(feedback, rows)
    if len(rows) < 2 or not clicks.sum():
        return None
    batch = make_batch(generation, [example], with_values=head.hops, with_fields=bool(head.priors.fields))
    logits = np.asarray(head(batch.query, batch.candidates).logits[0, : len(rows)], np.float64)
    impressions = [(feedback.shown or {}).get(row, {}) for row in rows]
    clients = [(feedback.clients or {}).get(row, {}) for row in rows]
    return Clicked(logits, np.empty(0), clicks, np.empty(0), impressions, clients).under(curve)


def click_table(shown: Mapping[str, tuple[NDArray[Any], NDArray[Any]]]) -> ChoiceTable:
    """Return the table of query key -> log propensities (n,) and clicks (n,); the clicks have a sum above 0."""
    return ChoiceTable.of(shown, query_weights({key: clicks for key, (_, clicks) in shown.items()}))


def likelihoods(queries: Mapping[str, Clicked]) -> dict[str, float]:
    """Return query key -> mean log probability of a click, times the weight of the query.

    g of a half of the queries is fitted on the other half.
    """
    weights = query_weights({key: one.clicks for key, one in queries.items()})
    halves: tuple[dict[str, Clicked], dict[str, Clicked]] = ({}, {})
    for key, one in queries.items():
        halves[half_of(key)][key] = one
    tables = [
        ChoiceTable.of({key: (one.log_propensity, one.clicks) for key, one in half.items()}, weights) for half in halves
    ]
    logits = [{key: one.logits for key, one in half.items()} for half in halves]
    found: dict[str, float] = {}
    for own, other in ((0, 1), (1, 0)):
        fitted = other if halves[other] else own
        if halves[own]:
            calibration = tables[fitted].calibrated(tables[fitted].distances(logits[fitted]))
            found |= tables[own].likelihoods(logits[own], calibration)
    return found


def clicked_pairs(
    generation: Generation, champion: AttentionHead, pairs: Sequence[tuple[Feedback, AttentionHead]], curve: Floats
) -> tuple[dict[str, Clicked], dict[str, Clicked]]:
    """Return the shown documents of the queries that have them, by query key, under the champion and the other head.

    pairs: each held-out query with the head that did not train on it.
    """
    before: dict[str, Clicked] = {}
    after: dict[str, Clicked] = {}
    for one, head in pairs:
        mine, theirs = clicked(generation, champion, one, curve), clicked(generation, head, one, curve)
        if mine is not None and theirs is not None:
            before[one.query_key], after[one.query_key] = mine, theirs
    return before, after


def compare_clicks(before: Mapping[str, Clicked], after: Mapping[str, Clicked]) -> Comparison:
    """Return the paired comparison of the likelihoods of clicks, for at least two queries (`clicked_pairs`)."""
    return compare(CLICKS, likelihoods(before), likelihoods(after))


def shares_of_clients(queries: Mapping[str, Clicked]) -> dict[int, float]:
    """Return client -> its share of the queries: of each query, its part of the clicks; none if clients are not known.

    A query weighs about alike whatever its clicks, so a client decides by the queries that it clicks on.
    """
    shares: dict[int, float] = {}
    for one in queries.values():
        total = float(one.clicks.sum())
        for clients in one.clients:
            for client, clicks in clients.items():
                shares[client] = shares.get(client, 0.0) + clicks / (total * len(queries))
    return shares


def heavy_clients(shares: Mapping[int, float]) -> list[int]:
    """Return the clients that might decide alone: those with the largest shares, of a log of several clients.

    UNKNOWN stands for all clicks of unknown clients. It is left out where its share is above a half: without them too
    little would be left to prove anything.
    """
    heavy = [client for client, own in shares.items() if own >= HEAVY and not (client == UNKNOWN and own > 0.5)]
    return sorted(heavy, key=lambda client: (-shares[client], client))[:HEAVIEST] if len(shares) > 1 else []


def without_client(queries: Mapping[str, Clicked], client: int) -> dict[str, Clicked]:
    """Return the queries without the clicks of a client, those that have other clicks."""
    left = {key: one.without(client) for key, one in queries.items()}
    return {key: one for key, one in left.items() if one.clicks.any()}


def never_shown(runs: Mapping[str, Sequence[str]], queries: Sequence[Feedback], new: Set[int]) -> float:
    """Return the mean share of the first ten documents that no list of their query showed.

    runs: query key -> rows, best first. new: the rows of documents that do not count, because they are newer than all
    documents that the log shows: it could not show them.
    """
    shares = []
    for one in queries:
        top = [int(row) for row in runs[one.query_key][:TOP]]
        shares.append(sum(row not in (one.shown or {}) and row not in new for row in top) / max(1, len(top)))
    return float(np.mean(shares)) if shares else 0.0
