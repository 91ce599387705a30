"""Evaluation on held-out queries: the selection of the second hop, and the comparison of two heads."""

from collections.abc import Collection, Generator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.evaluation.measures import Qrels, measure_run
from index.evaluation.significance import Comparison, Decision, compare, gate
from index.generation.generation import Generation
from index.learning.click_likelihood import (
    CLICKS,
    Clicked,
    clicked,
    clicked_pairs,
    clicked_queries,
    compare_clicks,
    heavy_clients,
    likelihoods,
    never_shown,
    shares_of_clients,
    without_client,
)
from index.learning.click_model import ClickModel, Examination, among_shown, held_out_qrels
from index.learning.clicked_ranks import RANKS, rank_measures
from index.learning.config import FitConfig, Step
from index.learning.examples import Feedback
from index.learning.held_out_attention import most_changed
from index.learning.judgment_likelihood import JUDGMENTS, ScoredRows, judgment_likelihoods
from index.learning.model_selection import NDCG, Selection
from index.learning.optimism import Counts, Gains, beats, means, once, optimism, regression_slope
from index.learning.prior_selection import PriorChoice
from index.learning.tree_selection import TreeChoice
from index.ranking.attention import AttentionHead, initial_parameters
from index.ranking.search import search
from index.records import Floats

HOP_QUERIES = 120
"""Maximum number of queries to select the second hop on."""
FULL_RECALL = 0.99
"""Recall@100 above which larger hops are not tried."""
MEASURED = 100
"""Documents of a query that are measured: Recall@100 reads the most."""
MAX_CROSS_FITTED = 1_500
"""Maximum number of training queries in the comparison, each searched by the head of the fold that left it out."""


@dataclass(frozen=True)
class HeldOut:
    """The comparison of champion and challenger: by measure, the counts of queries, and the documents never shown.

    comparisons: JUDGMENTS is among them only where the judgments decide. judged: the comparison of nDCG@10 on the
    queries without logged lists, which have judgments, or events without a list; None without them, or without clicks.
    never_shown: for champion and challenger, the mean share of the first ten documents of clicked queries that no list
    showed; None without clicks.
    """

    comparisons: dict[str, Comparison]
    counts: dict[str, int]
    never_shown: tuple[float, float] | None = None
    judged: Comparison | None = None
    most_changed: Sequence[Feedback] = ()
    """The test queries whose ranking the challenger changes most (`index.learning.held_out_attention`)."""

    def decide(self, earlier: int = 0) -> Decision:
        """Return the decision of the gate, on clicks if most held-out queries have clicks, else on judgments.

        earlier: the number of decisions against the same champion before this one.
        """
        recall = self.comparisons["R@100"]
        if not clicks_decide(self.comparisons):
            judgments = self.comparisons[JUDGMENTS], self.comparisons[NDCG]
            return gate(judgments, recall, ndcg=self.judged, earlier=earlier)
        clicks = self.comparisons[CLICKS], self.comparisons[RANKS]
        return gate(None, recall, clicks, self.judged, self.never_shown, earlier)


def clicks_decide(comparisons: Mapping[str, Comparison]) -> bool:
    """Return whether the gate decides on clicks: at least half of the held-out queries have clicks."""
    return CLICKS in comparisons and 2 * comparisons[CLICKS].queries >= comparisons[NDCG].queries


HopMeasures = Mapping[str, NDArray[np.float64]]
"""Measure -> its values (queries,) with one g."""


@dataclass(frozen=True)
class HopChoice:
    """The selected g of the second hop, and the measures of every g that was tried.

    chosen: None for a recipe that trained g itself.
    """

    chosen: float | None
    queries: int
    tried: Mapping[float, HopMeasures]
    optimism: Mapping[str, float]
    """Measure -> its overestimate, which comes from the selection on the same queries."""

    def applied(self, selection: Selection) -> Selection:
        """Return the selection whose heads have the selected g."""
        return selection if self.chosen is None else selection.with_hop(self.chosen)

    def as_dict(self) -> dict[str, Any]:
        """Return the choice for a training record."""
        tried = {
            f"{hop:g}": {
                name: round(_mean(values), 4) for name, values in measures.items() if not np.isnan(values).all()
            }
            for hop, measures in self.tried.items()
        }
        optimism = {name: round(value, 5) for name, value in self.optimism.items()}
        return {"chosen": self.chosen, "queries": self.queries, "tried": tried, "optimism": optimism}


@dataclass(frozen=True)
class Choices:
    """All choices that were made on the queries of cross-validation."""

    selection: Selection
    hop: HopChoice
    trees: TreeChoice
    priors: PriorChoice

    @property
    def applied(self) -> Selection:
        """The selection whose heads have the second hop, the trees and the priors."""
        return self.priors.applied(self.trees.applied(self.hop.applied(self.selection)))

    def optimism(self, measure: str, slope: float = 0.0) -> float:
        """Return the overestimate of a measure's gain on these queries.

        A choice that does not measure it decides by nDCG@10. It overestimates the measure by its overestimate of
        nDCG@10 times the slope of the regression of the gain of a query on its gain in nDCG@10.
        """
        choices = (self.selection, self.hop, self.trees, self.priors)
        return sum(one.optimism.get(measure, slope * one.optimism.get(NDCG, 0.0)) for one in choices)


def select_hop(
    generation: Generation, selection: Selection, learn: Sequence[Feedback], clicks: ClickModel, config: FitConfig
) -> Generator[Step, None, HopChoice]:
    """Return the selected g of the second hop with its measures.

    Each query is searched by the head of the fold that left it out. Once a g lowers nDCG@10, no larger one is tried.
    Nothing is tried for a recipe that trained g itself.
    """
    if selection.recipe.values:
        return HopChoice(None, 0, {}, {})
    known = [one for one in learn if selection.head_for(one.query_key) is not None]
    queries = sample(known, HOP_QUERIES, config.seed)
    qrels = held_out_qrels(queries, clicks)
    tried: dict[float, HopMeasures] = {}
    for hop in (0.0, *config.hops):
        tried[hop] = _hop_measures(generation, selection.with_hop(hop), queries, qrels, clicks.examination.curve)
        yield Step("hop", len(tried), 1 + len(config.hops))
        chosen, ended = _chosen_hop(tried, config)
        if ended:
            break
    return HopChoice(chosen, len(queries), tried, _hop_optimism(tried, chosen, config))


def _hop_measures(
    generation: Generation, selection: Selection, queries: Sequence[Feedback], qrels: Qrels, curve: Floats
) -> HopMeasures:
    """Return the measures (queries,) of the heads of a selection, by query key; NaN without clicks in CLICKS."""
    found = measure_run(_cross_searched(generation, selection, queries), qrels)
    measures = {name: np.asarray([values[key] for key in sorted(values)]) for name, values in found.items()}
    clicks = {
        one.query_key: own
        for one in clicked_queries(queries)
        if (head := selection.head_for(one.query_key)) and (own := clicked(generation, head, one, curve))
    }
    likelihood = likelihoods(clicks)
    keys = sorted(next(iter(found.values())))
    return measures | {CLICKS: np.asarray([likelihood.get(key, np.nan) for key in keys], np.float64)}


def _chosen_hop(tried: Mapping[float, HopMeasures], config: FitConfig) -> tuple[float, bool]:
    """Return the selected g, and whether larger ones need not be tried: they lose more, or have nothing to gain."""
    chosen, ended = _chosen_hops(tried, once(len(tried[0.0]["R@100"])), config)
    return list(tried)[chosen[0]], bool(ended[0])


def _chosen_hops(
    tried: Mapping[float, HopMeasures], counts: Counts, config: FitConfig
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return for each sample the place of the selected g among those tried, and whether larger ones need not be tried.

    g is 0 unless held-out Recall@100 rises by more than a share of its standard error and nDCG@10 does not fall.
    """
    recall = np.stack([of["R@100"] for of in tried.values()])
    ndcg = np.stack([means(of["nDCG@10"], counts) for of in tried.values()])
    samples = np.arange(len(counts))
    chosen, ended = np.zeros_like(samples), means(recall[0], counts) >= FULL_RECALL
    for at in range(1, len(tried)):
        ended |= ndcg[at] < ndcg[chosen, samples]
        better = beats(recall[at] - recall[chosen], counts, config.error_share)
        chosen = np.where(better & ~ended, at, chosen)
    return chosen, ended


def _hop_optimism(tried: Mapping[float, HopMeasures], chosen: float, config: FitConfig) -> dict[str, float]:
    """Return measure -> the overestimate of the gain of the selected g over g = 0."""
    gains = {name: np.stack([of[name] - before for of in tried.values()]) for name, before in tried[0.0].items()}
    if len(tried) < 2:
        return dict.fromkeys(gains, 0.0)

    def repeated(counts: Counts) -> Gains:
        selected, _ = _chosen_hops(tried, counts, config)
        return {name: gain[selected] for name, gain in gains.items()}

    at = list(tried).index(chosen)
    return optimism({name: gain[at] for name, gain in gains.items()}, repeated, config.seed)


def compare_heads(
    generation: Generation,
    champion: AttentionHead,
    challenger: AttentionHead,
    choices: Choices,
    learn: Sequence[Feedback],
    test: Sequence[Feedback],
    clicks: ClickModel,
    config: FitConfig,
    new: Set[int],
) -> Generator[Step, None, HeldOut]:
    """Return the paired comparison on full searches by heads that did not train on the query, and the query counts.

    The challenger searches the test queries. Cross-fitted training queries are added (`_cross_fitted`), so that few
    queries suffice to prove a gain; for them, the overestimates from all choices are subtracted. new: as in
    `never_shown`.
    """
    test = sample(test, config.max_test_queries, config.seed)
    cross_fitted = _cross_fitted(champion, challenger, choices, learn, config)
    queries = [*((one, challenger) for one in test), *cross_fitted]
    found: tuple[dict[str, ScoredRows], dict[str, ScoredRows]] = ({}, {})
    for done, (one, head) in enumerate(queries):
        found[0][one.query_key] = ranked(generation, champion, one)
        found[1][one.query_key] = ranked(generation, head, one)
        if done % 50 == 0:
            yield Step("evaluate", done, len(queries))
    held_out = [one for one, _ in queries]
    qrels = held_out_qrels(held_out, clicks)
    runs = [{key: one.rows for key, one in side.items()} for side in found]
    before, after = (measure_run(among_shown(run, held_out, MEASURED), qrels) for run in runs)
    chosen_on = {one.query_key for one, _ in cross_fitted}

    def share(keys: Collection[str]) -> float:
        return sum(key in chosen_on for key in keys) / max(1, len(keys))

    def compared(measure: str, keys: Collection[str]) -> Comparison:
        values = ({key: of[measure][key] for key in keys} for of in (before, after))
        return compare(measure, *values).lowered(share(keys) * choices.optimism(measure))

    comparisons = {measure: compared(measure, before[measure]) for measure in before}
    with_clicks = clicked_queries(held_out)
    counts = {"test": len(test), "cross_fitted": len(cross_fitted), "clicked": len(with_clicks)}
    gains = _gains(before[NDCG], after[NDCG])
    of_clicks = _compare_clicks(generation, champion, queries, chosen_on, choices, clicks.examination, gains)
    if not clicks_decide(comparisons | of_clicks):
        sides = [{one.query_key: of[one.query_key].among(one.shown) for one in held_out} for of in found]
        left, right = judgment_likelihoods(sides[0], sides[1], qrels)
        overestimate = choices.optimism(JUDGMENTS, regression_slope(gains, _gains(left, right)))
        comparisons[JUDGMENTS] = compare(JUDGMENTS, left, right).lowered(share(left) * overestimate)
    changed = most_changed(test, *runs)
    if not of_clicks:
        return HeldOut(comparisons, counts, most_changed=changed)
    shares = never_shown(runs[0], with_clicks, new), never_shown(runs[1], with_clicks, new)
    judged = [one.query_key for one in held_out if one.shown is None]
    of_judged = compared(NDCG, judged) if judged else None
    return HeldOut(comparisons | of_clicks, counts, shares, of_judged, changed)


def _compare_clicks(
    generation: Generation,
    champion: AttentionHead,
    queries: Sequence[tuple[Feedback, AttentionHead]],
    chosen_on: Set[str],
    choices: Choices,
    examination: Examination,
    gains: Mapping[str, float],
) -> dict[str, Comparison]:
    """Return the comparisons of the likelihoods and of the ranks of clicks; none for fewer than two queries with them.

    chosen_on: the keys of the cross-fitted queries. The overestimate from all choices is subtracted from their share
    among the queries with clicks. gains: query key -> gain in nDCG@10. Of the comparisons with the estimated curve and
    with a flatter one, the less favourable counts. Each is made again without each of the `heavy_clients`.
    """
    keys = {one.query_key for one in clicked_queries([one for one, _ in queries])}
    pairs = [(one, head) for one, head in queries if one.query_key in keys]
    before, after = clicked_pairs(generation, champion, pairs, examination.curve)
    if len(before) < 2:
        return {}
    share = len(keys & chosen_on) / len(pairs)
    clients = shares_of_clients(before)
    found: dict[str, Comparison] = {}
    without_one: dict[str, Comparison] = {}
    for curve in (examination.curve, examination.flatter):
        sides = [{key: one.under(curve) for key, one in side.items()} for side in (before, after)]
        by_ranks = rank_measures(*sides)
        slope = min(1.0, regression_slope(gains, _gains(*by_ranks)))
        overestimates = {CLICKS: share * choices.optimism(CLICKS), RANKS: share * choices.optimism(RANKS, slope)}
        for client in heavy_clients(clients):
            left = [without_client(side, client) for side in sides]
            for measure, one in _compared(left, rank_measures(*left), overestimates).items():
                without_one[measure] = max(without_one.get(measure, one), one, key=lambda each: each.doubt)
        for measure, one in _compared(sides, by_ranks, overestimates).items():
            found[measure] = min(found.get(measure, one), one, key=lambda each: each.ratio)
    count = len(clients) or None
    return {name: replace(one, clients=count, without_one=without_one.get(name)) for name, one in found.items()}


def _compared(
    sides: Sequence[Mapping[str, Clicked]],
    by_ranks: tuple[Mapping[str, float], Mapping[str, float]],
    overestimates: Mapping[str, float],
) -> dict[str, Comparison]:
    """Return the comparisons of the likelihoods and of the ranks of clicks, lowered by the overestimates."""
    both = compare_clicks(*sides), compare(RANKS, *by_ranks)
    return {one.measure: one.lowered(overestimates[one.measure]) for one in both}


def _gains(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Return query key -> gain."""
    return {key: after[key] - own for key, own in before.items()}


def _cross_fitted(
    champion: AttentionHead,
    challenger: AttentionHead,
    choices: Choices,
    learn: Sequence[Feedback],
    config: FitConfig,
) -> list[tuple[Feedback, AttentionHead]]:
    """Return training queries for the comparison, each with the head of the fold that left it out.

    With a single validation fold these are its queries. There are none unless the champion is untrained, so that it has
    learned from no query.
    """
    selection = choices.applied
    changed = selection.recipe.weights or challenger.hops or len(challenger.trees) or challenger.priors
    if not changed or not is_untrained(champion):
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


def ranked(generation: Generation, head: AttentionHead, one: Feedback) -> ScoredRows:
    """Return the candidates of a query, best first: a full search without the query's own memory."""
    ranking = search(generation, head, one.as_query())
    return ScoredRows([str(row) for row in generation.rows[ranking.doc_indices].tolist()], ranking.logits)


def ranked_rows(generation: Generation, head: AttentionHead, one: Feedback) -> list[str]:
    """Return the rows of the candidates of a query, best first."""
    return list(ranked(generation, head, one).rows)


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
    return among_shown(run, queries, MEASURED)


def _mean(values: NDArray[np.float64]) -> float:
    return float(np.nanmean(values)) if len(values) else 0.0
