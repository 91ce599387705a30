"""The words of a query as numbers, and the words that stand for them: corrections, completions and synonyms.

Letters: Q words of a query, S distinct words of a query (slots), A words that stand for them.
"""

import zlib
from collections.abc import Iterable, Sequence
from enum import IntEnum, StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from index.records import Floats, Ints

Words = NDArray[np.uint32]


class Source(IntEnum):
    """Why a word stands for a word of the query. The BM25 score of a document is split by source."""

    EXACT = 0
    """The word itself, or a synonym of it."""
    CORRECTED = 1
    """A word of the collection with few edits."""
    COMPLETED = 2
    """A word of the collection that begins with the last word of the query, which is not finished."""


class Field(StrEnum):
    """A field of a document that has words. The words of the title come before those of the text."""

    TITLE = "title"
    TEXT = "text"


class Alternative(NamedTuple):
    """A word that stands for a word of the query."""

    position: int
    """The position of the query's word, in [0, Q)."""
    number: int
    """The number of the word that stands for it."""
    idf: float
    factor: float
    """How much the word counts, in (0, 1]."""
    source: Source
    of_phrase: bool = False
    """Whether it stands for the query's word only together with the other words of a phrase."""
    keeps_weight: bool = False
    """Whether the slot keeps the idf of the query's word."""


class Phrase(NamedTuple):
    """A synonym of several words: its own number among the words of a query, and the numbers of its words, in order."""

    number: int
    words: tuple[int, ...]


class QueryWords(NamedTuple):
    """The words of a query as S slots, and the A words that stand for them, ascending by number.

    words (A,) uint32; slot (A,) in [0, S); factor (A,) in (0, 1]; source (A,) as in `Source`; idf (A,). of_query (Q,):
    the slot of each word of the query, in reading order. weight (S,): the weight of each slot for coverage, proximity
    and phrase. exact: whether every slot has its own word alone. uncorrected_fields: the fields in which words with the
    source CORRECTED do not match; empty without such words. phrases: the synonyms of several words, whose numbers are
    among `words` too. parts: the words that no slot has but as a part of a phrase.
    also: pairs of a slot and the number of another slot's own word that stands for it too.
    """

    words: Words
    slot: Ints
    factor: Floats
    source: Ints
    idf: Floats
    of_query: Ints
    weight: Floats
    exact: bool
    uncorrected_fields: frozenset[Field] = frozenset()
    phrases: tuple[Phrase, ...] = ()
    parts: frozenset[int] = frozenset()
    also: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(
        cls,
        numbers: Words,
        idf: Floats,
        alternatives: Sequence[Alternative] = (),
        phrases: tuple[Phrase, ...] = (),
    ) -> "QueryWords":
        """Return the words of a query (Q,) with idf (Q,).

        A slot with alternatives has the smaller of two idf values: its own and the idf of its first alternative that
        does not leave it its weight. Its own word gets this idf too: the words are found together, and the own word may
        be unknown or unfinished.
        An alternative that is a word of the query itself is left out: the document has that word exactly.
        """
        listed = numbers.tolist()
        first = {number: at for at, number in reversed(list(enumerate(listed)))}
        ascending = sorted(first)
        slot_of = {number: slot for slot, number in enumerate(ascending)}
        own, slots = np.asarray(ascending, np.uint32), np.arange(len(ascending))
        of_query = np.asarray([slot_of[number] for number in listed], np.int64)
        weight = idf[[first[number] for number in ascending]]
        others = {(int(of_query[one.position]), one.number): one for one in reversed(alternatives)}
        kept = [(slot, one) for (slot, number), one in reversed(others.items()) if number not in first]
        also = tuple(pair for pair, one in others.items() if pair[1] in first and not one.of_phrase)
        if not kept:
            ones, none = np.ones(len(own), np.float32), np.zeros(len(own), np.int64)
            return cls(own, slots, ones, none, weight, of_query, weight, exact=True, also=also)
        words = np.concatenate([own, np.asarray([one.number for _, one in kept], np.uint32)])
        slot = np.concatenate([slots, np.asarray([slot for slot, _ in kept], np.int64)])
        factor = np.concatenate([np.ones(len(own)), [one.factor for _, one in kept]]).astype(np.float32)
        source = np.concatenate([np.zeros(len(own), np.int64), [int(one.source) for _, one in kept]])
        weight = weight.copy()
        lowering = [(slot, one) for slot, one in kept if not one.keeps_weight]
        for at, one in dict(reversed(lowering)).items():
            weight[at] = min(weight[at], one.idf)
        every_idf = np.concatenate([weight, [one.idf for _, one in kept]]).astype(np.float32)
        order = np.argsort(words, kind="stable")
        alone = {one.number for one in alternatives if not one.of_phrase}
        return cls(
            words[order],
            slot[order],
            factor[order],
            source[order],
            every_idf[order],
            of_query,
            weight,
            exact=False,
            phrases=phrases,
            parts=frozenset(one.number for _, one in kept) - alone,
            also=also,
        )

    def without_parts(self) -> "QueryWords":
        """Return the words of the query with each word of a phrase standing for itself too."""
        return self._replace(parts=frozenset())


def number_words(words: Iterable[str]) -> Words:
    """Return a number per word (T,), the CRC-32 of its bytes: the same on every machine, without a vocabulary."""
    return np.fromiter((zlib.crc32(word.encode("utf-8", "replace")) for word in words), np.uint32)
