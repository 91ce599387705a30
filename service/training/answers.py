"""Schemas of answers about training runs."""

from typing import Any, Literal

from service.http.answers import Answer, TaskFailure, TaskProgress, example


class TrainingTrigger(Answer):
    """The numbers for which the schedule started a run."""

    new_queries: int
    """Query texts that got feedback since the last run that did not fail."""
    hours_since_last_run: float | None
    """Hours since the last run began; null for the first run."""


class ScheduleStanding(Answer):
    """The schedule of a collection, and what is missing for the next run."""

    every_hours: float
    """Hours between the starts of two runs, at least."""
    min_new_queries: int
    """Query texts that got feedback since the last run, at least."""
    new_queries: int
    """Query texts that got feedback since the last run that did not fail."""
    next_at: str | None
    """The earliest start of the next run; null if there was no run."""
    missing: str | None
    """The conditions that are not met, as a sentence; null if the run starts within half a minute."""


class TrainingRun(Answer):
    """A training run: its parameters, steps, data, report and decision."""

    model_config = example(
        id="0199c7a0-0000-7000-8000-000000000000",
        status="succeeded",
        started_by="schedule",
        reason="63 queries had new feedback",
        learn_from="feedback",
        objective="listwise",
        trigger={"new_queries": 63, "hours_since_last_run": 24.1},
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
    started_by: Literal["request", "schedule", "documents"]
    """Who started the run: a request, the schedule, or the number of documents of a collection without a model."""
    reason: str
    """Why the run started, as a part of a sentence."""
    learn_from: Literal["feedback", "documents"]
    """The source of the run: the stored feedback, or the documents alone."""
    objective: Literal["listwise", "reinforce"]
    """What the run maximises: the likelihood of confirmed documents, or the expected clicks of explored lists."""
    trigger: TrainingTrigger | None
    """The numbers for which the schedule started the run; null for a run on request."""
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
    """The time of the start."""
    finished_at: str | None
    """The end of the run, null before."""


class QueryAttention(Answer):
    """The attention of two models for a held-out query: weights of the first ten ranks, then of "no answer"."""

    q: str
    """The query, in lower case."""
    before: list[float]
    """The weights of the model before the run; a rank without a document has the weight 0."""
    after: list[float]
    """The weights of the model of the run."""


class RunAttention(Answer):
    """The attention before and after a run, for queries that neither model trained on."""

    model_config = example(
        before=0,
        after=1,
        queries=[
            {"q": "copy a folder", "before": [0.4, 0.2, *[0.05] * 8, 0.0], "after": [0.7, 0.1, *[0.02] * 8, 0.04]}
        ],
    )

    before: int | None
    """The version of the champion that the run compared with; null without a model of the run."""
    after: int | None
    """The version of the model of the run; null without it."""
    queries: list[QueryAttention]
    """The held-out queries whose ranking changed most, at most eight; empty if the run has none."""


class TrainingRunList(Answer):
    """The training runs, newest first, without their steps."""

    model_config = example(
        training_runs=[],
        schedule={
            "every_hours": 24,
            "min_new_queries": 50,
            "new_queries": 37,
            "next_at": "2026-09-21T10:00:00.000Z",
            "missing": "37 queries have new feedback, and a scheduled run needs 50.",
        },
    )

    training_runs: list[TrainingRun]
    """The runs."""
    schedule: ScheduleStanding | None
    """When the next run starts by itself; null if the collection has no schedule."""
