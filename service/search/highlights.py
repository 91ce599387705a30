"""Finds the words of a query in a hit, as character offsets. The client marks them.

The stem of a word is computed once and kept, with the words of each stem. So a text is cut into parts at its ASCII
separators, which is fast, and only the words with a stem of the query are looked for.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from index.words.analyzers import analyzer_for
from index.words.plain_text import UNUSUAL, is_plain, traced
from index.words.tokens import ASCII_SEPARATORS, WORD, has_unspaced, in_word, is_unspaced, plain_tokens

Span = tuple[int, int]
MAX_HIGHLIGHTS = 50
"""Highlights of a field."""
CACHED_TOKENS = 100_000
"""Words and pairs of characters whose stems are cached, of texts without spaces."""
CACHED_BYTES = 1_000_000
"""Bytes of the parts of texts whose stems are cached: most words of a language."""
SCANNED_CHARACTERS = 20_000
"""Characters of a field that are scanned. The limit bounds the time for a very long text."""
WINDOW_CHARACTERS = 4_096
"""Characters that are cut into parts at once. A text with many highlights is read no further than it needs."""


class _Stems:
    """The words of each stem, of the parts of texts that were seen. They only grow: searches read them without a lock.

    words: stem -> pairs of a part and a word in it. parts: all parts whose words are in `words`.
    """

    def __init__(self) -> None:
        self.words: dict[str, tuple[tuple[bytes, str], ...]] = {}
        self.parts: set[bytes] = set()
        self.bytes = 0

    def add(self, part: bytes, stem_of: Callable[[str], str]) -> None:
        """Add the words of a part. One thread at a time."""
        for word in WORD.findall(part.decode("utf-8", "surrogatepass")):
            stem = stem_of(word)
            self.words[stem] = (*self.words.get(stem, ()), (part, word))
        self.parts.add(part)  # after its words, because readers look here first
        self.bytes += len(part)


class Highlighter:
    """Finds words that the index treats as equal to a word of the query, such as `copies` for `copy`."""

    def __init__(self, language: str) -> None:
        self._analyzer = analyzer_for(language)
        self._stems = _Stems()
        self._lock = threading.Lock()
        self._stem_of_token = lru_cache(CACHED_TOKENS)(self._analyzed)

    def for_terms(self, terms: Mapping[str, AbstractSet[str]], runs: Sequence[tuple[str, ...]] = ()) -> "Marker":
        """Return what marks these terms.

        terms: name of a field -> terms of the index, which are stems. runs: terms that are marked in every field where
        they follow each other; one of them at least is a pair of characters, or the first is the first group of a
        number.
        """
        return Marker(self, {field: _marked(of_field) for field, of_field in terms.items()}, runs)

    def spans(self, text: str, wanted: AbstractSet[str], runs: Sequence[tuple[str, ...]]) -> list[Span]:
        """Return the spans of the first words whose stems are wanted, in reading order, at most MAX_HIGHLIGHTS."""
        scanned = text[:SCANNED_CHARACTERS]
        if not _may_have_number(scanned, runs) and (scanned.isascii() or UNUSUAL.search(scanned) is None):
            return self._spans_of_words(scanned, wanted)[:MAX_HIGHLIGHTS]
        if is_plain(scanned):
            return self._spans_of_plain(scanned, wanted, runs)
        made, starts, ends = traced(scanned)
        spans = ((starts[start], ends[end - 1]) for start, end in self._spans_of_plain(made, wanted, runs))
        return list(dict.fromkeys(spans))  # a fraction is one character and two words

    def _spans_of_plain(self, text: str, wanted: AbstractSet[str], runs: Sequence[tuple[str, ...]]) -> list[Span]:
        if not has_unspaced(text, len(text)) and not _may_have_number(text, runs):
            return self._spans_of_words(text, wanted)[:MAX_HIGHLIGHTS]
        stem, single = self._stem_of_token, {term for term in wanted if len(term) == 1 and is_unspaced(term)}
        if runs:
            found = [(start, end, stem(word)) for start, end, word in plain_tokens(text)]
            within = _places_of(runs, [term for _, _, term in found])
            pairs = [(start, end) for at, (start, end, term) in enumerate(found) if term in wanted or at in within]
        else:
            pairs = [(start, end) for start, end, word in plain_tokens(text) if stem(word) in wanted]
        if single:  # the pairs of such a character are marked by it alone
            pairs = [(start, end) for start, end in pairs if single.isdisjoint(text[start:end])]
            pairs = sorted([*pairs, *((at, at + 1) for at, one in enumerate(text) if one in single)])
        return list(islice(_joined(pairs), MAX_HIGHLIGHTS))

    def _spans_of_words(self, text: str, wanted: AbstractSet[str]) -> list[Span]:
        """Return spans of a plain text whose words are all separated, MAX_HIGHLIGHTS or more if there are as many."""
        found: list[Span] = []
        start, end = 0, len(text)
        while start < end and len(found) < MAX_HIGHLIGHTS:
            stop = _word_end(text, min(start + WINDOW_CHARACTERS, end), end)
            parts = set(text[start:stop].encode("utf-8", "surrogatepass").translate(ASCII_SEPARATORS).split())
            words = self._stems_of(parts).words
            marked = {word for stem in wanted for part, word in words.get(stem, ()) if part in parts}
            if marked:
                found += _occurrences(text, marked, start, stop)
            start = stop
        return found

    def _stems_of(self, parts: set[bytes]) -> _Stems:
        """Return stems that have the words of all these parts."""
        stems = self._stems
        if not parts <= stems.parts:
            with self._lock:
                if self._stems.bytes > CACHED_BYTES:
                    self._stems = _Stems()
                stems = self._stems
                for part in parts - stems.parts:
                    stems.add(part, self._analyzed)
        return stems

    def _analyzed(self, word: str) -> str:
        return "".join(self._analyzer.analyze(word))


@dataclass(frozen=True)
class Marker:
    """Marks the words of one query. wanted: name of a field -> terms; runs: as in `Highlighter.for_terms`."""

    highlighter: Highlighter
    wanted: Mapping[str, AbstractSet[str]]
    runs: Sequence[tuple[str, ...]]

    def __call__(self, fields: Mapping[str, str | None]) -> list[dict[str, Any]]:
        """Return the highlights {"field", "start", "end"} of fields (name -> text), in reading order."""
        return [
            {"field": field, "start": start, "end": end}
            for field, text in fields.items()
            if text
            for start, end in self.highlighter.spans(text, self.wanted[field], self.runs)
        ]

    def near_passage(self, text: str, found: Sequence[Span], best: Span, length: int) -> Sequence[Span]:
        """Return spans of a text with these highlights, and those of a passage and of `length` characters after it.

        Frequent words may use up the highlights of a long text before the passage begins.
        """
        start, end = best[0], best[1] + length
        if len(found) < MAX_HIGHLIGHTS and end <= SCANNED_CHARACTERS:
            return found
        end = _word_end(text, end, len(text))
        inside = self.highlighter.spans(text[start:end], self.wanted["text"], self.runs)
        before, after = ([one for one in found if one[1] <= start], [one for one in found if one[0] >= end])
        return [*before, *((start + a, start + b) for a, b in inside), *after]


def _marked(terms: AbstractSet[str]) -> AbstractSet[str]:
    """Return the terms that are marked: single letters only where there is no other word."""
    return {term for term in terms if len(term) > 1 or term.isdigit() or is_unspaced(term)} or terms


def _may_have_number(text: str, runs: Sequence[tuple[str, ...]]) -> bool:
    """Return whether a text has the first group of a number that is one of the runs."""
    return any(run[0].isdigit() and run[0] in text for run in runs)


def _places_of(runs: Iterable[tuple[str, ...]], terms: Sequence[str]) -> AbstractSet[int]:
    """Return the places of the terms of a text that belong to a whole run."""
    by_first: dict[str, list[tuple[str, ...]]] = {}
    for run in runs:
        by_first.setdefault(run[0], []).append(run)
    found: set[int] = set()
    for at, term in enumerate(terms):
        for run in by_first.get(term, ()):
            if tuple(terms[at : at + len(run)]) == run:
                found.update(range(at, at + len(run)))
    return found


def _word_end(text: str, at: int, end: int) -> int:
    """Return the end of the word that continues at a position, or the position."""
    word = WORD.match(text, at, end)
    return at if word is None else word.end()


def _occurrences(text: str, words: Iterable[str], start: int, stop: int) -> list[Span]:
    """Return the spans of words in a part of a text, in reading order. The part cuts no word."""
    found: list[Span] = []
    inside = str.isalnum if text.isascii() else in_word
    for word in words:
        at = text.find(word, start, stop)
        while at >= 0:
            end = at + len(word)
            if (at > start and inside(text[at - 1])) or (end < stop and inside(text[end])):
                end = _word_end(text, end, stop)  # inside a longer word
            else:
                found.append((at, end))
            at = text.find(word, end, stop)
    found.sort()
    return found


def _joined(spans: Iterable[Span]) -> Iterator[Span]:
    """Yield spans, with overlapping spans joined: pairs of characters overlap."""
    before: Span | None = None
    for start, end in spans:
        if before is not None and start < before[1]:
            before = before[0], end
            continue
        if before is not None:
            yield before
        before = start, end
    if before is not None:
        yield before
