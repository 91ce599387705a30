"""Reports what people search, by query, by day and by model: what they click, and what they find no answer for."""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from service.queries.repository import MAX_SEARCHES, Order, SearchLog
from service.runtime.collection import CollectionState
from service.runtime.runtime import Runtime
from service.storage.database import rfc3339


def queries(runtime: Runtime, state: CollectionState, days: int, order: Order, limit: int) -> dict[str, Any]:
    """Return the counts of the logged searches of the last `days` days, and their queries, at most `limit`."""
    runtime.impressions.flush()
    since = datetime.now(UTC) - timedelta(days=days)
    with runtime.database.read() as connection:
        log = SearchLog(connection, state.id, since)
        total = log.total()
        if total is None:
            return {"since": rfc3339(since), "total": None, "distinct": 0, "queries": [], "days": [], "models": []}
        counts, distinct = total
        return {
            "since": counts.first if counts.searches == MAX_SEARCHES else rfc3339(since),
            "total": asdict(counts),
            "distinct": distinct,
            "queries": [{"q": text} | asdict(of_query) for text, of_query in log.by_query(order, limit)],
            "days": [{"date": date} | asdict(of_day) for date, of_day in log.by_day()],
            "models": [{"version": version} | asdict(of_model) for version, of_model in log.by_model()],
        }
