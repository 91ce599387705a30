"""Reads judgments as the Search Relevance Workbench of OpenSearch exports them.

{"judgmentRatings": [{"query": "red shoe", "ratings": [{"docId": "7", "rating": "75.0"}]}]}
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from service.cli.records import BOM, Fault, Found, Record, head_of, opened

RATINGS = "judgmentRatings"
MAX_GRADE = 4
SCALES = (1.0, 4.0, 100.0)
"""The highest ratings of the scales in use. The whole file tells its scale: the smallest that holds every rating."""


def is_workbench_export(content: Any) -> bool:
    """Return whether a JSON value is such an export."""
    return isinstance(content, dict) and isinstance(content.get(RATINGS), list)


def load_export(path: Path) -> Any:
    """Return the export of a file, also one in `_source`, as a search returns it; None for any other file."""
    if head_of(path).removeprefix(BOM).lstrip()[:1] != b"{":
        return None
    try:
        with opened(path) as stream:
            content = orjson.loads(stream.read().removeprefix(BOM))
    except orjson.JSONDecodeError:
        return None
    inner = content.get("_source", content) if isinstance(content, dict) else content
    return inner if is_workbench_export(inner) else None


def scale_of(export: dict[str, Any]) -> float:
    """Return the highest rating of the scale of an export: 100 unless every rating fits 0 to 4, or 0 to 1."""
    ratings = [value for _, _, rating in _ratings(export) if (value := number(rating)) is not None]
    highest = max(ratings, default=100.0)
    if highest == 1 and all(rating.is_integer() for rating in ratings):
        return 4.0  # grades 0 and 1
    return next((scale for scale in SCALES if highest <= scale), SCALES[-1])


def read_export(export: dict[str, Any], scale: float) -> Found:
    """Yield the judgments of an export as grades 0 to 4, numbered in the order of the file."""
    for at, (query, document, rating) in enumerate(_ratings(export), 1):
        value = number(rating)
        if not isinstance(query, str) or document is None:
            yield Fault(at, "invalid_judgment", "expected a query with ratings, each with docId and rating")
        elif value is None or not 0 <= value <= scale:
            yield Fault(at, "invalid_judgment", f"rating: must be a number from 0 to {scale:g}")
        else:
            grade = math.floor(value * MAX_GRADE / scale + 0.5)
            yield Record(at, {"query": query, "document_id": str(document), "rating": grade})


def number(rating: Any) -> float | None:
    """Return a rating, a number or text, as a number; None for any other value."""
    try:
        value = float(rating)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


def _ratings(export: dict[str, Any]) -> Iterator[tuple[Any, Any, Any]]:
    """Yield query, document and rating."""
    for judged in export[RATINGS]:
        ratings = judged.get("ratings") if isinstance(judged, dict) else None
        if not isinstance(ratings, list):
            yield None, None, None
            continue
        for one in ratings:
            found = one if isinstance(one, dict) else {}
            yield judged.get("query"), found.get("docId"), found.get("rating")
