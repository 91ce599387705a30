"""Cuts a document's text into passages that fit the encoder's window, at sentence borders where there are any.

Sees text and character offsets, never vectors. The cutting itself is semantic-text-splitter's: it takes the largest
semantic unit (paragraph, sentence, word, character) that fits the capacity.
"""

from collections.abc import Callable
from dataclasses import dataclass

from semantic_text_splitter import TextSplitter

OVERLAP_TOKENS = 32
"""Tokens that neighbouring passages share, so that a sentence cut by the window is whole in one of them."""

SENTENCE_TOKENS = 32
"""Capacity of a sentence key: one long sentence, or a few short ones that stand together."""

SPECIAL_TOKENS = 4
"""Room for the tokens that the model adds around and between title and text."""

MAX_TITLE_SHARE = 0.25
"""A title never takes more than this share of a passage's window; the rest of it is left to the title key."""


@dataclass(frozen=True)
class Span:
    """Characters [start, end) of a document's text, and what the encoder reads for them."""

    start: int
    end: int
    encoded_text: str


class PassageCutter:
    """Cuts texts for one encoder.

    count_tokens counts as the encoder does; window_tokens is the longest input that the encoder reads to its end.
    """

    def __init__(self, count_tokens: Callable[[str], int], window_tokens: int) -> None:
        self._count = count_tokens
        self._window_tokens = window_tokens

    def passages(self, text: str, title: str | None) -> list[Span]:
        """Return passages of at most the window, overlapping; each is read with the document's title before it.

        A document with a title and no text has one passage: its title. One with neither has none.
        """
        prefix = self._prefix(title)
        capacity = self._window_tokens - SPECIAL_TOKENS - self._count(prefix)
        spans = [
            Span(start, start + len(chunk), prefix + chunk)
            for start, chunk in self._chunks(text, capacity, OVERLAP_TOKENS)
        ]
        if not spans and prefix.strip():
            return [Span(0, 0, prefix.strip())]
        return spans

    def sentences(self, text: str) -> list[Span]:
        """Return the text's sentences, without overlap; short neighbours stay together up to SENTENCE_TOKENS."""
        chunks = self._chunks(text, SENTENCE_TOKENS, 0)
        return [Span(start, start + len(chunk), chunk) for start, chunk in chunks]

    def _prefix(self, title: str | None) -> str:
        if not title or not title.strip():
            return ""
        limit = int(self._window_tokens * MAX_TITLE_SHARE)
        words = title.strip()
        while self._count(words) > limit:
            words = words[: max(1, int(len(words) * limit / self._count(words)) - 1)]
        return words + "\n"

    def _chunks(self, text: str, capacity: int, overlap: int) -> list[tuple[int, str]]:
        # counting by a callback: handing the tokenizer itself over would copy its vocabulary for every document
        overlap = min(overlap, capacity // 2)  # a small window: every passage must bring something new
        return TextSplitter.from_callback(self._count, capacity, overlap=overlap).chunk_indices(text)
