"""Schemas of answers about feedback."""

from service.http.answers import Answer, example


class Rejection(Answer):
    """An item that was not stored, and why."""

    index: int
    """The index in the request, from 0."""
    code: str
    """The reason, such as `unknown_document`."""
    detail: str
    """The reason in words."""


class FeedbackOutcome(Answer):
    """The number of stored items, and the rejected items."""

    model_config = example(
        accepted=9, rejected=[{"index": 3, "code": "unknown_document", "detail": "no such document"}]
    )

    accepted: int
    """The number of stored items."""
    rejected: list[Rejection]
    """The items that were not stored, by index."""
