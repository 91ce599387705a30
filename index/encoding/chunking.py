"""Cuts the text of a document into passages that fit the encoder's window, at sentence boundaries where possible.

Sees text and character offsets, never vectors. semantic-text-splitter does the cutting: it takes the largest semantic
unit (paragraph, sentence, word, character) that fits the capacity.
"""

from collections.abc import Callable
from dataclasses import dataclass

from semantic_text_splitter import TextSplitter

from index.encoding.windows import cut_in_windows

SENTENCE_TOKENS = 32
"""Capacity of a sentence key: one long sentence, or a few short neighbouring sentences."""

SPECIAL_TOKENS = 4
"""Tokens reserved for those that the model adds around and between title and text."""

MAX_TITLE_SHARE = 0.25
"""The largest share of a passage's window that the title takes. A longer title is cut."""


@dataclass(frozen=True)
class Span:
    """Characters [start, end) of a document's text, and the text that the encoder reads for them."""

    start: int
    end: int
    encoded_text: str


class PassageCutter:
    """Cuts texts for one encoder.

    count_tokens returns the number of tokens of a text for this encoder. window_tokens is the longest input, in tokens,
    that the encoder reads without truncation.
    """

    def __init__(self, count_tokens: Callable[[str], int], window_tokens: int) -> None:
        self._count = count_tokens
        self._window_tokens = window_tokens

    def passages(self, text: str, title: str | None) -> list[Span]:
        """Return passages that fit the window, without overlap; the encoder reads each with the title before it.

        A document with a title and no text has one passage, its title. A document with neither has none.
        """
        prefix = self._prefix(title)
        capacity = self._window_tokens - SPECIAL_TOKENS - self._count(prefix)
        spans = [Span(start, start + len(chunk), prefix + chunk) for start, chunk in self._chunks(text, capacity)]
        if not spans and prefix.strip():
            return [Span(0, 0, prefix.strip())]
        return spans

    def sentences(self, text: str) -> list[Span]:
        """Return the sentences of the text, without overlap. Short neighbours are joined up to SENTENCE_TOKENS."""
        chunks = self._chunks(text, SENTENCE_TOKENS)
        return [Span(start, start + len(chunk), chunk) for start, chunk in chunks]

    def _prefix(self, title: str | None) -> str:
        if not title or not title.strip():
            return ""
        limit = int(self._window_tokens * MAX_TITLE_SHARE)
        words = title.strip()
        while self._count(words) > limit:
            words = words[: max(1, int(len(words) * limit / self._count(words)) - 1)]
        return words + "\n"

    def _chunks(self, text: str, capacity: int) -> list[tuple[int, str]]:
        # a callback: passing the tokenizer itself would copy its vocabulary for every document
        splitter = TextSplitter.from_callback(self._count, capacity)
        return cut_in_windows(splitter.chunk_indices, text, capacity)
