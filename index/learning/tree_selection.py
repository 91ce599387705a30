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
from index.learning.config import FitConfig, Step
from index.learning.examples import Example, fold_of
from index.learning.model_selection import ClickInterpretations, Selection, beats
from index.learning.optimism import Counts, optimism
from index.ranking.attention import AttentionHead
from index.ranking.trees import Trees, no_trees

MIN_QUERIES = 40
"""Least number of queries with a confirmed document that trees are fitted to."""
Measures = Mapping[int, NDArray[np.float64]]
"""Rounds of boosting -> nDCG@10 (queries,)."""


@dataclass(frozen=True)
class TreeChoice:
    """The trees of the final head, the trees of the heads of cross-validation by fold, and the measures."""

    trees: Trees
    by_fold: Mapping[int, Trees]
    tried: Measures
    rounds: int
    """The chosen rounds of boosting, a key of `tried`; a round without a split makes no tree."""
    optimism: float
    """Overestimate of the gain in nDCG@10, which comes from the choice on the same queries."""

    @property
    def gain(self) -> float:
        """The gain in nDCG@10 over the head without trees, overestimate included."""
        return float((self.tried[self.rounds] - self.tried[0]).mean()) if self.rounds else 0.0

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
        return {"chosen": self.rounds, "validation_ndcg": tried, "optimism": round(self.optimism, 5)}


NO_TREES = TreeChoice(no_trees(), {}, {}, 0, 0.0)


def select_trees(
    generation: Generation, selection: Selection, interpretations: ClickInterpretations, config: FitConfig
) -> Generator[Step, None, TreeChoice]:
    """Return the chosen trees: none, unless they beat the head without them as a richer recipe must.

    They are fitted to the judgment-like examples of the training queries. There are no trees for other interpretations
    of clicks, or with fewer than MIN_QUERIES examples.
    """
    examples = interpretations.examples["graded"]
    graded = selection.recipe.interpretation == "graded"
    if not config.trees or not graded or len(examples) < MIN_QUERIES or not selection.trials:
        return NO_TREES
    groups = _groups(selection)
    parts = []
    for done, (folds, head) in enumerate(groups):
        inside = [one for one in examples if fold_of(one.feedback.query_key) in folds]
        parts.append((inside, Scored.of(generation, head, inside)))
        yield Step("trees", done + 1, 2 * len(groups) + 1)
    if len(groups) == 1:
        rest = [one for one in examples if fold_of(one.feedback.query_key) not in groups[0][0]]
        parts.append((rest, Scored.of(generation, groups[0][1], rest)))
    most, fitted = max(config.trees), []
    tried: dict[int, list[NDArray[np.float64]]] = {count: [] for count in (0, *config.trees)}
    for at, (inside, scored) in enumerate(parts[: len(groups)]):
        others = Scored.union([part for other, (_, part) in enumerate(parts) if other != at])
        fitted.append(boost(others, most, config.seed))
        for count, values in tried.items():
            values.append(_measured(generation, inside, scored, fitted[-1].first(count), interpretations))
        yield Step("trees", len(groups) + at + 1, 2 * len(groups) + 1)
    measures = {count: np.concatenate(values) for count, values in tried.items()}
    count = _chosen(measures, config)
    final = fitted[0]
    if count and len(groups) > 1:
        final = boost(Scored.union([part for _, part in parts]), most, config.seed)
    by_fold = {fold: own.first(count) for (folds, _), own in zip(groups, fitted, strict=True) for fold in folds}
    return TreeChoice(final.first(count), by_fold, measures, count, _optimism(measures, count, config))


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
) -> NDArray[np.float64]:
    """Return nDCG@10 (queries,) over the candidates of each example; with clicks, over those that a list showed."""
    logits = scored.logits + (trees(scored.features) if len(trees) else 0)
    shown = interpretations.shown
    run, ends = {}, np.cumsum(scored.counts)
    for example, own in zip(examples, np.split(logits, ends[:-1]), strict=True):
        query = example.feedback.query_key
        rows = generation.rows[example.candidates.doc_indices[np.argsort(-own, kind="stable")]].tolist()
        run[query] = [str(row) for row in rows if query not in shown or row in shown[query]][:10]
    known = {query: interpretations.qrels[query] for query in run}
    measured = measure_run(run, known, ["nDCG@10"])["nDCG@10"]
    return np.asarray([measured[query] for query in sorted(measured)])


def _chosen(measures: Measures, config: FitConfig) -> int:
    """Return the number of trees: each more must beat the number chosen before it."""
    chosen = 0
    for count in sorted(measures):
        if count and beats(measures[count] - measures[chosen], config.error_share):
            chosen = count
    return chosen


def _optimism(measures: Measures, chosen: int, config: FitConfig) -> float:
    def gains(counts: Counts) -> NDArray[np.float64]:
        inside = np.repeat(np.arange(len(counts)), counts)
        best = _chosen({count: values[inside] for count, values in measures.items()}, config)
        return measures[best] - measures[0]

    return optimism(measures[chosen] - measures[0], gains, config.seed) if chosen else 0.0
