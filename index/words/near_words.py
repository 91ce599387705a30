"""Finds the words few edits away. Only words with nearly the same letters are compared.

An edit inserts, removes or replaces a letter, or exchanges two adjacent letters (optimal string alignment, Boytsov
2011). The signature of a word has 64 bits; the bit of each letter is its code point modulo 64. An insertion or a
removal changes at most one bit, a replacement two, an exchange none. Words whose signatures differ in more bits are
farther away.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import process
from rapidfuzz.distance import OSA

from index.words.postings import Counted

Near = tuple[int, str, int]
"""Edits, word, number of documents with it."""
BITS = 64


class WordsByLength:
    """Words with their counts, by the number of their letters; safe to share between threads."""

    def __init__(self, counted: Iterable[Counted]) -> None:
        by_length: dict[int, list[Counted]] = {}
        for one in counted:
            by_length.setdefault(len(one[0]), []).append(one)
        self._by_length = by_length
        self._signatures = lru_cache(None)(lambda length: _signatures([word for word, _ in by_length[length]], length))

    def near(self, word: str, edits: int) -> list[Near]:
        """Return the words at most `edits` away."""
        found: list[Near] = []
        own = _signature(word)
        for length in range(len(word) - edits, len(word) + edits + 1):  # an edit changes the length by at most one
            if length in self._by_length:
                most = 2 * edits - abs(length - len(word))  # an edit that changes the length replaces nothing
                kept = self._chosen(length, np.bitwise_count(self._signatures(length) ^ own) <= most)
                found += _compared(word, kept, [one for one, _ in kept], edits)
        return found

    def near_prefix(self, prefix: str, edits: int) -> list[Near]:
        """Return the words whose beginning is at most `edits` away from a prefix, with the edits of the best one."""
        own = _signature(prefix)
        kept = [
            one
            for length in self._by_length
            for one in self._chosen(length, np.bitwise_count(own & ~self._signatures(length)) <= edits)
        ]
        best: dict[str, Near] = {}
        for length in range(max(2, len(prefix) - edits), len(prefix) + edits + 1):
            for near in _compared(prefix, kept, [word[:length] for word, _ in kept], edits):
                best[near[1]] = min(best.get(near[1], near), near)
        return list(best.values())

    def _chosen(self, length: int, mask: NDArray[np.bool_]) -> list[Counted]:
        """Return the words of a length that a mask (n,) selects."""
        words = self._by_length[length]
        return [words[at] for at in np.flatnonzero(mask).tolist()]


def _compared(word: str, counted: Sequence[Counted], compared: Sequence[str], edits: int) -> list[Near]:
    """Return the words of which `compared`, the words or their beginnings, are at most `edits` away."""
    near = process.extract(word, compared, scorer=OSA.distance, score_cutoff=edits, limit=None)
    return [(int(distance), *counted[at]) for _, distance, at in near]


def _signature(word: str) -> np.uint64:
    bits = 0
    for letter in word:
        bits |= 1 << ord(letter) % BITS
    return np.uint64(bits)


def _signatures(words: Sequence[str], length: int) -> NDArray[np.uint64]:
    """Return the signatures (n,) of n words of one length, at least 1."""
    letters = np.frombuffer("".join(words).encode("utf-32-le"), "<u4").reshape(-1, length)
    bits = np.left_shift(np.uint64(1), (letters % BITS).astype(np.uint64))
    signatures: NDArray[np.uint64] = np.bitwise_or.reduce(bits, axis=1)
    return signatures
