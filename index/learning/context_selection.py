"""Selects g of the context (`index.ranking.context`) on held-out queries; it stays 0 unless other queries confirm it.

Reads the lists with a click that were shown in a session after other actions. A list is searched again with the context
of its user and without it, and the order of the documents that it showed is measured by their clicks. A click counts as
much as one over the probability that its position was looked at, because the lists came from a ranking without that
context, and users click the first documents more often (Joachims et al. 2017).
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.evaluation.significance import CONFIDENCE, Check, Comparison, compare
from index.generation.generation import Generation
from index.learning.config import FitConfig, Step
from index.learning.examples import Feedback, InContext
from index.learning.held_out import sample
from index.learning.model_selection import Selection
from index.learning.optimism import beats, once
from index.ranking.attention import AttentionHead
from index.ranking.search import search
from index.records import Floats

CONTEXT_QUERIES = 120
"""Maximum number of queries to select g on."""
MAX_TESTED = 600
"""Maximum number of held-out queries that g is confirmed on."""
MEASURE = "gain of clicks"
"""The mean of 1 / log2(1 + rank) of the clicked documents, weighted by inverse propensities; at most 1."""
HeadFor = Callable[[str], AttentionHead | None]
"""Query key -> a head that did not train on the query, or None."""


@dataclass(frozen=True)
class ContextChoice:
    """The g that was selected, its measures, and the comparison with g = 0 on held-out queries; None without queries.

    tried: g -> the measure (queries,). chosen: g of the model, 0 unless the comparison confirms the selected g.
    """

    chosen: float
    selected: float
    queries: int
    tried: Mapping[float, NDArray[np.float64]]
    held_out: Comparison | None

    def as_dict(self) -> dict[str, Any]:
        """Return the choice for a training record."""
        return {
            "chosen": self.chosen,
            "selected": self.selected,
            "queries": self.queries,
            "tried": {f"{g:g}": round(float(values.mean()), 4) for g, values in self.tried.items() if len(values)},
            "held_out": None if self.held_out is None else self.held_out.as_dict(),
        }


def select_context(
    generation: Generation,
    selection: Selection,
    head: AttentionHead,
    learn: Sequence[Feedback],
    test: Sequence[Feedback],
    curve: Floats,
    config: FitConfig,
) -> Generator[Step, None, ContextChoice]:
    """Return the choice of g. selection: the heads of the folds; head: the head of the run, which did not see `test`.

    curve[p - 1] is the examination probability of position p. Each g must be better than the g selected before it, by
    a share of the standard error. The selected g is kept if it is better than g = 0 on the held-out queries, with p
    below 1 - CONFIDENCE. Logs without contexts cost nothing.
    """
    known = [one for one in learn if one.contexts and selection.head_for(one.query_key) is not None]
    queries = sample(known, CONTEXT_QUERIES, config.seed)
    tried: dict[float, NDArray[np.float64]] = {}
    selected = 0.0
    for g in (0.0, *config.contexts) if queries else ():
        tried[g] = np.asarray(list(measured(generation, queries, selection.head_for, curve, g).values()))
        yield Step("context", len(tried), 1 + len(config.contexts))
        if g and beats(tried[g] - tried[selected], once(len(tried[g])), config.error_share)[0]:
            selected = g
    held_out = None
    if selected:
        tested = sample([one for one in test if one.contexts], MAX_TESTED, config.seed)
        before, after = (measured(generation, tested, lambda _: head, curve, g) for g in (0.0, selected))
        held_out = compare(MEASURE, before, after)
    kept = held_out is not None and held_out.difference > 0 and held_out.p_value < 1 - CONFIDENCE
    return ContextChoice(selected if kept else 0.0, selected, len(queries), tried, held_out)


def not_worse_in_context(
    generation: Generation,
    champion: AttentionHead,
    head: AttentionHead,
    test: Sequence[Feedback],
    curve: Floats,
    config: FitConfig,
) -> Check | None:
    """Return the check that a challenger is not worse in context than a champion that uses contexts.

    None for a champion that uses none, and without held-out contexts.
    """
    tested = sample([one for one in test if one.contexts], MAX_TESTED, config.seed)
    if not champion.context or not tested:
        return None
    before = measured(generation, tested, lambda _: champion, curve)
    found = compare(MEASURE, before, measured(generation, tested, lambda _: head, curve))
    figures = (
        f"{found.a:.4f} -> {found.b:.4f}, difference {found.difference:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"
    )
    reason = f"{MEASURE} of lists in context {figures} on {found.queries} held-out queries: not worse"
    return Check("context_not_worse", found.high >= 0, reason)


def measured(
    generation: Generation, queries: Sequence[Feedback], head_for: HeadFor, curve: Floats, g: float | None = None
) -> dict[str, float]:
    """Return query key -> the gain of its clicks in the order of searches in the context of their users.

    g: the `context` of the heads; None: their own.
    """
    values = {}
    for one in queries:
        head = head_for(one.query_key)
        assert head is not None
        head = head if g is None else head.changed(context=g)
        gained, total = 0.0, 0.0
        for each in one.contexts:
            rank_of = {row: rank for rank, row in enumerate(reranked(generation, head, one, each), 1)}
            for row in each.clicked:
                weight = 1 / float(curve[min(each.shown[row], len(curve)) - 1])
                total += weight
                gained += weight / log2(1 + rank_of[row]) if row in rank_of else 0.0
        values[one.query_key] = gained / total
    return values


def reranked(generation: Generation, head: AttentionHead, one: Feedback, each: InContext) -> list[int]:
    """Return the rows of a list in the order of a search in its context, without the query's own memory."""
    context = generation.doc_indices(np.asarray(each.context, np.int64))
    shown = generation.doc_indices(np.asarray(sorted(each.shown), np.int64))
    query = one.as_query(context=context[context >= 0])
    ranking = search(generation, head, query, required=shown[shown >= 0])
    rows = generation.rows[ranking.doc_indices].tolist()
    return [row for row in rows if row in each.shown]
