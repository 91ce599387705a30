"""Reads times in the forms in which logs have them."""

import re
from datetime import UTC, datetime
from typing import Any

from service.feedback.event_times import EARLIEST

DAY = re.compile(r"[0-9]{8}")
MILLISECONDS_FROM = 100_000_000_000
"""Numbers from here on are milliseconds since 1970, smaller ones are seconds."""


def as_timestamp(value: Any) -> Any:
    """Return a time as RFC 3339 text: from seconds or milliseconds since 1970, or ISO 8601, in UTC without an offset.

    Text of eight digits is a day: 20261128. A value that is no time, or a number before the year 2000, is returned as
    it is, and the service refuses it.
    """
    try:
        if isinstance(value, str) and (DAY.fullmatch(value.strip()) or not value.replace(".", "", 1).isdecimal()):
            moment = datetime.fromisoformat(value.strip())
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()
        if isinstance(value, bool):
            return value
        number = float(value)
        seconds = number / (1000 if number >= MILLISECONDS_FROM else 1)
        return value if seconds < EARLIEST else datetime.fromtimestamp(seconds, UTC).isoformat()
    except (TypeError, ValueError, OverflowError, OSError):
        return value
