"""Makes training data of explored lists as they are logged, and says which logged searches can be repeated."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from index.learning.slates import SLATE, Slate

ANSWERED = "answered"
"""Stands beside the parameters of a logged search, false where its response said that no document answers the query."""
REPEATABLE = {"limit", "offset", "filter", "mode", "candidates", "explore", ANSWERED}
"""Parameters that a repeatable search may have. Its filter is empty: the metadata of documents may have changed."""


def is_repeatable(request: Mapping[str, Any]) -> bool:
    """Return whether a logged search selects its documents by its words alone, so that it can be repeated.

    A filter, a context, a threshold, `distinct` or another reading of the words makes the documents to choose from
    depend on more than the query.
    """
    return not request.get("filter") and request.keys() <= REPEATABLE


def slate_of(hits: Sequence[Mapping[str, Any]], rows: Mapping[str, int], confirmed: Iterable[int]) -> Slate | None:
    """Return the explored list of a logged search; None if it is not explored or a document is gone.

    hits: the logged hits in the order of their positions. rows: document id -> row. confirmed: the rows that a
    client confirms in this list.
    """
    first, clicked = hits[:SLATE], set(confirmed)
    if not first or any("selection_probability" not in hit or hit["id"] not in rows for hit in first):
        return None
    if [hit["position"] for hit in first] != list(range(1, len(first) + 1)):
        return None
    shown = tuple(rows[hit["id"]] for hit in first)
    return Slate(
        rows=shown,
        kept=tuple(bool(hit.get("pinned") or hit.get("exact_rating")) for hit in first),
        probabilities=tuple(float(hit["selection_probability"]) for hit in first),
        clicked=tuple(row in clicked for row in shown),
    )
