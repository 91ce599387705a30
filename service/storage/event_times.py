"""The time at which an event counts: its timestamp, but at the latest the time when it was stored.

The clock of a client may be ahead. Both times are RFC 3339 texts to the millisecond, which sort in the order of time.
"""

from typing import Any

from sqlalchemy import ColumnElement, FromClause, and_, case, or_

from service.storage.tables import EVENTS


def acted_at(events: FromClause = EVENTS) -> ColumnElement[Any]:
    """Return the time at which an event counts, as an expression. events: the table, or an alias of it."""
    one = events.c
    return case((one.created_at < one.timestamp, one.created_at), else_=one.timestamp)


def acted_before(before: str, events: FromClause = EVENTS) -> ColumnElement[bool]:
    """Return the condition that an event counts at a time earlier than `before`."""
    return or_(events.c.timestamp < before, events.c.created_at < before)


def acted_since(since: str, events: FromClause = EVENTS) -> ColumnElement[bool]:
    """Return the condition that an event counts at the time `since` or later."""
    return and_(events.c.timestamp >= since, events.c.created_at >= since)
