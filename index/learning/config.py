"""How a training run is configured, and the record of each of its steps.

Sees no model and no torch, so that a process that starts runs need not load what trains.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class FitConfig:
    """How to fit; the defaults were chosen on train queries (docs/experiments.md)."""

    seed: int = 0
    cost_budget: float = 45.0
    """Most that all trials may cost together, in nominal seconds (`model_selection.COST`). The cost is computed from the
    number of examples and not measured by a clock, so that the same log gives the same bits."""
    candidates: int = 40
    """Hard negatives retrieved by keys and by words each, per training query."""
    batch_queries: int = 64
    epochs: int = 8
    """At most; training stops after `patience` epochs without a better measure on validation queries."""
    patience: int = 2
    scalar_learning_rate: float = 2e-2
    refresh: int = 4
    """From the second epoch on, one in `refresh` examples gets new hard negatives, retrieved with the current head."""
    folds: int = 4
    """Groups of queries in cross-validation."""
    min_queries: int = 20
    """Queries with a confirmed document that a run needs."""
    cross_validation_queries: int = 1000
    """With fewer queries to learn from, every fold serves as validation once; with more, one fold is enough."""
    error_share: float = 0.5
    """Share of the standard error of the mean gain by which a richer recipe must be better than a simpler one."""
    recipes: tuple[str, ...] = ("initial", "weights", "projection")
    """Names of the recipes that are tried (`model_selection.RECIPES`); the initial one always is."""
    interpretations: tuple[str, ...] = ("graded", "debiased", "naive")
    """Interpretations of clicks that are tried: all recipes with the first, the selected recipe with the others."""
    hops: tuple[float, ...] = (0.3, 0.8)
    """Values of g that are tried for the second hop."""
    max_train_queries: int = 4_000
    max_test_queries: int = 1_500


@dataclass(frozen=True)
class Recipe:
    """Which parameters a trial may change, and how fast."""

    name: str
    weights: bool = True
    """Train the scalars: a weight per part, the temperature, the gain and the sharpness of memory."""
    query_projection: bool = False
    """Train the matrices of the form, the sharpness of pooling and the gates of the heads too."""
    learning_rate: float = 1e-3
    """Learning rate of the matrices."""
    decay: float = 1e-2
    """Share of the distance to the initial parameters that one step of learning rate 1 takes back."""
    rank: int = 16
    """Rank of the matrices."""
    interpretation: str = "graded"
    """How clicks are read. `graded`: as judgments, by the clicks per expected look (`click_model.as_judged`), among all
    candidates. `debiased`: among the documents shown, with log propensities. `naive`: only documents down to one below
    the lowest click; no propensity correction."""


@dataclass(frozen=True)
class Step:
    """One record of a run: the phase, how much of it is done, and its figures."""

    phase: str
    done: int
    total: int
    figures: dict[str, float | int | str] = field(default_factory=dict)
