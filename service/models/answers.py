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


class ModelComparison(Answer):
    """Two models side by side, each as it was reported."""

    model_config = example(a=MODEL, b=MODEL, head={"a": None, "b": None})

    a: Model
    """The first model."""
    b: Model
    """The second model."""
    head: ComparedHeads
    """The scalars of both heads."""


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
