"""Schemas of answers about models."""

from typing import Any

from pydantic import Field

from service.http.answers import Answer, example, sometimes

LINEAGE = {"kind": "trained", "parent": 6, "seed": 0}
MODEL = {"version": 7, "lineage": LINEAGE, "report": {}, "decision": {}, "created_at": "2026-09-20T10:00:00.000Z"}


class Model(Answer):
    """A model: immutable, numbered in its collection."""

    model_config = example(**MODEL, aliases=["champion"])

    version: int
    """The version; 0 is the untrained model."""
    lineage: dict[str, Any]
    """The origin: parent, seed, training run, data."""
    report: dict[str, Any]
    """The recipe, the head and the measures on held-out queries."""
    decision: dict[str, Any]
    """The result of the gate with its checks and reasons."""
    created_at: str
    """The time of its registration."""
    aliases: list[str] = sometimes()
    """The aliases that point at the model; not in a list of models."""


class ModelList(Answer):
    """The models, oldest first, and the aliases."""

    model_config = example(models=[MODEL], aliases={"champion": 7})

    models: list[Model]
    """The models."""
    aliases: dict[str, int]
    """Alias to version."""


class ComparedHeads(Answer):
    """The scalars of two heads; null for the untrained model."""

    a: dict[str, Any] | None
    """The scalars of model a."""
    b: dict[str, Any] | None
    """The scalars of model b."""


class EstimatedClicks(Answer):
    """An estimate of the clicks per search in the first ten."""

    mean: float
    """The estimate."""
    low: float | None
    """The lower end of its 95 % interval; null without an interval."""
    high: float | None
    """The upper end of its 95 % interval; null without an interval."""
    impressions: int
    """The number of explored searches."""
    effective_sample_size: float
    """The number of searches of equal weight with the same variance, the mean over the positions."""
    reliable: bool
    """Whether there is an interval: enough searches and clients carry the weight, whose mean is 1 but for chance."""
    reason: str | None
    """Why there is no interval; null if there is one."""


class Estimators(Answer):
    """The estimates of three estimators."""

    ips: EstimatedClicks
    """Importance sampling: unbiased, with the widest interval."""
    self_normalised: EstimatedClicks
    """Self-normalised importance sampling."""
    doubly_robust: EstimatedClicks
    """The doubly robust estimator."""


class OffPolicy(Answer):
    """The clicks per search that both models would get, estimated from explored searches."""

    impressions: int
    """The number of explored searches that count."""
    need: int
    """The least number for estimates."""
    left_out: dict[str, int]
    """The number of explored searches that do not count, by reason."""
    reason: str | None
    """Why there are no estimates; null if there are."""
    logged: float | None
    """The clicks per search of the logged lists."""
    a: Estimators | None
    """The first model."""
    b: Estimators | None
    """The second model."""
    difference: Estimators | None
    """b - a, paired by search."""


class ModelComparison(Answer):
    """Two models side by side, each as it was reported."""

    model_config = example(
        a=MODEL,
        b=MODEL,
        head={"a": None, "b": None},
        off_policy={
            "impressions": 12,
            "need": 100,
            "left_out": {},
            "reason": "12 explored searches count, and 100 are needed",
            "logged": None,
            "a": None,
            "b": None,
            "difference": None,
        },
    )

    a: Model
    """The first model."""
    b: Model
    """The second model."""
    head: ComparedHeads
    """The scalars of both heads."""
    off_policy: OffPolicy
    """The clicks per search that both models would get."""


class AliasMove(Answer):
    """A change of an alias."""

    from_: int = Field(alias="from")
    """The version before."""
    to: int
    """The version after."""
    reason: str
    """Why it was moved."""
    at: str
    """When it was moved."""


class Aliases(Answer):
    """The champion, all aliases and the newest 20 moves."""

    model_config = example(alias="champion", version=7, aliases={"champion": 7, "challenger": 7}, history=[])

    alias: str
    """Always `champion`."""
    version: int
    """The version that serves."""
    aliases: dict[str, int]
    """Alias to version."""
    history: list[AliasMove]
    """The newest moves, newest first."""
