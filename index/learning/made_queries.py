"""Queries made from the titles and sentences of a collection: the document that answers each is known without a label.

Sees texts and rows, never vectors. A whole title or sentence finds its document far more easily than a real query does.
A made query therefore keeps at most half of the words, and often only one or two of them: the shapes were chosen on six
sets (docs/experiments.md).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from index.records import KeyKind
from index.words.tokens import RUN, has_unspaced, is_unspaced

MADE_QUERIES = 400
"""Most queries that are made of a collection."""
PER_DOCUMENT = 4
"""Most queries that are made of a document."""
SENTENCE_WORDS = (4, 60)
"""Least and most words of a sentence. A text without such a sentence gives its first characters."""
READ_CHARACTERS = 20_000
"""Characters of a text that sentences are taken from."""
FIRST_CHARACTERS = 200
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")


@dataclass(frozen=True)
class SourceText:
    """The title and the text of the document `row`."""

    row: int
    title: str
    text: str


@dataclass(frozen=True)
class MadeQuery:
    """A query made of the title or of a sentence (`kind`) of the document `row`, which answers it."""

    text: str
    row: int
    kind: KeyKind


def make_queries(sources: Sequence[SourceText], most: int = MADE_QUERIES, seed: int = 0) -> list[MadeQuery]:
    """Return at most `most` queries, up to PER_DOCUMENT of a document, from titles and sentences in turn.

    Documents without words give none. Same sources and seed, same queries.
    """
    random = np.random.default_rng(seed)
    made: list[MadeQuery] = []
    for turn in range(PER_DOCUMENT):
        for at, one in enumerate(sources):
            if len(made) >= most:
                return made
            words, kind = _chosen(one, (at + turn) % 2 == 0, random)
            if words:
                made.append(MadeQuery(" ".join(_kept(words, random)), one.row, kind))
    return made


def _chosen(source: SourceText, by_title: bool, random: np.random.Generator) -> tuple[list[str], KeyKind]:
    """Return the words of the title, or of a sentence if there is no title or a sentence is wanted."""
    title = _words(source.title)
    if by_title and title:
        return title, KeyKind.TITLE
    sentences = _sentences(source.text)
    if not sentences:
        return title, KeyKind.TITLE
    return sentences[int(random.integers(len(sentences)))], KeyKind.SENTENCE


def _kept(words: Sequence[str], random: np.random.Generator) -> list[str]:
    """Return one word to half of the words, in their order; the logarithm of the number is uniform."""
    most = -(-len(words) // 2)
    count = round(float(np.exp(random.uniform(0, np.log(most + 0.5)))))
    return [words[at] for at in np.sort(random.choice(len(words), min(count, most), replace=False))]


def _sentences(text: str) -> list[list[str]]:
    """Return the words of each sentence of a text; its first words if no sentence has the right length."""
    least, most = SENTENCE_WORDS
    parts = [_words(part) for part in SENTENCE_END.split(text[:READ_CHARACTERS])]
    first = _words(text[:FIRST_CHARACTERS])
    return [words for words in parts if least <= len(words) <= most] or ([first] if first else [])


def _words(text: str) -> list[str]:
    """Return the words of a text as they are written; pairs of characters where a script has no spaces."""
    if not has_unspaced(text, len(text)):
        return text.split()
    words = []
    for run in RUN.findall(text):
        words += [run[at : at + 2] for at in range(0, len(run), 2)] if is_unspaced(run[0]) else [run]
    return words
