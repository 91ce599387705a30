"""Parts of statements that read the newest rows of a collection in the log."""

from datetime import datetime
from typing import Any

from sqlalchemy import Column, ColumnElement, and_, func

from service.storage.database import SKEW, first_id, rfc3339
from service.storage.dialects import unindexed
from service.storage.tables import QUERIES
from service.storage.tenants import named


def searched_since(collection_id: int, since: datetime) -> ColumnElement[bool]:
    """Return the condition that a logged search is of a collection, and was answered at the time `since` or later.

    A statement in the order of `query_id` reads no older row: ids begin with a time (`new_id`).
    """
    recent = QUERIES.c.query_id >= first_id(since - SKEW)
    return and_(unindexed(QUERIES, collection_id), recent, QUERIES.c.created_at >= rfc3339(since))


def client_of(table: Any, itself: Column[Any] | ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the client of a logged search or event, as an expression; else its session, else `itself`."""
    return func.coalesce(named(table.c.client_id), table.c.session_id, itself)
