"""The choice of the number of trees of a head, on queries that neither the head nor the trees were fitted to.

The trees are fitted to cross-fitted logits: the logits of each fold come from the head that did not train on it. With a
single validation fold, they are fitted to the logits of the training queries.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.evaluation.measures import measure_run
from index.generation.generation import Generation
from index.learning.boosting import Scored, boost
from index.learning.click_likelihood import CLICKS, ClickTable, click_counts
from index.learning.config import FitConfig, Step
from index.learning.examples import Example, fold_of, log_propensity
from index.learning.model_selection import NDCG, ClickInterpretations, Selection
from index.learning.optimism import Counts, Gains, beats, once, optimism
from index.ranking.attention import AttentionHead
from index.ranking.trees import Trees, no_trees
from index.records import Floats

MIN_QUERIES = 40
"""Least number of queries with a confirmed document that trees are fitted to."""
Doubles = NDArray[np.float64]
Measures = Mapping[int, Doubles]
"""Rounds of boosting -> nDCG@10 (queries,)."""


@dataclass(frozen=True)
class TreeChoice:
    """The trees of the final head, the trees of the heads of cross-validation by fold, and the measures."""

    trees: Trees
    by_fold: Mapping[int, Trees]
    tried: Measures
    rounds: int
    """The chosen rounds of boosting, a key of `tried`; a round without a split makes no tree."""
    optimism: Mapping[str, float]
    """Measure -> the overestimate of the gain, which comes from the choice on the same queries."""

    def applied(self, selection: Selection) -> Selection:
        """Return the selection whose heads have the trees that were not fitted to their fold."""
        if not self.rounds:
            return selection
        return selection.with_heads(
            {fold: one.head.grown(self.by_fold[fold]) for fold, one in selection.trials.items()}
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the choice for a training record."""
        tried = {str(count): round(float(values.mean()), 4) for count, values in self.tried.items()}
        return {"chosen": self.rounds, "validation_ndcg": tried, "optimism": round(self.optimism.get(NDCG, 0.0), 5)}


NO_TREES = TreeChoice(no_trees(), {}, {}, 0, {})


def select_trees(
    generation: Generation, selection: Selection, interpretations: ClickInterpretations, config: FitConfig
) -> Generator[Step, None, TreeChoice]:
    """Return the chosen trees: none, unless they beat the head without them as a richer recipe must.

    They are fitted to the judgment-like examples of the training queries. There are no trees for interpretations of
    clicks without such examples, or with fewer than MIN_QUERIES examples.
    """
    examples = interpretations.examples["graded"]
    graded = "graded" in selection.recipe.readings
    if not config.trees or not graded or len(examples) < MIN_QUERIES or not selection.trials:
        return NO_TREES
    groups = _groups(selection)
    parts = yield from _scored(generation, groups, examples)
    most, fitted = max(config.trees), []
    tried: dict[int, list[tuple[Doubles, Doubles]]] = {count: [] for count in (0, *config.trees)}
    for at, (inside, scored) in enumerate(parts[: len(groups)]):
        others = Scored.union([part for other, (_, part) in enumerate(parts) if other != at])
        fitted.append(boost(others, most, config.seed))
        for count, values in tried.items():
            values.append(_measured(generation, inside, scored, fitted[-1].first(count), interpretations))
        yield Step("trees", len(groups) + at + 1, 2 * len(groups) + 1)
    measures, clicks = (
        {count: np.concatenate([both[at] for both in values]) for count, values in tried.items()} for at in (0, 1)
    )
    count = sorted(measures)[_chosen(measures, once(len(measures[0])), config)[0]]
    final = fitted[0]
    if count and len(groups) > 1:
        final = boost(Scored.union([part for _, part in parts]), most, config.seed)
    by_fold = {fold: own.first(count) for (folds, _), own in zip(groups, fitted, strict=True) for fold in folds}
    overestimate = _optimism(measures, clicks, count, config)
    return TreeChoice(final.first(count), by_fold, measures, count, overestimate)


def _scored(
    generation: Generation, groups: Sequence[tuple[frozenset[int], AttentionHead]], examples: Sequence[Example]
) -> Generator[Step, None, list[tuple[list[Example], Scored]]]:
    """Return the examples of each group with their logits by its head; with a single group also the other examples."""
    parts = []
    for done, (folds, head) in enumerate(groups):
        inside = [one for one in examples if fold_of(one.feedback.query_key) in folds]
        parts.append((inside, Scored.of(generation, head, inside)))
        yield Step("trees", done + 1, 2 * len(groups) + 1)
    if len(groups) == 1:
        folds, head = groups[0]
        rest = [one for one in examples if fold_of(one.feedback.query_key) not in folds]
        parts.append((rest, Scored.of(generation, head, rest)))
    return parts


def _groups(selection: Selection) -> list[tuple[frozenset[int], AttentionHead]]:
    """Return the folds that each trial of cross-validation left out, and its head."""
    heads = {id(trial): trial.head for trial in selection.trials.values()}
    return [
        (frozenset(fold for fold, trial in selection.trials.items() if id(trial) == known), head)
        for known, head in heads.items()
    ]


def _measured(
    generation: Generation,
    examples: Sequence[Example],
    scored: Scored,
    trees: Trees,
    interpretations: ClickInterpretations,
) -> tuple[Doubles, Doubles]:
    """Return nDCG@10 and the log likelihood per click (queries,), by query key; NaN for queries without clicks.

    nDCG@10 is over the candidates of each example; with clicks, over those that a list showed.
    """
    logits = scored.logits + (trees(scored.features) if len(trees) else 0)
    run: dict[str, list[str]] = {}
    shown: dict[str, Floats] = {}
    clicks: dict[str, tuple[Floats, Doubles]] = {}
    for example, own in zip(examples, np.split(logits, np.cumsum(scored.counts)[:-1]), strict=True):
        query = example.feedback.query_key
        order = np.argsort(-own, kind="stable")
        rows = generation.rows[example.candidates.doc_indices[order]]
        clicked = interpretations.clicked.get(query)
        if clicked is not None:
            known = np.asarray([row in (clicked.shown or {}) for row in rows.tolist()], np.bool_)
            order, rows = order[known], rows[known]
            counts = click_counts(clicked, rows.tolist())
            if counts.any():
                clicks[query] = log_propensity(clicked.shown, interpretations.curve, rows), counts
                shown[query] = own[order]
        run[query] = [str(row) for row in rows[:10].tolist()]
    qrels = {query: interpretations.qrels[query] for query in run}
    ndcg = measure_run(run, qrels, [NDCG])[NDCG]
    likelihood = ClickTable.of(clicks).likelihoods(shown)
    return _by_query(ndcg, sorted(ndcg)), _by_query(likelihood, sorted(ndcg))


def _by_query(measured: Mapping[str, float], queries: Sequence[str]) -> Doubles:
    return np.asarray([measured.get(query, np.nan) for query in queries], np.float64)


def _chosen(measures: Measures, counts: Counts, config: FitConfig) -> NDArray[np.int64]:
    """Return for each sample the place of the chosen number of trees: each more must beat the number chosen before."""
    values = np.stack([measures[count] for count in sorted(measures)])
    chosen = np.zeros(len(counts), np.int64)
    for at in range(1, len(values)):
        chosen = np.where(beats(values[at] - values[chosen], counts, config.error_share), at, chosen)
    return chosen


def _optimism(measures: Measures, clicks: Measures, chosen: int, config: FitConfig) -> dict[str, float]:
    """Return measure -> the overestimate of its gain by a choice that `measures` decide."""
    numbers = sorted(measures)
    gains = {
        name: np.stack([of[count] - of[0] for count in numbers]) for name, of in ((NDCG, measures), (CLICKS, clicks))
    }
    if not chosen:
        return dict.fromkeys(gains, 0.0)

    def repeated(counts: Counts) -> Gains:
        selected = _chosen(measures, counts, config)
        return {name: gain[selected] for name, gain in gains.items()}

    at = numbers.index(chosen)
    return optimism({name: gain[at] for name, gain in gains.items()}, repeated, config.seed)
