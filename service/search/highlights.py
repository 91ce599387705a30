"""Finds the words of a query in a hit, as character offsets. The client marks them."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

from index.words.bm25_index import analyzer_for

WORD = re.compile(r"\w+")
MAX_HIGHLIGHTS = 50
"""Highlights of a field."""
CACHED_STEMS = 100_000
"""Words whose stems are cached: most words of a language."""
SCANNED_CHARACTERS = 20_000
"""Characters of a field that are scanned. The limit bounds the time for a very long text."""


class Highlighter:
    """Finds words that the index treats as equal to a word of the query, such as `copies` for `copy`."""

    def __init__(self, language: str) -> None:
        self._analyzer = analyzer_for(language)
        self._stem = lru_cache(CACHED_STEMS)(self._analyzed)

    def for_query(self, query: str) -> Callable[[Mapping[str, str | None]], list[dict[str, Any]]]:
        """Return a function from fields (name -> text) to highlights {"field", "start", "end"}, in reading order."""
        tokens = set(self._analyzer.analyze(query))
        wanted = {token for token in tokens if len(token) > 1} or tokens  # single letters only if there are no words

        def find(fields: Mapping[str, str | None]) -> list[dict[str, Any]]:
            return [
                {"field": field, "start": word.start(), "end": word.end()}
                for field, text in fields.items()
                if text
                for word in islice(self._words(text, wanted), MAX_HIGHLIGHTS)
            ]

        return find

    def _words(self, text: str, wanted: set[str]) -> Iterator[re.Match[str]]:
        stem = self._stem
        return (word for word in WORD.finditer(text, 0, SCANNED_CHARACTERS) if stem(word[0]) in wanted)

    def _analyzed(self, word: str) -> str:
        return "".join(self._analyzer.analyze(word))
