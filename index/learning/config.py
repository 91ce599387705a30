"""What a run may do and what it tells: how to fit, what a trial may change, one record per step.

Sees no model and no torch, so that whoever starts a run need not load what trains it.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class FitConfig:
    """How to fit; the defaults were chosen on train queries (docs/experiments.md)."""

    seed: int = 0
    budget_seconds: float = 45.0
    """What trials may cost in all, by their nominal price (`choice.PRICE`), so that the bits do not hang on a clock."""
    candidates: int = 40
    """Hard negatives asked of keys and of words each, per training query."""
    batch_queries: int = 64
    epochs: int = 8
    """At most; training stops after `patience` epochs without a better measure on validation queries."""
    patience: int = 2
    scalar_learning_rate: float = 2e-2
    refresh: int = 4
    """From the second epoch on, one in so many examples gets new hard negatives, found as the head is by then."""
    folds: int = 4
    """Of cross-validation."""
    min_queries: int = 20
    """Queries with a confirmed document that a run needs."""
    cross_validation_queries: int = 1000
    """With fewer queries to learn from, every fold serves as validation once; with more, one fold is enough."""
    error_share: float = 0.5
    """Share of the standard error of the mean gain by which a richer recipe must be better than a simpler one."""
    recipes: tuple[str, ...] = ("birth", "weights", "gates", "rank", "full")
    """Names of the recipes that are tried (`choice.LADDER`); birth always is."""
    interpretations: tuple[str, ...] = ("graded", "debiased", "naive")
    """Ways to read clicks that are tried: recipes with the first, the chosen recipe with the others."""
    hops: tuple[float, ...] = (0.3, 0.8)
    """Values of g that are tried for the second hop."""
    max_train_queries: int = 4_000
    max_test_queries: int = 1_500


@dataclass(frozen=True)
class Recipe:
    """What a trial may change of birth, and how quickly."""

    name: str
    weights: bool = True
    """The scalars: a weight per part, temperature, memory's gain and sharpness."""
    gates: bool = False
    """How the weights depend on the query."""
    query_projection: bool = False
    """The form's own matrices, the sharpness of pooling, the gates of heads."""
    learning_rate: float = 1e-3
    """Of the turn."""
    decay: float = 1e-2
    """Share of the distance to birth that one step of learning rate 1 takes back."""
    rank: int = 16
    interpretation: str = "graded"
    """How clicks are read. `graded`: as judgments, by what clicks in so many looks prove (`clicks.as_judged`), among
    all that a search finds. `debiased`: among what was shown, with log propensities. `naive`: among what was surely
    looked at, without."""


@dataclass(frozen=True)
class Step:
    """One record of a run: what was done, how far it is, and its figures."""

    phase: str
    done: int
    total: int
    figures: dict[str, float | int | str] = field(default_factory=dict)
