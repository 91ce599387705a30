"""Reads clicks and ratings from a table: a row has a query, a document, clicks or a rating, and a time."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from service.cli.event_files import whole
from service.cli.failures import USAGE, Failure
from service.cli.records import Fault, Found, Record
from service.cli.times import as_timestamp
from service.documents.compression import open_plain
from service.documents.tables import UnusableTable, read_table

COLUMNS = {
    "query": ("query", "user_query", "q", "search", "search_term"),
    "document": ("document", "document_id", "doc", "doc_id", "object_id", "product_id", "id"),
    "clicks": ("clicks", "click", "click_count"),
    "rating": ("rating", "grade"),
    "time": ("time", "timestamp", "date"),
    "client": ("client_id", "client"),
    "user": ("user_id",),
}
"""What a column holds -> names of the column."""
MAX_CLICKS = 100
"""Clicks of a row that are stored. Memory counts ten clients without a name, training ten clicks."""


def read_clicks(path: Path, notes: list[str]) -> Found:
    """Yield a click event for each click of each row, and the faults. Rows with a rating are left out.

    The user of a row without a client is the client too, so that the clicks of a user count as those of one client.
    """
    now = datetime.now(UTC).isoformat(timespec="seconds")
    cut = untimed = 0
    for number, row in _rows(path):
        if isinstance(row, Fault):
            yield row
            continue
        if "rating" in row and "clicks" not in row:
            continue
        clicks = whole(row.get("clicks", 1))
        if clicks is None:
            yield Fault(number, "invalid_event", "clicks: must be a whole number")
            continue
        cut += clicks > MAX_CLICKS
        untimed += "time" not in row
        event = {"action_name": "click", "user_query": row["query"], "timestamp": as_timestamp(row.get("time", now))}
        client = row.get("client", row.get("user"))
        event |= {} if client is None else {"client_id": client}
        event |= {"user_id": row["user"]} if "user" in row else {}
        attributes = {"object": {"object_id": row["document"]}}
        for _ in range(min(clicks, MAX_CLICKS)):
            yield Record(number, event | {"event_attributes": attributes})
    notes += (
        [f"{cut} rows have more than {MAX_CLICKS} clicks: {MAX_CLICKS} were taken, more have no effect"] if cut else []
    )
    notes += [f"{untimed} rows have no time: they count as of now"] if untimed else []


def read_ratings(path: Path) -> Found:
    """Yield a judgment for each row with a rating. The rater is the user, whose erasure deletes the judgment."""
    for number, row in _rows(path):
        if isinstance(row, Fault) or "rating" not in row:
            continue
        rating = row["rating"]
        value = float(rating) if rating.replace(".", "", 1).isdigit() else rating
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        judgment = {"query": row["query"], "document_id": row["document"], "rating": value}
        yield Record(number, judgment | {"rater": row.get("user", row.get("client", "import"))})


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str] | Fault]]:
    """Yield line and row, by what its columns hold. Raises Failure USAGE for a header without query and document."""
    with open_plain(path) as stream:
        try:
            found = read_table(stream)
        except UnusableTable as error:
            raise Failure(USAGE, f"{path.name}: {error}") from error
        for one in found:
            if isinstance(one, Fault):
                yield one.number, one
                continue
            row = _by_meaning(one.value)
            missing = next((name for name in ("query", "document") if name not in row), None)
            if missing:
                yield one.number, Fault(one.number, "invalid_event", f"{missing}: is required", missing, one.value)
            else:
                yield one.number, row


def _by_meaning(row: dict[str, Any]) -> dict[str, str]:
    by_name = {name.lower(): value for name, value in row.items()}
    found = {}
    for meaning, names in COLUMNS.items():
        name = next((name for name in names if name in by_name), None)
        if name:
            found[meaning] = str(by_name[name])
    return found
