"""Where the words of a query stand in a hit, as character offsets; the client marks them as it likes."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

from index.words.bm25_index import analyzer_for

WORD = re.compile(r"\w+")
MOST = 50
"""Highlights of a field."""
STEMS = 100_000
"""Words whose stems are kept: most of a language's."""
SCANNED_CHARACTERS = 20_000
"""Of a field's text: a hit is not delayed by a book."""


class Highlighter:
    """Finds words that the index takes for the same as a word of the query: `copies` for `copy`."""

    def __init__(self, language: str) -> None:
        self._analyzer = analyzer_for(language)
        self._stem = lru_cache(STEMS)(self._analyzed)

    def of(self, query: str) -> Callable[[Mapping[str, str | None]], list[dict[str, Any]]]:
        """Return what finds the words of a query in fields: {"field", "start", "end"} each, in reading order."""
        tokens = set(self._analyzer.analyze(query))
        wanted = {token for token in tokens if len(token) > 1} or tokens  # a single letter says nothing beside words

        def find(fields: Mapping[str, str | None]) -> list[dict[str, Any]]:
            return [
                {"field": field, "start": word.start(), "end": word.end()}
                for field, text in fields.items()
                if text
                for word in islice(self._words(text, wanted), MOST)
            ]

        return find

    def _words(self, text: str, wanted: set[str]) -> Iterator[re.Match[str]]:
        stem = self._stem
        return (word for word in WORD.finditer(text, 0, SCANNED_CHARACTERS) if stem(word[0]) in wanted)

    def _analyzed(self, word: str) -> str:
        return "".join(self._analyzer.analyze(word))
