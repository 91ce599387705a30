"""Counts the tokens of texts for the passage cutter, which counts each part of a text some twenty times.

A BERT tokenizer splits at white space, at ASCII punctuation and around Chinese characters before it looks for tokens.
The number of tokens of a text is therefore the sum over its words. A word is tokenised once and remembered. Texts of
other tokenizers are tokenised whole.
"""

import json
import re
from collections.abc import Callable

from tokenizers import Tokenizer

PIECE = re.compile(r"[^ \t\n\r!-/:-@\[-`{-~\u4e00-\u9fff]+|[!-/:-@\[-`{-~\u4e00-\u9fff]")
"""A word, a character of punctuation, or a Chinese character. The tokenizer itself splits words further."""
CONTROL = re.compile(r"[\x0b\x0c\x1c-\x1f]")
"""Characters that separate words in Python, and that the tokenizer removes."""
MAX_REMEMBERED_WORDS = 100_000
MAX_REMEMBERED_CHARACTERS = 32
"""A longer word is tokenised each time: remembered words take a bounded memory."""


class TokenCounter:
    """Counts the tokens of a text, without truncation and without special tokens.

    The counter changes the tokenizer: it needs a tokenizer of its own.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self._whole_texts = not _splits_at_words(tokenizer)
        self._special = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        self._words = _Words(self._tokenized)

    def __call__(self, text: str) -> int:
        """Return the number of tokens."""
        if self._whole_texts or any(special in text for special in self._special):
            return self._tokenized(text)
        plain = text.isascii() and not CONTROL.search(text)
        return sum(map(self._words.__getitem__, text.split() if plain else PIECE.findall(text)))

    def _tokenized(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)


class _Words(dict[str, int]):
    """Word -> its number of tokens. A missing word is counted."""

    def __init__(self, count: Callable[[str], int]) -> None:
        super().__init__()
        self._count = count

    def __missing__(self, word: str) -> int:
        tokens = self._count(word)
        if len(word) <= MAX_REMEMBERED_CHARACTERS:
            if len(self) >= MAX_REMEMBERED_WORDS:
                self.clear()
            self[word] = tokens
        return tokens


def _splits_at_words(tokenizer: Tokenizer) -> bool:
    """Return whether the tokens of a text are the tokens of its pieces."""
    parts = json.loads(tokenizer.to_str())
    kinds = [(parts[name] or {}).get("type") for name in ("normalizer", "pre_tokenizer", "model")]
    return (
        kinds == ["BertNormalizer", "BertPreTokenizer", "WordPiece"]
        and parts["normalizer"]["handle_chinese_chars"]
        and not any(token["normalized"] for token in parts["added_tokens"])
    )
