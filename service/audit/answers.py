"""Schemas of the audit log."""

from typing import Literal

from service.http.answers import Answer, example


class Act(Answer):
    """An act of administration."""

    at: str
    """The time of the act."""
    key_id: str | None
    """The id of the key; null for the owner, who needs no key."""
    act: str
    """The name of the act, such as `create_key`."""
    target: str
    """The path of the object."""
    status: int
    """The status of the answer; 0 if the service ended before it: the act is done, or an export or deletion of a
    snapshot was begun."""
    outcome: Literal["done", "refused", "failed"]
    """Whether the act was carried out."""


class ActPage(Answer):
    """Acts, the newest first."""

    model_config = example(
        acts=[
            {
                "at": "2026-09-20T10:00:00.000Z",
                "key_id": "0199c7a0-0000-7000-8000-000000000000",
                "act": "delete_collection",
                "target": "/v1/collections/articles",
                "status": 202,
                "outcome": "done",
            }
        ],
        cursor=None,
    )

    acts: list[Act]
    """The acts."""
    cursor: str | None
    """The cursor of the next page; null at the end."""
