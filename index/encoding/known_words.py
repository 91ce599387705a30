"""The words that an encoder knows as wholes, from the vocabulary of its tokenizer.

Frequent words of a language are single tokens. A query with such a word is spelled right, also when no document of the
collection contains it.
"""

from collections.abc import Iterable

CONTINUATION = "##"
"""Prefix of a token inside a word, in WordPiece vocabularies (Schuster and Nakajima 2012)."""
BEGINNINGS = ("▁", "Ġ")
"""Prefixes of a token at the beginning of a word, in SentencePiece and byte-level vocabularies."""


def known_words(vocabulary: Iterable[str]) -> frozenset[str]:
    """Return the words of letters alone, in lower case, that are single tokens."""
    tokens = list(vocabulary)
    begin = [token[1:] for token in tokens if token.startswith(BEGINNINGS)]
    words = begin or [token for token in tokens if not token.startswith(CONTINUATION)]
    return frozenset(word.lower() for word in words if len(word) > 1 and word.isalpha())
