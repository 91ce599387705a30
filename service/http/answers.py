"""The base class of answer schemas, and the schemas that several slices share.

These models describe answers in the OpenAPI schema and nothing else: no answer is validated or serialised with them.
A test compares real answers with them.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

PROBLEM_TYPE = "application/problem+json"
TaskType = Literal[
    "documents",
    "documents_import",
    "documents_deletion",
    "collection_deletion",
    "evaluation",
    "snapshot",
    "import",
    "erasure",
]
"""The kinds of work of tasks. `service.runtime.jobs` records no other."""


class Answer(BaseModel):
    """An answer. Later versions may add fields."""


def sometimes(**constraints: Any) -> Any:
    """Return the default of a field that is not in every answer: optional in the schema, without a default value."""
    return Field(default_factory=lambda: None, **constraints)


def answers(*by_status: tuple[int, type[Answer], str]) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route from (status, schema, description)."""
    return {status: {"model": model, "description": description} for status, model, description in by_status}


def example(**fields: Any) -> ConfigDict:
    """Return the configuration of an answer with this example."""
    return ConfigDict(json_schema_extra={"examples": [fields]})


class Fault(Answer):
    """A part of the request that is not as documented."""

    pointer: str
    """The JSON pointer (RFC 6901) of the part, such as `/limit`."""
    detail: str
    """What is expected there."""
    position: int = sometimes()
    """The position in a filter, in characters from 0."""


class Problem(Answer):
    """An error (RFC 9457). `code` is stable; the wording of `title` and `detail` may change."""

    model_config = example(
        type="urn:softseek:problem:invalid_request",
        title="Unprocessable content",
        status=422,
        detail="1 part(s) of the request are not as documented",
        code="invalid_request",
        instance="/v1/collections/default/search",
        errors=[{"pointer": "/limit", "detail": "Input should be less than or equal to 1000"}],
    )

    type: str
    """`urn:softseek:problem:` and the code."""
    title: str
    """The name of the status."""
    status: int
    """The HTTP status."""
    detail: str
    """What is wrong, in a sentence. It never repeats the input."""
    code: str
    """The stable name of the error."""
    instance: str
    """The path of the request."""
    errors: list[Fault]
    """The parts of the request that are not as documented."""
    have: int = sometimes()
    """Of `not_enough_feedback`: the number of queries with a confirmed document."""
    need: int = sometimes()
    """Of `not_enough_feedback`: the number that a training run needs."""


class TaskProgress(Answer):
    """Work that is done and work in total; the unit depends on the type of the task."""

    done: int
    """Finished units."""
    total: int
    """All units; 0 until they are counted."""
    passages_done: int = sometimes()
    """Encoded passages, where documents are indexed."""
    passages_total: int = sometimes()
    """All passages, an estimate until every document is cut."""


class TaskFailure(Answer):
    """The error of a failed task."""

    code: str
    """The stable name of the error."""
    detail: str
    """What went wrong."""


class Task(Answer):
    """Work that continues after its request is answered."""

    model_config = example(
        id="0199c7a0-0000-7000-8000-000000000000",
        type="documents_import",
        collection="default",
        status="succeeded",
        progress={"done": 3, "total": 3},
        result={"items_total": 3, "succeeded": 3, "failed": 0, "errors": []},
        error=None,
        created_at="2026-09-20T10:00:00.000Z",
        finished_at="2026-09-20T10:00:01.250Z",
    )

    id: str
    """The id: a UUID of version 7, ordered by time."""
    type: TaskType
    """The kind of work."""
    collection: str | None
    """The collection that the work belongs to."""
    status: Literal["enqueued", "processing", "succeeded", "failed", "canceled"]
    """The state of the work. The last three are final."""
    progress: TaskProgress
    """How far the work is."""
    result: dict[str, Any] | None
    """The result, once the task has succeeded; its fields depend on the type."""
    error: TaskFailure | None
    """The error of a failed task."""
    created_at: str
    """The time of the request, RFC 3339 in UTC."""
    finished_at: str | None
    """The end of the work, null before."""


class Deleted(Answer):
    """The number of deleted items."""

    model_config = example(deleted=3)

    deleted: int
    """The number of deleted items."""


TASK_ACCEPTED = answers((202, Task, "The task; the header Location has its address"))
"""The `responses` of a route that starts a task."""
