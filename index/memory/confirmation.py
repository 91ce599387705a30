"""A confirmation: one event or judgment about a document for a past query, as memory uses it."""

from dataclasses import dataclass

from index.records import Floats

Pair = tuple[str, int]
"""A query key and the row of a document."""


@dataclass(frozen=True, eq=False, slots=True)
class Confirmation:
    """An event or judgment that confirms, or rejects, the document `row` for a past query with this vector (D,).

    grade: signed, 1 for a click; 0 is the rating 0, which only counts in the mean rating and needs no vector. client:
    None if unknown. moment: milliseconds since 1970, UTC. judged: True for a judgment, False for an event. position:
    the 1-based position of the document of an event in its list, None if unknown. tenant: the tenant of an event, whose
    clicks are merged apart from those of other tenants; empty for a judgment and an event of no tenant. from_browser:
    whether a key made for browsers sent the event.
    """

    id: int
    row: int
    query_key: str
    vector: Floats
    grade: float
    client: str | None
    moment: int
    judged: bool = False
    position: int | None = None
    tenant: str = ""
    from_browser: bool = False

    @property
    def pair(self) -> Pair:
        """The query key and the row."""
        return self.query_key, self.row
