"""Reads events and ratings from a table: a row has a query, a document, an action, clicks or a rating, and a time."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from service.cli.event_files import RAISED, whole
from service.cli.failures import USAGE, Failure
from service.cli.records import Fault, Found, Record
from service.cli.times import as_timestamp
from service.documents.compression import open_plain
from service.documents.tables import UnusableTable, read_table

COLUMNS = {
    "query": ("query", "user_query", "q", "search", "search_term"),
    "document": ("document", "document_id", "doc", "doc_id", "object_id", "product_id", "id"),
    "action": ("action_name", "action", "event_name", "event_type", "event", "type"),
    "clicks": ("clicks", "click", "click_count"),
    "rating": ("rating", "grade"),
    "position": ("position", "ordinal", "rank"),
    "time": ("time", "timestamp", "date"),
    "client": ("client_id", "client"),
    "user": ("user_id", "user"),
    "session": ("session_id",),
    "search": ("query_id",),
}
"""What a column holds -> names of the column."""
OTHER_USES = frozenset({"eventname", "eventtype", "event", "type"})
"""Columns of actions that may hold something else, where clicks or ratings say what a row is."""
RATING = "rating"
"""The action of a row that is a judgment."""
NAMES = {
    "impression": ("impression", "view", "shown"),
    "click": ("click", "clicked", "select", "select_item"),
    "watch": ("watch", "watched"),
    "add_to_cart": ("add_to_cart", "cart", "add_to_basket"),
    "purchase": ("purchase", "purchased", "conversion", "buy", "order", "transaction"),
    "thumbs_up": ("thumbs_up", "like", "upvote"),
    "thumbs_down": ("thumbs_down", "dislike", "downvote"),
    RATING: (RATING, "rate", "rated", "grade", "judgment"),
}
"""Action -> its names in the tables of other systems."""
MAX_CLICKS = 100
"""Clicks of a row that are stored. Memory counts ten clients without a name, training ten clicks."""
MAX_NAMED = 20
"""Ignored columns that the note names."""


@dataclass(frozen=True)
class Layout:
    """What the whole table tells: meaning -> names of its columns, the names of the others, the lowest position.

    A row takes the first of the columns in which it has a cell.
    """

    columns: dict[str, list[str]]
    ignored: list[str]
    lowest_position: int | None

    @property
    def from_zero(self) -> bool:
        """Whether positions begin at 0."""
        return self.lowest_position == 0


def bare(name: str) -> str:
    """Return the name of a column or an action without case, spaces, hyphens and underscores."""
    return re.sub(r"[\s_-]", "", name).lower()


MEANINGS = {bare(name): meaning for meaning, names in COLUMNS.items() for name in names}
ACTIONS = {bare(name): action for action, names in NAMES.items() for name in names}


def layout_of(path: Path) -> Layout:
    """Return the layout of a table. Columns without a cell are left out. Raises Failure USAGE for an unusable header.

    A column in OTHER_USES beside clicks or ratings holds actions only if all its cells are known actions.
    """
    names: dict[str, str] = {}
    positions: list[int] = []
    other_uses: set[str] = set()
    for one in _records(path):
        if isinstance(one, Record):
            cells = {bare(name): value for name, value in one.value.items()}
            names |= zip(cells, one.value, strict=False)
            position = whole(next((cells[bare(of)] for of in COLUMNS["position"] if bare(of) in cells), None))
            positions = positions if position is None else [min([position, *positions])]
            other_uses |= {name for name in OTHER_USES & cells.keys() if bare(str(cells[name])) not in ACTIONS}
    if not names.keys() & {bare(name) for of in ("clicks", "rating") for name in COLUMNS[of]}:
        other_uses = set()
    used = {meaning: [bare(name) for name in wanted] for meaning, wanted in COLUMNS.items()}
    columns = {
        meaning: found
        for meaning, wanted in used.items()
        if (found := [names[name] for name in wanted if name in names and name not in other_uses])
    }
    taken = {name for found in columns.values() for name in found}
    return Layout(columns, [name for name in names.values() if name not in taken], min(positions, default=None))


def read_events(path: Path, layout: Layout, notes: list[str]) -> Found:
    """Yield the events of each row, and the faults. Rows with a rating alone are left out.

    The user of a row without a client is the client too, so that the events of a user count as those of one client.
    """
    now = datetime.now(UTC).isoformat(timespec="seconds")
    cut = untimed = unplaced = uncounted = 0
    for number, row in _rows(path, layout):
        if isinstance(row, Fault):
            yield row
            continue
        action = row.get("action", "click" if "clicks" in row or "rating" not in row else RATING)
        if action == RATING:
            continue
        clicks = whole(row.get("clicks", 1)) if action == "click" else 1
        if clicks is None:
            yield Fault(number, "invalid_event", "clicks: must be a whole number")
            continue
        cut += clicks > MAX_CLICKS
        untimed += "time" not in row
        position = whole(row.get("position"))
        unplaced += "position" in row and position is None
        uncounted += "clicks" in row and action != "click"
        event = _event(action, row, now, None if position is None else position + layout.from_zero)
        for _ in range(min(clicks, MAX_CLICKS)):
            yield Record(number, event)
    found = {
        f"{cut} rows have more than {MAX_CLICKS} clicks: {MAX_CLICKS} were taken, more have no effect": cut,
        f"{untimed} rows have no time: they count as of now": untimed,
        f"{unplaced} rows have a position that is no whole number from 0 on: it was left out": unplaced,
        f"{uncounted} rows have clicks beside another action: each is one event of that action": uncounted,
        RAISED: layout.from_zero,
        f"these columns were ignored: {', '.join(layout.ignored[:MAX_NAMED])}": layout.ignored,
    }
    notes += [note for note, holds in found.items() if holds]


def _event(action: str, row: dict[str, str], now: str, position: int | None) -> dict[str, Any]:
    """Return the event of a row in the form of the API. position: from 1 on. now: the time of a row without a time."""
    event = {"action_name": action, "user_query": row["query"], "timestamp": as_timestamp(row.get("time", now))}
    client = row.get("client", row.get("user"))
    names = {"client_id": client, "user_id": row.get("user"), "session_id": row.get("session")}
    names["query_id"] = row.get("search")
    event |= {name: value for name, value in names.items() if value is not None}
    attributes: dict[str, Any] = {"object": {"object_id": row["document"]}}
    attributes |= {} if position is None else {"position": {"ordinal": position}}
    return event | {"event_attributes": attributes}


def read_ratings(path: Path, layout: Layout) -> Found:
    """Yield a judgment for each row with a rating. The rater is the user, whose erasure deletes the judgment."""
    for number, row in _rows(path, layout):
        if isinstance(row, Fault) or "rating" not in row:
            continue
        rating = row["rating"]
        value = float(rating) if rating.replace(".", "", 1).isdecimal() else rating
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        judgment = {"query": row["query"], "document_id": row["document"], "rating": value}
        yield Record(number, judgment | {"rater": row.get("user", row.get("client", "import"))})


def _rows(path: Path, layout: Layout) -> Iterator[tuple[int, dict[str, str] | Fault]]:
    """Yield line and row, by what its columns hold; the action is one that the API knows, or RATING."""
    for one in _records(path):
        if isinstance(one, Fault):
            yield one.number, one
            continue
        found = {
            meaning: [one.value[of] for of in names if of in one.value] for meaning, names in layout.columns.items()
        }
        row = {meaning: str(cells[0]) for meaning, cells in found.items() if cells}
        fault = _fault(one, row, layout)
        if fault is None and "action" in row:
            row["action"] = ACTIONS[bare(row["action"])]
        yield one.number, fault or row


def _fault(one: Record, row: dict[str, str], layout: Layout) -> Fault | None:
    """Return why a row is refused, None if it is not."""
    action = row.get("action")
    known = None if action is None else ACTIONS.get(bare(action))
    needed = ["query", "document"]
    needed += ["action"] if "action" in layout.columns and not row.keys() & {"rating", "clicks"} else []
    needed += ["rating"] if known == RATING else []
    for name in needed:
        if name not in row:
            return Fault(one.number, "invalid_event", f"{name}: is required", name, one.value)
    if action is not None and known is None:
        column = next(name for name in layout.columns["action"] if name in one.value)
        detail = f"{column}: {action!r} is not one of {', '.join(NAMES)}"
        return Fault(one.number, "invalid_event", detail, "action", one.value)
    return None


def _records(path: Path) -> Found:
    """Yield the rows of a table. Raises Failure USAGE for an unusable header."""
    with open_plain(path) as stream:
        try:
            found = read_table(stream)
        except UnusableTable as error:
            raise Failure(USAGE, f"{path.name}: {error}") from error
        yield from found
