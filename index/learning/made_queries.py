"""Queries made from the titles and sentences of a collection, whose answers are known without any label.

Sees texts and rows, never vectors. A whole title or sentence finds its document far too easily, so that a threshold
chosen on it would be an alarm for many real queries. A made query therefore keeps half of the words, and every second
one also has words of other documents. Shares and shapes were chosen on six sets, each with the others' settings left
out (docs/experiments.md).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from index.records import Ints, KeyKind
from index.words.tokens import RUN, has_unspaced, is_unspaced

MADE_QUERIES = 400
"""Most queries that are made of a collection."""
PER_DOCUMENT = 4
"""Most queries that are made of a document: from its title and from a sentence, each without and with other words."""
KEPT_SHARE = 0.5
"""Share of the words of a title or sentence that a made query keeps."""
LEAST_KEPT = 2
OTHER_SHARE = 0.25
"""Words of other documents in every second made query, as a share of the words of the title or sentence."""
SENTENCE_WORDS = (4, 60)
"""Least and most words of a sentence. A text without such a sentence gives its first characters."""
READ_CHARACTERS = 20_000
"""Characters of a text that sentences are taken from."""
FIRST_CHARACTERS = 200
OTHER_WORDS = 60
"""Words of each document that may become the other words of a made query."""
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


def sampled_rows(rows: Ints, most: int = MADE_QUERIES, seed: int = 0) -> Ints:
    """Return at most `most` of these rows, ascending: the documents to make queries of. Same rows and seed, same rows."""
    ordered = np.sort(rows)
    if len(ordered) <= most:
        return ordered
    chosen: Ints = np.sort(np.random.default_rng(seed).choice(ordered, most, replace=False))
    return chosen


def make_queries(sources: Sequence[SourceText], most: int = MADE_QUERIES, seed: int = 0) -> list[MadeQuery]:
    """Return at most `most` queries, up to PER_DOCUMENT of a document. Same sources and seed, same queries.

    Documents without words give none. Titles and sentences, with and without other words, take turns.
    """
    random = np.random.default_rng(seed)
    others = list(chain.from_iterable(_words(f"{one.title} {one.text[:READ_CHARACTERS]}")[:OTHER_WORDS] for one in sources))
    made: list[MadeQuery] = []
    for turn in range(PER_DOCUMENT):
        for at, one in enumerate(sources):
            if len(made) >= most:
                return made
            from_title, with_others = (at + turn) % 2 == 0, (at + turn) // 2 % 2 == 1
            made += _made(one, from_title, others if with_others else [], random)
    return made


def _made(source: SourceText, from_title: bool, others: Sequence[str], random: np.random.Generator) -> list[MadeQuery]:
    """Return the query made of a title or a sentence, none if there are no words."""
    words = _words(source.title) if from_title else []
    kind = KeyKind.TITLE
    if len(words) < LEAST_KEPT:
        sentences = _sentences(source.text)
        words, kind = sentences[int(random.integers(len(sentences)))] if sentences else words, KeyKind.SENTENCE
    if not words:
        return []
    count = -(-len(words) // 2)
    kept = [words[at] for at in np.sort(random.choice(len(words), count, replace=False))]
    if others:
        kept += [others[at] for at in random.integers(len(others), size=max(1, int(OTHER_SHARE * len(words))))]
    return [MadeQuery(" ".join(kept), source.row, kind)]


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
