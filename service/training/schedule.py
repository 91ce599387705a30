"""Tells whether a training run is due by the schedule of its collection, and which condition is missing.

Everything is derived from the records of runs and from the feedback, so that a restart changes nothing.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from sqlalchemy import Connection

from index.learning.config import FitConfig
from service.runtime.collection import CollectionState
from service.runtime.feedback_repository import confirmed_count
from service.runtime.runtime import Runtime
from service.storage.database import is_ahead, rfc3339
from service.training import repository


class Standing:
    """The conditions of a scheduled run at a moment. It reads the tables on demand, over an open connection.

    The collection has a schedule. at: the moment; the default is now.
    """

    def __init__(
        self, runtime: Runtime, state: CollectionState, connection: Connection, at: datetime | None = None
    ) -> None:
        assert state.settings.train is not None
        self.every_hours: float = state.settings.train["every_hours"]
        self.min_new_queries: int = state.settings.train["min_new_queries"]
        self._runtime = runtime
        self._state = state
        self._connection = connection
        self._at = datetime.now(UTC) if at is None else at

    @cached_property
    def last_start(self) -> datetime | None:
        """The start of the last run, requested or scheduled, with any outcome; None without a run.

        It is None too if it lies ahead of the clock: the clock was corrected later, so the time since then is unknown.
        """
        found = repository.last_start(self._connection, self._state.id)
        return None if found is None or is_ahead(found, self._at) else datetime.fromisoformat(found)

    @cached_property
    def new_queries(self) -> int:
        """The query texts with feedback since the last run that read the feedback to an end."""
        since = repository.last_reading(self._connection, self._state.id)
        return repository.queries_with_feedback_since(self._connection, self._state.id, since)

    @property
    def next_at(self) -> datetime | None:
        """The earliest start of the next run by the interval; None without a run, which means now."""
        return None if self.last_start is None else self.last_start + timedelta(hours=self.every_hours)

    @property
    def trigger(self) -> dict[str, Any]:
        """The numbers that start a run, for its record."""
        waited = None if self.last_start is None else (self._at - self.last_start) / timedelta(hours=1)
        return {"new_queries": self.new_queries, "hours_since_last_run": None if waited is None else round(waited, 2)}

    def obstacles(self) -> Iterator[str]:
        """Yield each condition that is not met, as a part of a sentence. Conditions that cost least come first."""
        if repository.is_processing(self._connection, self._state.id):
            yield "a training run has not ended"
        if self.next_at is not None and self._at < self.next_at:
            yield f"the next run begins at {rfc3339(self.next_at)} at the earliest"
        waiting = len(self._state.without_vectors)
        if waiting:
            yield f"{_counted(waiting, 'document has', 'documents have')} no vectors yet"
        if self._state.fingerprint != self._runtime.encoder.fingerprint:
            yield "the collection was made with another encoder"
        if self.new_queries < self.min_new_queries:
            told = _counted(self.new_queries, "query has", "queries have")
            yield f"{told} new feedback, and a scheduled run needs {self.min_new_queries}"
        have, need = confirmed_count(self._connection, self._state.id), FitConfig().min_queries
        if have < need:
            yield f"{_counted(have, 'query has', 'queries have')} a confirmed document, and a run needs {need}"

    def body(self) -> dict[str, Any]:
        """Return the schedule and what is missing, as JSON."""
        missing = "; ".join(self.obstacles())
        return {
            "every_hours": self.every_hours,
            "min_new_queries": self.min_new_queries,
            "new_queries": self.new_queries,
            "next_at": None if self.next_at is None else rfc3339(self.next_at),
            "missing": f"{missing[0].upper()}{missing[1:]}." if missing else None,
        }


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
