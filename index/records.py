"""The records that the floors hand to each other: a document as posted, its keys, and what a search returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

MetadataValue = str | float | int | bool | list[str]


class KeyKind(IntEnum):
    """What a key was made from. The number is stored; it never changes its meaning."""

    TITLE = 0
    PASSAGE = 1
    SENTENCE = 2
    QUERY = 3

    @property
    def label(self) -> str:
        """The name used in JSON, in SQL and on the command line."""
        return self.name.lower()


OWN_KINDS = (KeyKind.TITLE, KeyKind.PASSAGE, KeyKind.SENTENCE)
"""Kinds made from a document's own words; `query` keys come from feedback."""

LEXICAL = ("words", "coverage", "proximity", "phrase")
"""What is measured of the words that a document shares with a query: BM25, and the three of `index.words.term_matching`."""

FACTS = ("length", "rarest", "peaked")
"""What is known of a query before any document is weighed, each in [0, 1]; `retrieval.query_facts` says how."""


@dataclass(frozen=True)
class Document:
    """A document as posted."""

    id: str
    text: str
    title: str | None = None
    url: str | None = None
    metadata: Mapping[str, MetadataValue] = field(default_factory=dict)


@dataclass(frozen=True)
class Key:
    """A unit vector (D,) that queries are matched against, and the characters of the text it stands for."""

    kind: KeyKind
    vector: Floats
    start: int = 0
    end: int = 0
    weight: float = 1.0


@dataclass(frozen=True)
class MemoryKey:
    """A past query (D,) that confirms the document `row` with a signed weight; `source` is its text, normalised.

    One per source and row: `count` confirmations are merged in it.
    """

    row: int
    vector: Floats
    weight: float
    query_key: str
    count: int = 1
