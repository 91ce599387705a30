"""Heads on queries that they were not trained on: the second hop is selected there, and two heads are compared."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from index.evaluation.measures import compare_runs, measure_run
from index.evaluation.significance import Comparison
from index.generation.generation import Generation
from index.learning.click_model import ClickModel, held_out_qrels
from index.learning.config import FitConfig, Step
from index.learning.examples import Feedback
from index.learning.model_selection import Selection, beats
from index.ranking.attention import AttentionHead, initial_parameters
from index.ranking.retrieval import Query
from index.ranking.search import search

HOP_QUERIES = 120
"""Queries that the second hop is selected on, at most."""
FULL_RECALL = 0.99
"""Recall@100 from which on a second hop has nothing to gain."""
MAX_CROSS_FITTED = 600
"""Train queries that join the comparison at most, each searched by the head of the fold that left it out."""


def select_hop(
    generation: Generation, selection: Selection, learn: Sequence[Feedback], clicks: ClickModel, config: FitConfig
) -> Generator[Step, None, dict[str, Any]]:
    """Return g of the second hop, 0 unless held-out Recall@100 rises by more than its error and nDCG@10 does not fall.

    Each query is searched by the head of the fold that left it out.
    """
    known = [one for one in learn if selection.head_for(one.query_key) is not None]
    asked = sample(known, HOP_QUERIES, config.seed)
    qrels = held_out_qrels(asked, clicks)
    measured: dict[float, dict[str, dict[str, float]]] = {}
    chosen = 0.0
    for hop in (0.0, *config.hops):
        measured[hop] = measure_run(_cross_searched(generation, selection.with_hop(hop), asked), qrels)
        yield Step("hop", len(measured), 1 + len(config.hops))
        before, after = measured[chosen], measured[hop]
        gains = np.asarray([after["R@100"][one] - before["R@100"][one] for one in before["R@100"]])
        risen = beats(gains, config.error_share) and _mean(after["nDCG@10"]) >= _mean(before["nDCG@10"])
        chosen = hop if risen else chosen
        worse = _mean(after["nDCG@10"]) < _mean(before["nDCG@10"])  # a longer hop loses more
        if worse or _mean(measured[0.0]["R@100"]) >= FULL_RECALL:
            break
    tried = {f"{hop:g}": {name: round(_mean(of), 4) for name, of in one.items()} for hop, one in measured.items()}
    return {"chosen": chosen, "queries": len(asked), "tried": tried}


def compare_heads(
    generation: Generation,
    champion: AttentionHead,
    challenger: AttentionHead,
    selection: Selection,
    learn: Sequence[Feedback],
    test: Sequence[Feedback],
    clicks: ClickModel,
    config: FitConfig,
) -> Generator[Step, None, tuple[dict[str, Comparison], dict[str, int]]]:
    """Return the paired comparison on queries searched in full, each by a head that did not train on it.

    The challenger searches the test queries. Train queries join where the champion is untrained, so that it has learned
    from no query, and every fold validated once: each is searched by the head of the fold that left it out. Few queries
    then suffice to prove a gain. The overestimate that comes from the selection among recipes is subtracted for them.
    """
    test = sample(test, config.max_test_queries, config.seed)
    asked = [(one, challenger) for one in test]
    cross_fitted: list[tuple[Feedback, AttentionHead]] = []
    changed = selection.recipe.weights or challenger.hops
    if changed and len(selection.trials) > 1 and is_untrained(champion):
        known = [(one, selection.head_for(one.query_key)) for one in learn]
        cross_fitted = [(one, head) for one, head in known if head is not None]
        cross_fitted = sample(cross_fitted, MAX_CROSS_FITTED, config.seed)
    asked += cross_fitted
    runs: tuple[dict[str, list[str]], dict[str, list[str]]] = ({}, {})
    for at, (one, head) in enumerate(asked):
        runs[0][one.query_key] = ranked_rows(generation, champion, one, 100)
        runs[1][one.query_key] = ranked_rows(generation, head, one, 100)
        if at % 50 == 0:
            yield Step("evaluate", at, len(asked))
    comparisons = compare_runs(*runs, held_out_qrels([one for one, _ in asked], clicks))
    share = len(cross_fitted) / len(asked)
    comparisons["nDCG@10"] = comparisons["nDCG@10"].lowered(share * selection.optimism)
    return comparisons, {"test": len(test), "cross_fitted": len(cross_fitted)}


def is_untrained(head: AttentionHead) -> bool:
    """Return whether a head ranks as with its initial parameters.

    Its random directions are not compared: initially they are multiplied by 0, and earlier releases drew others.
    Logarithms may differ in their last bit.
    """
    initial = initial_parameters(head.config)
    other = initial_parameters(replace(head.config, seed=head.config.seed + 1))
    values = head.parameters_by_name()
    same_for_all_seeds = [name for name, value in initial.items() if np.array_equal(value, other[name])]
    return all(np.allclose(values[name], initial[name], rtol=1e-6, atol=0) for name in same_for_all_seeds)


def ranked_rows(generation: Generation, head: AttentionHead, one: Feedback, limit: int) -> list[str]:
    """Return the rows found for a query as evaluation sees it: the whole collection, without the query's own memory.

    A query with clicks keeps only documents that were shown, a condensed list (Sakai 2007). A document that was never
    shown was never clicked, good or not: counted as bad, it would favour the model that made the lists.
    """
    ranking = search(generation, head, Query(one.text, one.vector, excluded_query=one.query_key))
    rows = generation.rows[ranking.doc_indices].tolist()
    return [str(row) for row in rows if one.shown is None or row in one.shown][:limit]


def sample(items: Sequence[Any], most: int, seed: int) -> list[Any]:
    """Return at most `most` of the items, drawn without replacement, in their order."""
    if len(items) <= most:
        return list(items)
    chosen = np.sort(np.random.default_rng(seed).choice(len(items), most, replace=False))
    return [items[i] for i in chosen]


def _cross_searched(generation: Generation, selection: Selection, asked: Sequence[Feedback]) -> dict[str, list[str]]:
    """Return the run of queries, each searched by the head of the fold that left it out."""
    run = {}
    for one in asked:
        head = selection.head_for(one.query_key)
        assert head is not None
        run[one.query_key] = ranked_rows(generation, head, one, 100)
    return run


def _mean(values: Mapping[str, float]) -> float:
    return float(np.mean(list(values.values()))) if values else 0.0
