"""The selection of a run's recipe: trials validated on held-out queries, within a cost budget.

Recipes are tried from the simplest to the richest, with every interpretation of clicks. A recipe must be better than
the selected simpler recipe by a share of the standard error of its gain (after Breiman et al. 1984). Little data
therefore changes little or nothing.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.evaluation.measures import Qrels
from index.generation.generation import Generation
from index.learning.click_likelihood import CLICKS
from index.learning.config import AVERAGED, AVERAGED_OF, FitConfig, Recipe, Step
from index.learning.examples import Example, Feedback, fold_of
from index.learning.optimism import Counts, Gains, Measured, beats, means, measured, once, optimism
from index.learning.trainer import TrainingSplit, Trial, at_common_epoch, run_trial
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
VALUES = "values"
"""The recipe that also trains the second hop, for a head with a value projection."""
COST = {False: 1e-4, True: 1.1e-3}
"""Nominal seconds per example and epoch, without and with a query projection: roughly the time of one core."""
CLICK_COST, GRADED_CLICK_COST = 0.2, 0.6
"""Cost of an example of clicks, as it is and with grades, relative to one of judgments. The first has the documents
shown, without hard negatives. Trials on clicks end after fewer epochs than are counted."""
VALUES_COST = 1.3e-3
"""Nominal seconds that training the second hop adds."""
NDCG = "nDCG@10"
"""The measure by which epochs, hop and trees are chosen, and recipes where there are no clicks."""
Values = Mapping[Recipe, NDArray[np.float64]]
"""Recipe -> the values (queries,) by which it is chosen, on the same queries (`_value`)."""
Table = Mapping[Recipe, Measured]
"""Recipe -> its measures on the same queries, in the order in which the recipes were tried."""


@dataclass(frozen=True)
class ClickInterpretations:
    """The examples of all training queries per interpretation, the grades for validation, and the examination curve."""

    examples: Mapping[str, Sequence[Example]]
    qrels: Qrels
    curve: Floats | None

    @property
    def known(self) -> frozenset[str]:
        """The interpretations that a recipe may have."""
        averaged = {AVERAGED} if set(AVERAGED_OF) <= self.examples.keys() else set()
        return frozenset(self.examples.keys() | averaged)

    def read_by(self, recipe: Recipe) -> list[Sequence[Example]]:
        """Return the sets of examples that a recipe trains on, a head on each."""
        return [self.examples[reading] for reading in recipe.readings]

    def split_for(
        self, recipe: Recipe, validation: Sequence[Example] = (), without: frozenset[int] = frozenset()
    ) -> TrainingSplit:
        """Return the training split of a recipe that is trained without the queries of some folds."""
        kept = ([one for one in examples if _fold(one) not in without] for examples in self.read_by(recipe))
        train, *beside = sorted(kept, key=len, reverse=True)
        beside = [one for one in beside if one]
        return TrainingSplit(train, validation, self.qrels, self.curve, min(without, default=0), beside)

    @cached_property
    def clicked(self) -> Mapping[str, Feedback]:
        """Query key -> its feedback, for the queries with clicks."""
        feedback = (one.feedback for one in self.examples.get("debiased", ()))
        return {one.query_key: one for one in feedback if one.shown is not None}


@dataclass(frozen=True)
class Selection:
    """The selected recipe, its trial per fold, and the mean of every recipe over the validation queries."""

    recipe: Recipe
    trials: Mapping[int, Trial]
    validation: Mapping[str, float]
    queries: int
    optimism: Mapping[str, float]
    """Measure -> the overestimate of the selected recipe's gain, which comes from the selection on the same queries."""
    skipped: tuple[str, ...]
    """Recipes that exceeded the cost budget."""

    @property
    def epochs(self) -> int:
        """The number of epochs, 0 without trials. A trial may have stopped before."""
        return max((trial.epochs for trial in self.trials.values()), default=0)

    def head_for(self, query_key: str) -> AttentionHead | None:
        """Return the head of the fold that did not train on this query, or None if there is none."""
        trial = self.trials.get(fold_of(query_key))
        return trial.head if trial else None

    def with_hop(self, hop: float) -> "Selection":
        """Return the selection with g of the second hop set to `hop` in all heads."""
        return self.with_heads({fold: one.head.changed(hop=hop) for fold, one in self.trials.items()})

    def with_heads(self, heads: Mapping[int, AttentionHead]) -> "Selection":
        """Return the selection with another head for each fold. Folds that share a trial share it afterwards."""
        changed = {id(one): replace(one, head=heads[fold]) for fold, one in self.trials.items()}
        return replace(self, trials={fold: changed[id(one)] for fold, one in self.trials.items()})

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
            "optimism": round(self.optimism.get(NDCG, 0.0), 5),
            "click_optimism": round(self.optimism.get(CLICKS, 0.0), 5),
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
        cost = _cost(recipe, self.interpretations, self.config) * len(self.groups)
        if cost > self.left:
            self.skip(recipe)
            return False
        self.left -= cost
        trials: dict[int, Trial] = {}
        for group in self.groups:
            data = self._split(recipe, group)
            if not data.train or not data.validation:
                continue
            name = f"{recipe} without folds {sorted(group)}"
            work = partial(run_trial, self.generation, data, self.initial, recipe, self.config.epochs, self.config)
            trial = yield from self.cache.trial(name, replace(self.initial, rank=recipe.rank), work)
            trials |= dict.fromkeys(group, trial)
        self.made[recipe] = at_common_epoch(trials)
        return True

    def skip(self, recipe: Recipe) -> None:
        """Record that a recipe exceeds the cost budget."""
        self.skipped.append(label(recipe, self.initial.rank))

    def table(self) -> Table:
        """Return the measures of every recipe, in the order of the trials, on the queries that all have measured."""
        trials = {recipe: {id(trial): trial for trial in made.values()}.values() for recipe, made in self.made.items()}
        known = [{query for trial in own for query in trial.measured} for own in trials.values()]
        queries = sorted(set.intersection(*known)) if known else []
        return {recipe: measured(own, queries) for recipe, own in trials.items()}

    def _split(self, recipe: Recipe, group: frozenset[int]) -> TrainingSplit:
        """Return the training split of a fold. All interpretations are validated on clicks among all shown documents.

        A document that was never shown could not be clicked; to count it as irrelevant would favour the model that made
        the lists. A document that the naive interpretation leaves out was not clicked; without it, validation would
        overestimate any head.
        """
        shown = self.interpretations.examples.get("debiased", self.interpretations.examples["graded"])
        validation = [one for one in shown if _fold(one) in group]
        return self.interpretations.split_for(recipe, validation, group)


def select(
    generation: Generation,
    interpretations: ClickInterpretations,
    initial: HeadConfig,
    config: FitConfig,
    cache: TrialCache,
) -> Generator[Step, None, Selection]:
    """Return the recipe selected by cross-validation, or by validation on a part of the folds if there are enough
    queries.
    """
    known = [one for one in config.interpretations if one in interpretations.known] or ["graded"]
    base, *levels = (
        replace(one, rank=initial.rank, interpretation=known[0])
        for one in RECIPES
        if not one.weights or one.name in config.recipes
    )
    hop = [replace(levels[-1], name=VALUES, values=True)] if levels and _trains_hop(initial, config) else []
    groups = _groups(interpretations, [*levels, *hop], config)
    search = _RecipeSearch(generation, interpretations, initial, config, cache, groups, config.cost_budget)
    yield from search.attempt(base)
    for level in levels:
        yield from _try_level(search, level, known)
    yield from _try_variants(search, _chosen(_values(search.table()), base, config))
    if _trains_hop(initial, config):
        selected = _chosen(_values(search.table()), base, config)
        yield from search.attempt(replace(selected, name=VALUES, weights=True, values=True))
    table = search.table()
    values = _values(table)
    selected = _chosen(values, base, config)
    means = {label(recipe, initial.rank): _mean(each.values) for recipe, each in table.items()}
    overestimate = _optimism(table, base, selected, config)
    skipped = tuple(search.skipped)
    return Selection(selected, search.made[selected], means, len(values[base]), overestimate, skipped)


def _trains_hop(initial: HeadConfig, config: FitConfig) -> bool:
    return bool(initial.value_rank) and VALUES in config.recipes


def _groups(
    interpretations: ClickInterpretations, recipes: Sequence[Recipe], config: FitConfig
) -> list[frozenset[int]]:
    """Return the groups of folds; each group is the validation set of one trial.

    Where most of many queries have clicks, there are as many groups as the cost budget allows for the trials of all
    recipes, at least one. A query has few clicks, so the choice and the gate need the clicks of many held-out queries.
    """
    examples = interpretations.examples["graded"]
    folds = sorted({_fold(one) for one in examples})
    many = len(examples) >= config.cross_validation_queries
    if folds and many and 2 * len(interpretations.clicked) <= len(examples):
        return [frozenset(folds[:1])]
    groups = [frozenset(folds[first :: config.folds]) for first in range(min(config.folds, len(folds)))]
    cost = sum(_cost(recipe, interpretations, config) for recipe in recipes)
    return groups[: max(1, int(config.cost_budget / cost))] if many and cost else groups


def _try_level(search: _RecipeSearch, level: Recipe, interpretations: Sequence[str]) -> Generator[Step, None, None]:
    """Try a recipe with every interpretation of clicks, the best before it first: the cost budget may end.

    If it is too small for two heads, only the graded one is trained: a log with many judgments beside its clicks.
    """
    values = _values(search.table())

    def mean(interpretation: str) -> float:
        tried = [each for one, each in values.items() if one.weights and one.interpretation == interpretation]
        return max(map(_mean, tried), default=-np.inf)

    for interpretation in sorted(interpretations, key=mean, reverse=True):
        recipe = replace(level, interpretation=interpretation)
        tried = yield from search.attempt(recipe)
        if not tried and interpretation == AVERAGED:
            yield from search.attempt(replace(recipe, interpretation="graded"))


def _try_variants(search: _RecipeSearch, selected: Recipe) -> Generator[Step, None, None]:
    """Try VARIANTS of a recipe with a query projection, while half of the cost budget is left."""
    for change in VARIANTS if selected.query_projection else ():
        variant = replace(selected, **change)  # type: ignore[arg-type]
        if variant in search.made:
            continue
        if search.left < search.config.cost_budget / 2:
            search.skip(variant)
            continue
        yield from search.attempt(variant)


def _cost(recipe: Recipe, interpretations: ClickInterpretations, config: FitConfig) -> float:
    """Return the nominal seconds of a recipe's trial on one group of folds."""
    if not recipe.weights:
        return 0.0

    def relative(example: Example) -> float:
        if example.slates is not None or example.feedback.query_key not in interpretations.clicked:
            return 1.0
        return GRADED_CLICK_COST if example.feedback.shown is None else CLICK_COST

    examples = sum(relative(one) for examples in interpretations.read_by(recipe) for one in examples)
    seconds = COST[recipe.query_projection] + (VALUES_COST if recipe.values else 0.0)
    return seconds * examples * config.epochs


def _values(table: Table) -> Values:
    return {recipe: _value(each) for recipe, each in table.items()}


def _value(found: Measured) -> NDArray[np.float64]:
    """Return the values (queries,) by which a recipe is chosen: nDCG@10, plus the log likelihood per click, if any.

    Grades from a few clicks are nearly noise, and the likelihood uses every click. Both differ between recipes by about
    as much, so neither is weighted.
    """
    value: NDArray[np.float64] = found.values + np.nan_to_num(found.clicks)
    return value


def _chosen(values: Values, base: Recipe, config: FitConfig) -> Recipe:
    """Return the selected recipe from the measures of all trials, in the order in which they were tried."""
    place = int(_chosen_on(values, once(len(values[base])), base, config)[0])
    return list(values)[place]


def _chosen_on(values: Values, counts: Counts, base: Recipe, config: FitConfig) -> NDArray[np.int64]:
    """Return for each sample the place of the selected recipe. The values are (queries,) or (samples, queries).

    Each interpretation of clicks has its own climb: a recipe must be better than the recipe of the same interpretation
    that was selected before it. Among the climbs that left the initial recipe, the best mean is selected; of equal
    means, the climb that left it first.
    """
    recipes, samples = list(values), np.arange(len(counts))
    every = np.stack([np.broadcast_to(of, counts.shape) for of in values.values()])
    initial = np.full(len(counts), recipes.index(base))
    # interpretation -> the place of the recipe that its climb has reached, and of the first one
    climbs: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
    for at, recipe in enumerate(recipes):
        if recipe != base:
            reached, left = climbs.get(recipe.interpretation, (initial, initial))
            better = beats(every[at] - every[reached, samples], counts, config.error_share)
            first = better & (reached == initial)
            climbs[recipe.interpretation] = np.where(better, at, reached), np.where(first, at, left)
    mean = np.stack([means(of, counts) for of in every])
    chosen, best, earliest = initial, np.full(len(counts), -np.inf), initial
    for reached, left in climbs.values():
        own = np.where(reached == initial, -np.inf, mean[reached, samples])
        wins = (own > best) | ((own == best) & (reached != initial) & (left < earliest))
        chosen, best, earliest = (
            np.where(wins, new, old) for new, old in ((reached, chosen), (own, best), (left, earliest))
        )
    return chosen


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else 0.0


def label(recipe: Recipe, rank: int) -> str:
    """Return a recipe's name with its non-default settings; rank is the default rank."""
    defaults = {"learning_rate": Recipe.learning_rate, "decay": Recipe.decay, "rank": rank}
    changed = [f"{key} {getattr(recipe, key):g}" for key, value in defaults.items() if getattr(recipe, key) != value]
    interpretation = [recipe.interpretation] if recipe.interpretation != Recipe.interpretation else []
    return ", ".join([recipe.name, *changed, *interpretation])


def _fold(example: Example) -> int:
    return fold_of(example.feedback.query_key)


def _optimism(table: Table, base: Recipe, selected: Recipe, config: FitConfig) -> dict[str, float]:
    """Return measure -> the overestimate, >= 0, of the selected recipe's gain by choices on the same queries.

    The choices are the number of epochs, the recipe, its variant and the interpretation of clicks; all are repeated by
    the measures by which they were made. It is an estimate for the whole procedure, so it may be above 0 where the
    initial recipe was selected.
    """
    if len(table) < 2:
        return {}

    def repeated(counts: Counts) -> Gains:
        at = {recipe: each.at(counts) for recipe, each in table.items()}
        best = _chosen_on({recipe: _value(each) for recipe, each in at.items()}, counts, base, config)
        found = {name: np.zeros(counts.shape) for name in (NDCG, CLICKS)}
        for place, each in enumerate(at.values()):
            for name, gain in _gains(each, at[base]).items():
                np.copyto(found[name], gain, where=(best == place)[:, None])
        return found

    return optimism(_gains(table[selected], table[base]), repeated, config.seed)


def _gains(after: Measured, before: Measured) -> Gains:
    return {NDCG: after.values - before.values, CLICKS: after.clicks - before.clicks}
