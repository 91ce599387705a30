"""Where the words of a query stand in a hit, as character offsets; the client marks them as it likes."""

import re
from typing import Any

from index.lexical import analyzer_for

WORD = re.compile(r"\w+")
MOST = 50
"""Highlights of a field."""
SCANNED_CHARACTERS = 20_000
"""Of a field's text: a hit is not delayed by a book."""


class Highlighter:
    """Finds words that the index takes for the same as a word of the query: `copies` for `copy`."""

    def __init__(self, language: str) -> None:
        self._analyzer = analyzer_for(language)
        self._stems: dict[str, str] = {}

    def find(self, query: str, fields: dict[str, str | None]) -> list[dict[str, Any]]:
        """Return {"field", "start", "end"} for each field's words that are in the query, in reading order."""
        tokens = set(self._analyzer.analyze(query))
        wanted = {token for token in tokens if len(token) > 1} or tokens  # a single letter says nothing beside words
        found = []
        for field, text in fields.items():
            spans = []
            for match in WORD.finditer((text or "")[:SCANNED_CHARACTERS]):
                if self._stem(match.group()) in wanted:
                    spans.append({"field": field, "start": match.start(), "end": match.end()})
                    if len(spans) == MOST:
                        break
            found += spans
        return found

    def _stem(self, word: str) -> str:
        stem = self._stems.get(word)
        if stem is None:
            if len(self._stems) > 100_000:
                self._stems.clear()
            stem = self._stems[word] = "".join(self._analyzer.analyze(word))
        return stem
