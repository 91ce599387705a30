"""Reads times in the forms in which logs have them."""

from datetime import UTC, datetime
from typing import Any

MILLISECONDS_FROM = 100_000_000_000
"""Numbers from here on are milliseconds since 1970, smaller ones are seconds."""


def as_timestamp(value: Any) -> Any:
    """Return a time as RFC 3339 text: from seconds or milliseconds since 1970, or ISO 8601, in UTC without an offset.

    A value that is no time is returned as it is, and the service refuses it.
    """
    try:
        if isinstance(value, str) and not value.replace(".", "", 1).isdigit():
            moment = datetime.fromisoformat(value.strip())
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()
        if isinstance(value, bool):
            return value
        seconds = float(value)
        return datetime.fromtimestamp(seconds / (1000 if seconds >= MILLISECONDS_FROM else 1), UTC).isoformat()
    except (TypeError, ValueError, OverflowError, OSError):
        return value
