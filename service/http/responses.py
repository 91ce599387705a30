"""Responses that several routes give."""

from collections.abc import Mapping
from typing import Any

import orjson
from fastapi.responses import Response


def accepted(record: Mapping[str, Any], location: str) -> Response:
    """Return the response 202 with the record of the work that was started, and its address."""
    return Response(orjson.dumps(record), 202, {"Location": location}, "application/json")


def accepted_task(task: Mapping[str, Any]) -> Response:
    """Return the response 202 of a task."""
    return accepted(task, f"/v1/tasks/{task['id']}")
