"""Records that several packages share: a posted document, its keys, and the keys of the memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

MetadataScalar = str | float | int | bool
MetadataValue = MetadataScalar | list[MetadataScalar]


class KeyKind(IntEnum):
    """The source of a key. The numbers are stored in databases and files and never change."""

    TITLE = 0
    PASSAGE = 1
    SENTENCE = 2
    QUERY = 3

    @property
    def label(self) -> str:
        """The name used in JSON, in SQL and on the command line."""
        return self.name.lower()


OWN_KINDS = (KeyKind.TITLE, KeyKind.PASSAGE, KeyKind.SENTENCE)
"""Kinds made from a document's own text; `query` keys come from feedback."""

LEXICAL = ("words", "coverage", "proximity", "phrase", "corrected", "completed")
"""Word features of a document for a query: the BM25 share of exact words, the three features of
`index.words.term_matching`, and the BM25 shares of corrected and of completed words."""

SIGNALS = ("title_coverage", "title_density", "title_bm25", "rarest", "best_match", "missing", "length")
"""Features of a document for a query that only trees read; `index.words.document_signals` defines them."""

FACTS = ("length", "rarest", "peaked")
"""Features of a query alone, each in [0, 1]; `word_evidence.query_facts` defines them."""


@dataclass(frozen=True)
class Document:
    """A posted document."""

    id: str
    text: str
    title: str | None = None
    url: str | None = None
    metadata: Mapping[str, MetadataValue] = field(default_factory=dict)


class EncodedQuery(NamedTuple):
    """The unit vector (D,) of a text, and the share of its tokens that the encoder knows, in [0, 1].

    All texts of as many unknown tokens have the same vector, so it says nothing where no token is known.
    """

    vector: Floats
    known: float = 1.0


@dataclass(frozen=True)
class Key:
    """A unit vector (D,) that queries are matched against, made from characters [start, end) of the document's text."""

    kind: KeyKind
    vector: Floats
    start: int = 0
    end: int = 0


@dataclass(frozen=True)
class MemoryKey:
    """A past query, with its unit vector (D,), that confirms the document `row` with a signed weight.

    `query_key` is the normalised query text. There is one memory key for each query key and row; it merges `count`
    confirmations. exact: the exact rating from 3 to 4 (`index.memory.exact`), 0 if the document does not come first for
    the same words.
    """

    row: int
    vector: Floats
    weight: float
    query_key: str
    count: int = 1
    exact: float = 0.0
