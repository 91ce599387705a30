"""The selection of a run's recipe: trials validated on held-out queries, within a cost budget.

Recipes are tried from the simplest to the richest. A recipe must be better than the selected simpler recipe by a share
of the standard error of its gain (after Breiman et al. 1984). Little data therefore changes little or nothing.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from index.evaluation.measures import Qrels
from index.generation.generation import Generation
from index.learning.config import FitConfig, Recipe, Step
from index.learning.examples import Example, fold_of
from index.learning.trainer import TrainingSplit, Trial, run_trial
from index.learning.trial_cache import TrialCache
from index.ranking.attention import AttentionHead, HeadConfig
from index.records import Floats

RECIPES = (Recipe("initial", weights=False), Recipe("weights"), Recipe("projection", query_projection=True))
"""From the simplest to the richest."""
VARIANTS: tuple[Mapping[str, float], ...] = (
    {"learning_rate": 2e-3},
    {"learning_rate": 5e-4},
    {"rank": 32},
    {"rank": 8},
    {"decay": 1.0},
)
"""Changes that are tried after a recipe with a query projection was selected, while half of the cost budget is left."""
COST = {False: 1e-4, True: 1.1e-3}
"""Nominal seconds per example and epoch, without and with a query projection: roughly the time of one core."""
BOOTSTRAPS = 500
"""Bootstrap samples for the estimate of the optimism."""

Values = dict[str, float]


@dataclass(frozen=True)
class ClickInterpretations:
    """The examples of all training queries per interpretation, the grades for validation, and the examination curve."""

    examples: Mapping[str, Sequence[Example]]
    qrels: Qrels
    curve: Floats | None


@dataclass(frozen=True)
class Selection:
    """The selected recipe, its trial per fold, and the mean of every recipe over the validation queries."""

    recipe: Recipe
    trials: Mapping[int, Trial]
    validation: Mapping[str, float]
    queries: int
    optimism: float
    """Overestimate of the selected recipe's nDCG@10, which comes from the selection on the same queries."""
    skipped: tuple[str, ...]
    """Recipes that exceeded the cost budget."""

    @property
    def epochs(self) -> int:
        """The median number of epochs over the folds, 0 without trials."""
        return round(float(np.median([trial.epochs for trial in self.trials.values()]))) if self.trials else 0

    def head_for(self, query_key: str) -> AttentionHead | None:
        """Return the head of the fold that did not train on this query, or None if there is none."""
        trial = self.trials.get(fold_of(query_key))
        return trial.head if trial else None

    def with_hop(self, hop: float) -> "Selection":
        """Return the selection with g of the second hop set to `hop` in all heads."""
        changed = {fold: replace(one, head=one.head.changed(hop=hop)) for fold, one in self.trials.items()}
        return replace(self, trials=changed)

    def as_dict(self) -> dict[str, Any]:
        """Return the selection for a training record. `reading` is the interpretation of clicks."""
        return {
            "recipe": self.recipe.name,
            "learning_rate": self.recipe.learning_rate,
            "rank": self.recipe.rank,
            "decay": self.recipe.decay,
            "reading": self.recipe.interpretation,
            "epochs": self.epochs,
            "validation_ndcg": {name: round(mean, 4) for name, mean in self.validation.items()},
            "validation_queries": self.queries,
            "optimism": round(self.optimism, 5),
            "skipped": list(self.skipped),
        }


@dataclass
class _RecipeSearch:
    """The state of a selection: its finished trials, the cost budget left, and the skipped recipes."""

    generation: Generation
    interpretations: ClickInterpretations
    initial: HeadConfig
    config: FitConfig
    cache: TrialCache
    groups: Sequence[frozenset[int]]
    left: float
    made: dict[Recipe, dict[int, Trial]] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    def attempt(self, recipe: Recipe) -> Generator[Step, None, bool]:
        """Run the trials of a recipe on all folds, if the cost budget allows it; return whether they ran."""
        cost = self._cost(recipe)
        if cost > self.left:
            self.skip(recipe)
            return False
        self.left -= cost
        trials: dict[int, Trial] = {}
        for group in self.groups:
            data = self._split(recipe.interpretation, group)
            if not data.train or not data.validation:
                continue
            name = f"{recipe} without folds {sorted(group)}"
            work = partial(run_trial, self.generation, data, self.initial, recipe, self.config.epochs, self.config)
            trial = yield from self.cache.trial(name, replace(self.initial, rank=recipe.rank), work)
            trials |= dict.fromkeys(group, trial)
        self.made[recipe] = trials
        return True

    def skip(self, recipe: Recipe) -> None:
        """Record that a recipe exceeds the cost budget."""
        self.skipped.append(label(recipe, self.initial.rank))

    def values(self, recipe: Recipe) -> Values:
        """Return query key -> nDCG@10 of the head that did not train on the query."""
        return {query: value for trial in self.made[recipe].values() for query, value in trial.measured.items()}

    def better(self, richer: Recipe, simpler: Recipe) -> bool:
        """Return whether the richer recipe beats the simpler one by a share of the standard error of its gain."""
        gains = _gains(self.values(simpler), self.values(richer))
        return beats(gains, self.config.error_share)

    def _cost(self, recipe: Recipe) -> float:
        """Return the nominal seconds of a recipe's trials on all folds."""
        if not recipe.weights:
            return 0.0
        examples = len(self.interpretations.examples[recipe.interpretation])
        return COST[recipe.query_projection] * examples * self.config.epochs * len(self.groups)

    def _split(self, interpretation: str, group: frozenset[int]) -> TrainingSplit:
        """Return the training split of a fold. All interpretations are validated on clicks among all shown documents.

        A document that was never shown could not be clicked; to count it as irrelevant would favour the model that made
        the lists. A document that the naive interpretation leaves out was not clicked; without it, validation would
        overestimate any head.
        """
        shown = self.interpretations.examples.get("debiased", self.interpretations.examples["graded"])
        train = [one for one in self.interpretations.examples[interpretation] if _fold(one) not in group]
        validation = [one for one in shown if _fold(one) in group]
        return TrainingSplit(train, validation, self.interpretations.qrels, self.interpretations.curve, min(group))


def select(
    generation: Generation,
    interpretations: ClickInterpretations,
    initial: HeadConfig,
    config: FitConfig,
    cache: TrialCache,
) -> Generator[Step, None, Selection]:
    """Return the recipe selected by cross-validation, or by validation on one fold if there are enough queries."""
    groups = _groups(interpretations.examples["graded"], config)
    search = _RecipeSearch(generation, interpretations, initial, config, cache, groups, config.cost_budget)
    tried = {RECIPES[0].name, *config.recipes}
    first, *others = [one for one in config.interpretations if one in interpretations.examples] or ["graded"]
    recipes = [replace(one, rank=initial.rank, interpretation=first) for one in RECIPES if one.name in tried]
    selected = yield from _climb(search, recipes, recipes[0])
    for interpretation in others:
        if not selected.weights:  # another interpretation may prove a gain where the first did not
            again = [replace(recipe, interpretation=interpretation) for recipe in recipes[1:]]
            selected = yield from _climb(search, again, selected)
    climbed = list(search.made)
    optimism = _optimism([search.values(recipe) for recipe in climbed], climbed.index(selected), config)
    selected = yield from _try_variants(search, selected)
    selected = yield from _try_interpretations(search, selected, others)
    values = {label(recipe, initial.rank): list(search.values(recipe).values()) for recipe in search.made}
    means = {name: float(np.mean(measured)) if measured else 0.0 for name, measured in values.items()}
    queries = len(search.values(recipes[0]))
    return Selection(selected, search.made[selected], means, queries, optimism, tuple(search.skipped))


def _groups(examples: Sequence[Example], config: FitConfig) -> list[frozenset[int]]:
    """Return the groups of folds; each group is the validation set of one trial."""
    folds = sorted({_fold(one) for one in examples})
    if folds and len(examples) >= config.cross_validation_queries:
        return [frozenset(folds[:1])]
    return [frozenset(folds[first :: config.folds]) for first in range(min(config.folds, len(folds)))]


def _climb(search: _RecipeSearch, recipes: Sequence[Recipe], selected: Recipe) -> Generator[Step, None, Recipe]:
    """Try recipes in order and return the selected one: each must be better than the recipe selected before it."""
    for recipe in recipes:
        made = yield from search.attempt(recipe)
        if made and search.better(recipe, selected):
            selected = recipe
    return selected


def _try_variants(search: _RecipeSearch, selected: Recipe) -> Generator[Step, None, Recipe]:
    """Try VARIANTS of a recipe with a query projection, while half of the cost budget is left; return the best."""
    for change in VARIANTS if selected.query_projection else ():
        variant = replace(selected, **change)  # type: ignore[arg-type]
        if variant in search.made:
            continue
        if search.left < search.config.cost_budget / 2:
            search.skip(variant)
            continue
        made = yield from search.attempt(variant)
        if made and search.better(variant, selected):
            selected = variant
    return selected


def _try_interpretations(
    search: _RecipeSearch, selected: Recipe, others: Sequence[str]
) -> Generator[Step, None, Recipe]:
    """Return the selected recipe with the interpretation of clicks that has the best mean."""
    for interpretation in others if selected.weights else ():
        other = replace(selected, interpretation=interpretation)
        if other in search.made:
            continue
        made = yield from search.attempt(other)
        if made and float(np.mean(_gains(search.values(selected), search.values(other)))) > 0:
            selected = other
    return selected


def label(recipe: Recipe, rank: int) -> str:
    """Return a recipe's name with its non-default settings; rank is the default rank."""
    defaults = {"learning_rate": Recipe.learning_rate, "decay": Recipe.decay, "rank": rank}
    changed = [f"{key} {getattr(recipe, key):g}" for key, value in defaults.items() if getattr(recipe, key) != value]
    interpretation = [recipe.interpretation] if recipe.interpretation != Recipe.interpretation else []
    return ", ".join([recipe.name, *changed, *interpretation])


def beats(gains: Floats, error_share: float) -> bool:
    """Return whether the mean of the gains (queries,) is above a share of its standard error."""
    return len(gains) > 1 and bool(gains.mean() > error_share * gains.std(ddof=1) / len(gains) ** 0.5)


def _fold(example: Example) -> int:
    return fold_of(example.feedback.query_key)


def _gains(before: Values, after: Values) -> Floats:
    return np.asarray([after[query] - before[query] for query in sorted(before) if query in after], np.float64)


def _optimism(values: Sequence[Values], selected: int, config: FitConfig) -> float:
    """Return the overestimate, >= 0, of the selected recipe's gain that comes from selecting on the same queries.

    Bootstrap bias corrected cross-validation (Tsamardinos et al. 2018): the selection is repeated on each bootstrap
    sample of queries, and the recipe that it selects is measured on the queries left out. No trial is repeated.
    """
    queries = sorted(set(values[0]).intersection(*values))
    table = np.asarray([[measured[query] for query in queries] for measured in values]).reshape(len(values), -1)
    if table.shape[1] < 2 or len(values) < 2:
        return 0.0
    random = np.random.default_rng(config.seed)
    outside = []
    for _ in range(BOOTSTRAPS):
        inside = random.integers(table.shape[1], size=table.shape[1])
        left_out = np.setdiff1d(np.arange(table.shape[1]), inside)
        best = 0
        for recipe in range(1, len(table)):
            if beats(table[recipe, inside] - table[best, inside], config.error_share):
                best = recipe
        if len(left_out):
            outside.append(float((table[best, left_out] - table[0, left_out]).mean()))
    measured_gain = float((table[selected] - table[0]).mean())
    return max(0.0, measured_gain - float(np.mean(outside))) if outside else 0.0
