"""Which recipe a run uses: trials on queries that were not trained on, inside a budget, and what choosing flatters.

From the simplest recipe to the richest, each must be better than the best simpler one by a share of the standard error
of its gain (after Breiman et al. 1984). Little data therefore changes nothing, or little.
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
from index.learning.trial_cache import Journal
from index.ranking.attention import AttentionHead, HeadConfig
from index.records import Floats

RECIPES = (
    Recipe("birth", weights=False),
    Recipe("weights"),
    Recipe("gates", gates=True),
    Recipe("rank", query_projection=True),
    Recipe("full", gates=True, query_projection=True),
)
"""From the simplest to the richest."""
VARIANTS: tuple[Mapping[str, float], ...] = (
    {"learning_rate": 2e-3},
    {"learning_rate": 5e-4},
    {"rank": 32},
    {"rank": 8},
    {"decay": 1.0},
)
"""Changes that are tried, one after the other, where a turn was chosen and half of the budget is left."""
PRICE = {False: 1e-4, True: 1.1e-3}
"""Nominal seconds of an example in an epoch, without and with a turn: a price list, of the order of one core's time."""
BOOTSTRAPS = 500

Values = dict[str, float]


@dataclass(frozen=True)
class ClickInterpretations:
    """Examples of all queries to learn from, by how clicks are read; grades to validate by; the examination curve."""

    examples: Mapping[str, Sequence[Example]]
    qrels: Qrels
    curve: Floats | None


@dataclass(frozen=True)
class Selection:
    """The recipe chosen, its trial per fold, and every recipe's mean over the validation queries."""

    recipe: Recipe
    trials: Mapping[int, Trial]
    validation: Mapping[str, float]
    queries: int
    optimism: float
    """How much better the chosen one looks than it is, for having been chosen: in nDCG@10."""
    skipped: tuple[str, ...]
    """Recipes that the budget had no room for."""

    @property
    def epochs(self) -> int:
        """Epochs that the recipe takes: the median over the folds."""
        return round(float(np.median([trial.epochs for trial in self.trials.values()]))) if self.trials else 0

    def head_for(self, query_key: str) -> AttentionHead | None:
        """Return the head of the fold that did not train on this query, None where all did."""
        trial = self.trials.get(fold_of(query_key))
        return trial.head if trial else None

    def hopping(self, hop: float) -> "Selection":
        """Return the choice with this g of the second hop in every head."""
        changed = {fold: replace(one, head=one.head.changed(hop=hop)) for fold, one in self.trials.items()}
        return replace(self, trials=changed)

    def as_dict(self) -> dict[str, Any]:
        """Return what a training record says of it."""
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
    """The trials of one choice: those made, what may still be spent, what was left out."""

    generation: Generation
    interpretations: ClickInterpretations
    initial: HeadConfig
    config: FitConfig
    journal: Journal
    groups: Sequence[frozenset[int]]
    left: float
    made: dict[Recipe, dict[int, Trial]] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    def attempt(self, recipe: Recipe) -> Generator[Step, None, bool]:
        """Make the trials of a recipe on every fold, if the budget allows; return whether it did."""
        examples = self.interpretations.examples[recipe.interpretation]
        price = (
            PRICE[recipe.query_projection] * len(examples) * self.config.epochs * len(self.groups)
            if recipe.weights
            else 0.0
        )
        if price > self.left:
            self.skipped.append(label(recipe, self.initial.rank))
            return False
        self.left -= price
        trials: dict[int, Trial] = {}
        for group in self.groups:
            lesson = self._lesson(recipe.interpretation, group)
            if not lesson.train or not lesson.validation:
                continue
            name = f"{recipe} without folds {sorted(group)}"
            work = partial(run_trial, self.generation, lesson, self.initial, recipe, self.config.epochs, self.config)
            trial = yield from self.journal.trial(name, replace(self.initial, rank=recipe.rank), work)
            trials |= dict.fromkeys(group, trial)
        self.made[recipe] = trials
        return True

    def values(self, recipe: Recipe) -> Values:
        """Return query -> nDCG@10, each by the head that did not train on it."""
        return {query: value for trial in self.made[recipe].values() for query, value in trial.measured.items()}

    def better(self, richer: Recipe, simpler: Recipe) -> bool:
        """Whether the richer one beats the simpler by a share of the standard error of its gain."""
        gains = _gains(self.values(simpler), self.values(richer))
        return beats(gains, self.config.error_share)

    def _lesson(self, interpretation: str, group: frozenset[int]) -> TrainingSplit:
        """Return what a fold learns from; all readings are measured alike, clicks among all that was shown.

        What was never shown was never clicked, good or not: measured with it, whatever showed the lists would win. What
        the naive reading leaves out of a list was not clicked: measured without it, any head would look better.
        """
        shown = self.interpretations.examples.get("debiased", self.interpretations.examples["graded"])
        train = [
            one for one in self.interpretations.examples[interpretation] if fold_of(one.feedback.query_key) not in group
        ]
        validation = [one for one in shown if fold_of(one.feedback.query_key) in group]
        return TrainingSplit(train, validation, self.interpretations.qrels, self.interpretations.curve, min(group))


def choose(
    generation: Generation,
    interpretations: ClickInterpretations,
    initial: HeadConfig,
    config: FitConfig,
    journal: Journal,
) -> Generator[Step, None, Selection]:
    """Return the recipe that (cross-)validation chooses: with few queries every fold validates once, with many one."""
    examples = interpretations.examples["graded"]
    folds = sorted({fold_of(one.feedback.query_key) for one in examples})
    groups = [frozenset(folds[at :: config.folds]) for at in range(min(config.folds, len(folds)))]
    if folds and len(examples) >= config.cross_validation_queries:
        groups = [frozenset(folds[:1])]
    search = _RecipeSearch(generation, interpretations, initial, config, journal, groups, config.budget_seconds)
    tried = {RECIPES[0].name, *config.recipes}
    first, *others = [one for one in config.interpretations if one in interpretations.examples] or ["graded"]
    ladder = [replace(recipe, rank=initial.rank, interpretation=first) for recipe in RECIPES if recipe.name in tried]
    chosen = yield from _climb(search, ladder, ladder[0])
    for interpretation in others:
        if not chosen.weights:  # what one reading could not prove, another may
            rungs = [replace(recipe, interpretation=interpretation) for recipe in ladder[1:]]
            chosen = yield from _climb(search, rungs, chosen)
    climbed = list(search.made)
    optimism = _optimism([search.values(recipe) for recipe in climbed], climbed.index(chosen), config)
    for change in VARIANTS if chosen.query_projection else ():
        variant = replace(chosen, **change)  # type: ignore[arg-type]
        if variant in search.made:
            continue
        if search.left < config.budget_seconds / 2:
            search.skipped.append(label(variant, initial.rank))
            continue
        made = yield from search.attempt(variant)
        if made and search.better(variant, chosen):
            chosen = variant
    for interpretation in others if chosen.weights else ():
        other = replace(chosen, interpretation=interpretation)
        if other in search.made:
            continue
        made = yield from search.attempt(other)
        if made and float(np.mean(_gains(search.values(chosen), search.values(other)))) > 0:
            chosen = other
    values = {label(recipe, initial.rank): search.values(recipe) for recipe in search.made}
    means = {name: float(np.mean(list(of.values()))) if of else 0.0 for name, of in values.items()}
    queries = len(search.values(ladder[0]))
    return Selection(chosen, search.made[chosen], means, queries, optimism, tuple(search.skipped))


def _climb(search: _RecipeSearch, rungs: Sequence[Recipe], chosen: Recipe) -> Generator[Step, None, Recipe]:
    """Return the last of these recipes that was better than what had been chosen before it."""
    for recipe in rungs:
        made = yield from search.attempt(recipe)
        if made and search.better(recipe, chosen):
            chosen = recipe
    return chosen


def label(recipe: Recipe, rank: int) -> str:
    """Return a recipe's name, and what is not as its name has it; rank is that of birth."""
    usual = {"learning_rate": Recipe.learning_rate, "decay": Recipe.decay, "rank": rank}
    changed = [f"{key} {getattr(recipe, key):g}" for key, value in usual.items() if getattr(recipe, key) != value]
    return ", ".join(
        [
            recipe.name,
            *changed,
            *([recipe.interpretation] if recipe.interpretation != Recipe.interpretation else []),
        ]
    )


def beats(gains: Floats, error_share: float) -> bool:
    """Whether the mean of the gains (queries,) is above a share of its standard error."""
    return len(gains) > 1 and bool(gains.mean() > error_share * gains.std(ddof=1) / len(gains) ** 0.5)


def _gains(before: Values, after: Values) -> Floats:
    return np.asarray([after[query] - before[query] for query in sorted(before) if query in after], np.float64)


def _optimism(values: Sequence[Values], chosen: int, config: FitConfig) -> float:
    """Return how far the chosen recipe's gain over birth is flattered by having been chosen on the same queries, >= 0.

    On each bootstrap sample of queries the ladder is climbed anew, and what it chooses is measured on the queries left
    out (Tsamardinos et al. 2018, bootstrap bias corrected cross-validation): no trial has to be repeated.
    """
    queries = sorted(set(values[0]).intersection(*values))
    table = np.asarray([[of[query] for query in queries] for of in values]).reshape(len(values), -1)
    if table.shape[1] < 2 or len(values) < 2:
        return 0.0
    random = np.random.default_rng(config.seed)
    outside = []
    for _ in range(BOOTSTRAPS):
        inside = random.integers(table.shape[1], size=table.shape[1])
        left_out = np.setdiff1d(np.arange(table.shape[1]), inside)
        best = 0
        for at in range(1, len(table)):
            if beats(table[at, inside] - table[best, inside], config.error_share):
                best = at
        if len(left_out):
            outside.append(float((table[best, left_out] - table[0, left_out]).mean()))
    seen = float((table[chosen] - table[0]).mean())
    return max(0.0, seen - float(np.mean(outside))) if outside else 0.0
