"""Schemas of answers about training runs."""

from typing import Any, Literal

from service.http.answers import Answer, TaskFailure, TaskProgress, example


class TrainingRun(Answer):
    """A training run: its parameters, steps, data, report and decision."""

    model_config = example(
        id="0199c7a0-0000-7000-8000-000000000000",
        status="succeeded",
        seed=0,
        promote="auto",
        budget_seconds=45,
        click_reading="auto",
        resumptions=0,
        progress={"done": 40, "total": 40},
        steps=[],
        data={"events": 800, "judgments": 120},
        report={},
        decision={"promote": True, "promoted": True, "checks": [], "reasons": []},
        model_version=7,
        error=None,
        created_at="2026-09-20T10:00:00.000Z",
        finished_at="2026-09-20T10:00:30.000Z",
    )

    id: str
    """The id: a UUID of version 7."""
    status: Literal["processing", "succeeded", "failed", "canceled"]
    """The state of the run. All but the first are final."""
    seed: int
    """The random seed."""
    promote: Literal["auto", "never"]
    """Whether the gate may promote the model."""
    budget_seconds: int
    """The cost budget of all trials, in nominal seconds."""
    click_reading: Literal["auto", "graded", "debiased", "naive"]
    """The click interpretation."""
    resumptions: int
    """How often the run continued after the service had broken off."""
    progress: TaskProgress
    """How far the run is, in steps."""
    steps: list[dict[str, Any]]
    """Loss and measures by step; empty in a list of runs."""
    data: dict[str, Any]
    """The feedback that the run learned from."""
    report: dict[str, Any]
    """The recipe, the head and the measures on held-out queries; empty until the run has succeeded."""
    decision: dict[str, Any]
    """The result of the gate with its checks and reasons; empty until the run has succeeded."""
    model_version: int | None
    """The version of the model that the run made."""
    error: TaskFailure | None
    """The error of a failed run."""
    created_at: str
    """The time of the request."""
    finished_at: str | None
    """The end of the run, null before."""


class TrainingRunList(Answer):
    """The training runs, newest first, without their steps."""

    model_config = example(training_runs=[])

    training_runs: list[TrainingRun]
    """The runs."""
