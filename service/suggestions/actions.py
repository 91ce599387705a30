"""Completes a query that is being typed with queries of the log that led to clicks.

A query is suggested when several clients sent it, so that no suggestion shows what a single person typed. It has no
word that the owner of the collection excludes.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from index.memory.query_key import as_query_key
from index.words.reading_options import folded
from service.runtime.search_runtime import SearchRuntime
from service.runtime.served_collection import ServedCollection
from service.suggestions import repository


def suggest(runtime: SearchRuntime, state: ServedCollection, typed: str, limit: int) -> dict[str, Any]:
    """Return the completions of a text, most clicks first, ties by text. White space only has no completions."""
    prefix = prefix_of(typed)
    if not prefix:
        return {"suggestions": []}
    with runtime.database.read() as connection:
        clicked = repository.clicked_queries(connection, state.id, prefix)
        clients = repository.client_counts(connection, state.id, prefix)
    clicks: Counter[str] = Counter()
    spellings: dict[str, tuple[int, str]] = {}
    for (key, text), count in sorted(clicked.items()):
        clicks[key] += count
        spellings[key] = max(spellings.get(key, (0, "")), (count, text))
    settings = state.settings.suggestions
    off = [folded(words) for words in settings["off_words"]]
    found = [key for key in clicks if clients.get(key, 0) >= settings["min_clients"] and not _has_one(key, off)]
    best = sorted(found, key=lambda key: (-clicks[key], key))[:limit]
    return {"suggestions": [{"q": spellings[key][1], "clicks": clicks[key]} for key in best]}


def _has_one(query_key: str, off: Iterable[str]) -> bool:
    """Return whether a query contains one of these words or phrases, which are folded."""
    words = f" {folded(query_key)} "
    return any(one and f" {one} " in words for one in off)


def prefix_of(typed: str) -> str:
    """Return the beginning of the query keys that complete a text. A blank at its end also ends its last word."""
    key = as_query_key(typed)
    return f"{key} " if key and typed[-1].isspace() else key
