"""The configuration of a training run, and the record of each of its steps.

Imports no model and no torch, so that a process can start runs without loading the training libraries.
"""

from dataclasses import dataclass, field, fields
from typing import Any

from index.arguments import is_finite, is_whole
from index.errors import InvalidArgument

EXPLORED = "explored"
"""The interpretation of clicks that learns from explored lists (`Recipe.interpretation`)."""

AVERAGED = "averaged"
"""The interpretation of clicks that averages the heads of two others (`AVERAGED_OF`)."""
AVERAGED_OF = ("graded", "debiased")


@dataclass(frozen=True)
class FitConfig:
    """The settings of a run; the defaults were chosen on train queries (docs/experiments.md)."""

    seed: int = 0
    cost_budget: float = 45.0
    """Upper bound of the total cost of all trials, in nominal seconds (`model_selection.COST`). The cost is computed
    from the number of examples and not measured by a clock, so that the same log gives the same bits."""
    candidates: int = 40
    """Hard negatives per training query: this number by keys and this number by words."""
    batch_queries: int = 64
    epochs: int = 8
    """Maximum number of epochs; training stops after `patience` epochs without a better validation measure."""
    patience: int = 2
    scalar_learning_rate: float = 2e-2
    refresh: int = 4
    """From the second epoch on, one in `refresh` examples gets new hard negatives from the current head; 0: none."""
    folds: int = 4
    """Groups of queries in cross-validation."""
    min_queries: int = 20
    """Least number of queries with a confirmed document."""
    cross_validation_queries: int = 1000
    """With fewer training queries, every fold is the validation fold once. Otherwise one fold is; in a log of clicks as
    many as the cost budget allows."""
    error_share: float = 0.5
    """Share of the standard error of the mean gain by which a richer recipe must be better than a simpler recipe."""
    recipes: tuple[str, ...] = ("initial", "weights", "projection", "values")
    """Names of the recipes to try (`model_selection.RECIPES` and `VALUES`); the initial recipe is always tried."""
    interpretations: tuple[str, ...] = (AVERAGED,)
    """Interpretations of clicks to try, all with every recipe, as far as the cost budget goes."""
    hops: tuple[float, ...] = (0.3, 0.8)
    """Values of g to try for the second hop."""
    contexts: tuple[float, ...] = (0.2, 0.5, 1.0)
    """Values of g to try for the context."""
    trees: tuple[int, ...] = (40, 100)
    """Numbers of trees to try (`boosting`); none are fitted if it is empty."""
    priors: tuple[float, ...] = (3.0, 1.0, 0.3)
    """Penalties of the priors of documents to try (`prior_fit`); none are fitted if it is empty."""
    min_explored: int = 200
    """Least number of explored lists for the interpretation `explored`."""
    max_train_queries: int = 4_000
    max_test_queries: int = 1_500


RECIPE_NAMES = ("initial", "weights", "projection", "values")
LEAST = {"folds": 2, "seed": 0, "refresh": 0, "candidates": 0, "cross_validation_queries": 0, "min_explored": 0}
"""The least values of fields that may not be 1, or may be 0."""
INTERPRETATIONS = ("graded", "debiased", "naive", AVERAGED, "explored")


def require_fit_config(config: object) -> None:
    """Raise InvalidArgument for settings of a run that it cannot have."""
    if not isinstance(config, FitConfig):
        raise InvalidArgument("config must be a FitConfig")
    for name, known in (("recipes", RECIPE_NAMES), ("interpretations", INTERPRETATIONS)):
        given: object = getattr(config, name)
        if not isinstance(given, tuple | list) or not all(one in known for one in given):
            raise InvalidArgument(f"config.{name} is {given!r}; its names must be of {', '.join(known)}")
    for field_of in fields(config):
        value, least = getattr(config, field_of.name), LEAST.get(field_of.name, 1)
        if isinstance(field_of.default, int) and not is_whole(value, least):
            raise InvalidArgument(f"config.{field_of.name} is {value!r}; it must be a whole number from {least} on")
        if isinstance(field_of.default, float) and not _is_amount(value):
            raise InvalidArgument(f"config.{field_of.name} is {value!r}; it must be a finite number from 0 on")
    for name in ("hops", "contexts", "trees", "priors"):
        value = getattr(config, name)
        if not isinstance(value, tuple | list) or not all(map(_is_amount, value)):
            raise InvalidArgument(f"config.{name} is {value!r}; it must have finite numbers from 0 on")


def _is_amount(value: Any) -> bool:
    return is_finite(value) and bool(value >= 0)


@dataclass(frozen=True)
class Recipe:
    """The parameters that a trial trains, and its learning rates."""

    name: str
    weights: bool = True
    """Train the scalars: a weight per part, the temperature, the gain and the sharpness of memory."""
    query_projection: bool = False
    """Also train the matrices of the form, the sharpness of pooling and the gates of the heads."""
    values: bool = False
    """Also train the second hop: g and the value projection, with the gradient through both hops."""
    learning_rate: float = 1e-3
    """Learning rate of the matrices."""
    decay: float = 1e-2
    """Decay towards the initial parameters: the share of the distance that a step of learning rate 1 removes."""
    rank: int = 16
    """Rank of the matrices."""
    interpretation: str = "graded"
    """Interpretation of clicks. `graded`: judgments from the clicks per expected examination (`click_model.as_judged`),
    among all candidates. `debiased`: clicks among the documents shown, with log propensities. `naive`: clicks among
    documents down to one below the lowest click; no propensity correction. `averaged`: the mean of a `graded` and a
    `debiased` head. `explored`: explored lists as they are, with the loss of REINFORCE (`reinforce`); tried only where
    a run names it."""

    @property
    def readings(self) -> tuple[str, ...]:
        """The interpretations on which heads are trained; the recipe's head is their mean."""
        return AVERAGED_OF if self.interpretation == AVERAGED else (self.interpretation,)

    @property
    def changes_dense(self) -> bool:
        """Whether training changes the dense evidence, which is computed once otherwise."""
        return self.query_projection or self.values


@dataclass(frozen=True)
class Step:
    """The record of one step of a run: its phase, the progress within the phase, and figures."""

    phase: str
    done: int
    total: int
    figures: dict[str, float | int | str] = field(default_factory=dict)
