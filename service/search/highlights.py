"""Finds the words of a query in a hit, as character offsets. The client marks them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import islice
from typing import Any

from index.words.analyzers import analyzer_for
from index.words.tokens import WORD, has_unspaced, is_unspaced, tokens

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

    def for_terms(
        self, terms: Mapping[str, AbstractSet[str]]
    ) -> Callable[[Mapping[str, str | None]], list[dict[str, Any]]]:
        """Return a function from fields (name -> text) to highlights {"field", "start", "end"}, in reading order.

        terms: name of a field -> terms of the index, which are stems.
        """
        wanted = {field: _marked(of_field) for field, of_field in terms.items()}

        def find(fields: Mapping[str, str | None]) -> list[dict[str, Any]]:
            return [
                {"field": field, "start": start, "end": end}
                for field, text in fields.items()
                if text
                for start, end in islice(self._spans(text, wanted[field]), MAX_HIGHLIGHTS)
            ]

        return find

    def _spans(self, text: str, wanted: AbstractSet[str]) -> Iterator[tuple[int, int]]:
        stem = self._stem
        if not has_unspaced(text, SCANNED_CHARACTERS):
            return (word.span() for word in WORD.finditer(text, 0, SCANNED_CHARACTERS) if stem(word[0]) in wanted)
        found = tokens(text, SCANNED_CHARACTERS)
        return _joined((start, end) for start, end, word in found if stem(word) in wanted)

    def _analyzed(self, word: str) -> str:
        return "".join(self._analyzer.analyze(word))


def _marked(terms: AbstractSet[str]) -> AbstractSet[str]:
    """Return the terms that are marked: single letters only where there is no other word."""
    return {term for term in terms if len(term) > 1 or is_unspaced(term)} or terms


def _joined(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield spans, with overlapping spans joined: pairs of characters overlap."""
    before: tuple[int, int] | None = None
    for start, end in spans:
        if before is not None and start < before[1]:
            before = before[0], end
            continue
        if before is not None:
            yield before
        before = start, end
    if before is not None:
        yield before
