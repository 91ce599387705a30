"""The words that an encoder knows as wholes, from the vocabulary of its tokenizer.

Frequent words of a language are single tokens. A query with such a word is spelled right, also when no document of the
collection contains it.
"""

from collections.abc import Iterable, Sequence

CONTINUATION = "##"
"""Prefix of a token inside a word, in WordPiece vocabularies (Schuster and Nakajima 2012)."""
BEGINNINGS = ("▁", "Ġ")
"""Prefixes of a token at the beginning of a word, in SentencePiece and byte-level vocabularies."""

UNKNOWN = ("[UNK]", "<unk>")
"""The token of text without another token, in WordPiece, and in SentencePiece and byte-level vocabularies."""


def known_share(ids: Sequence[int], unknown: int | None, special: int) -> float:
    """Return the share of the tokens of a text that are not the unknown token; 0 without tokens.

    ids: with as many special tokens as the tokenizer adds to a text. unknown: the unknown token, if there is one.
    """
    count = len(ids) - special
    if count <= 0:
        return 0.0
    return 1.0 if unknown is None else 1 - ids.count(unknown) / count


def known_words(vocabulary: Iterable[str]) -> frozenset[str]:
    """Return the words of letters alone, in lower case, that are single tokens."""
    tokens = list(vocabulary)
    begin = [token[1:] for token in tokens if token.startswith(BEGINNINGS)]
    words = begin or [token for token in tokens if not token.startswith(CONTINUATION)]
    return frozenset(word.lower() for word in words if len(word) > 1 and word.isalpha())
