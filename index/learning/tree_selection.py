"""The choice of the number of trees of a head, on queries that neither the head nor the trees were fitted to.

The trees are fitted to cross-fitted logits: the logits of each fold come from the head that did not train on it. With a
single validation fold, they are fitted to the logits of the training queries.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from index.generation.generation import Generation
from index.learning.boosting import Scored, boost
from index.learning.config import FitConfig, Step
from index.learning.examples import Example, fold_of
from index.learning.model_selection import NDCG, ClickInterpretations, Selection
from index.learning.optimism import once
from index.learning.ordered_choice import Doubles, choose, overestimate
from index.learning.validation_groups import MIN_QUERIES, groups_of, measure_logits, measures_of
from index.ranking.attention import AttentionHead
from index.ranking.trees import Trees, no_trees

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
    groups = groups_of(selection)
    parts = yield from _scored(generation, groups, examples)
    most, fitted = max(config.trees), []
    tried: dict[int, list[dict[str, Doubles]]] = {count: [] for count in (0, *config.trees)}
    for at, (inside, scored) in enumerate(parts[: len(groups)]):
        others = Scored.union([part for other, (_, part) in enumerate(parts) if other != at])
        fitted.append(boost(others, most, config.seed))
        without = np.split(scored.logits, np.cumsum(scored.counts)[:-1])
        for count, found in tried.items():
            trees = fitted[-1].first(count)
            logits = scored.logits + (trees(scored.features) if len(trees) else 0)
            own = np.split(logits, np.cumsum(scored.counts)[:-1])
            found.append(measure_logits(generation, inside, own, interpretations, without))
        yield Step("trees", len(groups) + at + 1, 2 * len(groups) + 1)
    numbers = sorted(tried)
    measures = measures_of([tried[count] for count in numbers])
    values = measures[NDCG]
    place = int(choose(values, once(len(values[0])), config.error_share)[0])
    count = numbers[place]
    final = fitted[0]
    if count and len(groups) > 1:
        final = boost(Scored.union([part for _, part in parts]), most, config.seed)
    by_fold = {fold: own.first(count) for (folds, _), own in zip(groups, fitted, strict=True) for fold in folds}
    optimism = overestimate(values, measures, place, config)
    return TreeChoice(final.first(count), by_fold, dict(zip(numbers, values, strict=True)), count, optimism)


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
