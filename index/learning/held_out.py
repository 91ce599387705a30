"""Evaluation on held-out queries: the selection of the second hop, and the comparison of two heads."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from index.evaluation.measures import compare_runs, measure_run
from index.evaluation.significance import Comparison, Decision, gate
from index.generation.generation import Generation
from index.learning.click_likelihood import CLICKS, clicked_queries, compare_clicks, never_shown, newest_shown
from index.learning.click_model import ClickModel, held_out_qrels
from index.learning.config import FitConfig, Step
from index.learning.examples import Feedback
from index.learning.model_selection import Selection, beats
from index.ranking.attention import AttentionHead, initial_parameters
from index.ranking.retrieval import Query
from index.ranking.search import search

HOP_QUERIES = 120
"""Maximum number of queries to select the second hop on."""
FULL_RECALL = 0.99
"""Recall@100 above which larger hops are not tried."""
MAX_CROSS_FITTED = 600
"""Maximum number of training queries in the comparison, each searched by the head of the fold that left it out."""


@dataclass(frozen=True)
class HeldOut:
    """The comparison of champion and challenger: by measure, the counts of queries, and the documents never shown.

    never_shown: for champion and challenger, the mean share of the first ten documents of clicked queries that no list
    showed; None without clicks.
    """

    comparisons: dict[str, Comparison]
    counts: dict[str, int]
    never_shown: tuple[float, float] | None = None

    def decide(self) -> Decision:
        """Return the decision of the gate, on clicks if most held-out queries have clicks, else on judgments."""
        clicks = self.comparisons.get(CLICKS)
        if clicks is not None and 2 * clicks.queries < self.comparisons["nDCG@10"].queries:
            clicks = None
        return gate(self.comparisons["nDCG@10"], self.comparisons["R@100"], clicks, self.never_shown)


def select_hop(
    generation: Generation, selection: Selection, learn: Sequence[Feedback], clicks: ClickModel, config: FitConfig
) -> Generator[Step, None, dict[str, Any]]:
    """Return the selected g of the second hop with its measures.

    g is 0 unless held-out Recall@100 rises by more than a share of its standard error and nDCG@10 does not fall.

    Each query is searched by the head of the fold that left it out.
    """
    known = [one for one in learn if selection.head_for(one.query_key) is not None]
    queries = sample(known, HOP_QUERIES, config.seed)
    qrels = held_out_qrels(queries, clicks)
    measured: dict[float, dict[str, dict[str, float]]] = {}
    chosen = 0.0
    for hop in (0.0, *config.hops):
        measured[hop] = measure_run(_cross_searched(generation, selection.with_hop(hop), queries), qrels)
        yield Step("hop", len(measured), 1 + len(config.hops))
        before, after = measured[chosen], measured[hop]
        gains = np.asarray([after["R@100"][key] - before["R@100"][key] for key in before["R@100"]])
        worse = _mean(after["nDCG@10"]) < _mean(before["nDCG@10"])
        if beats(gains, config.error_share) and not worse:
            chosen = hop
        if worse or _mean(measured[0.0]["R@100"]) >= FULL_RECALL:  # larger hops lose more, or have nothing to gain
            break
    tried = {
        f"{hop:g}": {name: round(_mean(values), 4) for name, values in measures.items()}
        for hop, measures in measured.items()
    }
    return {"chosen": chosen, "queries": len(queries), "tried": tried}


def compare_heads(
    generation: Generation,
    champion: AttentionHead,
    challenger: AttentionHead,
    selection: Selection,
    learn: Sequence[Feedback],
    test: Sequence[Feedback],
    clicks: ClickModel,
    config: FitConfig,
) -> Generator[Step, None, HeldOut]:
    """Return the paired comparison on full searches by heads that did not train on the query, and the query counts.

    The challenger searches the test queries. Cross-fitted training queries are added (`_cross_fitted`), so that few
    queries suffice to prove a gain; for them, the overestimate from the selection among recipes is subtracted.
    """
    test = sample(test, config.max_test_queries, config.seed)
    cross_fitted = _cross_fitted(champion, challenger, selection, learn, config)
    queries = [*((one, challenger) for one in test), *cross_fitted]
    runs: tuple[dict[str, list[str]], dict[str, list[str]]] = ({}, {})
    for done, (one, head) in enumerate(queries):
        runs[0][one.query_key] = ranked_rows(generation, champion, one)
        runs[1][one.query_key] = ranked_rows(generation, head, one)
        if done % 50 == 0:
            yield Step("evaluate", done, len(queries))
    held_out = [one for one, _ in queries]
    before, after = (_among_shown(run, held_out) for run in runs)
    comparisons = compare_runs(before, after, held_out_qrels(held_out, clicks))
    share = len(cross_fitted) / len(queries)
    comparisons["nDCG@10"] = comparisons["nDCG@10"].lowered(share * selection.optimism)
    with_clicks = clicked_queries(held_out)
    counts = {"test": len(test), "cross_fitted": len(cross_fitted), "clicked": len(with_clicks)}
    keys = {one.query_key for one in with_clicks}
    pairs = [(one, head) for one, head in queries if one.query_key in keys]
    of_clicks = compare_clicks(generation, champion, pairs, clicks.examination.curve)
    if of_clicks is None:
        return HeldOut(comparisons, counts)
    lowered = of_clicks.lowered(share * selection.overestimated_share * max(0.0, of_clicks.difference))
    newest = newest_shown([*learn, *test])
    new = tuple(never_shown(run, with_clicks, newest) for run in runs)
    return HeldOut(comparisons | {CLICKS: lowered}, counts, (new[0], new[1]))


def _cross_fitted(
    champion: AttentionHead,
    challenger: AttentionHead,
    selection: Selection,
    learn: Sequence[Feedback],
    config: FitConfig,
) -> list[tuple[Feedback, AttentionHead]]:
    """Return training queries for the comparison, each with the head of the fold that left it out.

    There are none unless the champion is untrained, so that it has learned from no query, and every fold validated
    once.
    """
    changed = selection.recipe.weights or challenger.hops
    if not changed or len(selection.trials) <= 1 or not is_untrained(champion):
        return []
    known = [(one, selection.head_for(one.query_key)) for one in learn]
    return sample([(one, head) for one, head in known if head is not None], MAX_CROSS_FITTED, config.seed)


def is_untrained(head: AttentionHead) -> bool:
    """Return whether a head gives the same rankings as its initial parameters.

    Its random directions are not compared: initially they are multiplied by 0, and earlier releases used other
    directions. The null slot changes no ranking. Logarithms may differ in their last bit.
    """
    initial = initial_parameters(head.config)
    other = initial_parameters(replace(head.config, seed=head.config.seed + 1))
    values = head.parameters_by_name()
    same_for_all_seeds = [
        name for name, value in initial.items() if name != "null" and np.array_equal(value, other[name])
    ]
    return all(np.allclose(values[name], initial[name], rtol=1e-6, atol=0) for name in same_for_all_seeds)


def ranked_rows(generation: Generation, head: AttentionHead, one: Feedback) -> list[str]:
    """Return the rows of the candidates of a query, best first: a full search without the query's own memory."""
    ranking = search(generation, head, Query(one.text, one.vector, excluded_query=one.query_key))
    return [str(row) for row in generation.rows[ranking.doc_indices].tolist()]


def _among_shown(run: Mapping[str, list[str]], queries: Sequence[Feedback]) -> dict[str, list[str]]:
    """Return the first hundred documents of each query; for a query with clicks, of the documents that were shown.

    A document that was never shown could not be clicked; to count it as irrelevant would favour the model that made the
    lists (condensed lists, Sakai 2007).
    """
    return {
        one.query_key: [row for row in run[one.query_key] if one.shown is None or int(row) in one.shown][:100]
        for one in queries
    }


def sample(items: Sequence[Any], most: int, seed: int) -> list[Any]:
    """Return a random sample without replacement of at most `most` items, in their original order."""
    if len(items) <= most:
        return list(items)
    chosen = np.sort(np.random.default_rng(seed).choice(len(items), most, replace=False))
    return [items[i] for i in chosen]


def _cross_searched(generation: Generation, selection: Selection, queries: Sequence[Feedback]) -> dict[str, list[str]]:
    """Return the run of queries, each searched by the head of the fold that left it out."""
    run = {}
    for one in queries:
        head = selection.head_for(one.query_key)
        assert head is not None
        run[one.query_key] = ranked_rows(generation, head, one)
    return _among_shown(run, queries)


def _mean(values: Mapping[str, float]) -> float:
    return float(np.mean(list(values.values()))) if values else 0.0
