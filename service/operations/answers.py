"""Schemas of answers about the service itself."""

from typing import Literal

from service.http.answers import Answer, example, sometimes


class Liveness(Answer):
    """The process responds."""

    model_config = example(status="alive")

    status: Literal["alive"]
    """Always `alive`."""


class ReadyWorkers(Answer):
    """The worker processes."""

    model_config = example(ready=3, wanted=3)

    ready: int
    """Processes that take connections."""
    wanted: int
    """Processes that should run."""


class Readiness(Answer):
    """The service answers searches."""

    model_config = example(status="ready", degraded={})

    status: Literal["ready"]
    """Always `ready`; a service that is not ready answers 503."""
    degraded: dict[str, list[str]] = sometimes()
    """For `admin`, and without API keys: collections that answer with less than they should, or not; and why."""
    workers: ReadyWorkers = sometimes()
    """For `admin`, and without API keys: the worker processes, if there are any beside this one."""
