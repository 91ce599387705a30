"""Finds the sentence that answers a query: the sentence of the first three hits with the most attention.

Sentence keys are used where the collection has them. Otherwise the sentences of the best passage of each hit are
encoded when they are asked for. A key may be a piece of a long sentence: the answer has all of that sentence.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from index.candidates.inner_products import inner_products
from index.encoding.sentence_borders import whole_sentences
from index.generation.generation import Generation
from index.ranking.explanation import best_passage
from index.ranking.retrieval import read_query
from index.ranking.sentences import Sentences, sentence_weights
from index.records import Floats, KeyKind
from service.runtime.search_runtime import SearchRuntime
from service.search import repository
from service.search.hits import Searched

MAX_SENTENCES = 32
"""Sentences of a hit that are compared: the nearest where sentence keys are stored, else the first of the passage."""
MAX_CHARACTERS = 4000
"""Characters of a hit that are cut into sentences, and of a sentence: an encoder may count a long word as one token."""
WHOLE_CHARACTERS = 1000
"""Longest whole sentence that is given in place of a piece of it: a text without capital letters has few borders."""


@dataclass(frozen=True)
class Span:
    """What is compared, a part of the text of a document; vector (D,): None where it is not encoded.

    sentence: the whole sentences of which it has a part; they are [start, end) of the text of the document.
    """

    rank: int
    id: str
    start: int
    end: int
    sentence: str
    text: str
    vector: Floats | None

    @property
    def is_readable(self) -> bool:
        """Whether it has a letter or a digit."""
        return any(map(str.isalnum, self.text))


def closest_sentence(runtime: SearchRuntime, searched: Searched) -> dict[str, Any] | None:
    """Return id, start, end, text and weight of the sentence with the most attention; None without a sentence.

    The earlier sentence wins among equal weights. Documents deleted since the generation was published are left out.
    """
    return closest(runtime, searched, sentences_of(runtime, searched))


def sentences_of(runtime: SearchRuntime, searched: Searched) -> list[Span]:
    """Return the sentences of the best hits that are compared, by hit and in reading order."""
    ranks = searched.best.tolist()
    rows = searched.generation.rows[searched.ranking.doc_indices[searched.best]].tolist()
    stored = repository.stored_fields(runtime.database, rows)
    texts = [(rank, *stored[row][1:4:2]) for rank, row in zip(ranks, rows, strict=True) if row in stored]
    return [span for rank, id, text in texts for span in _sentences(runtime, searched, rank, id, text)]


def closest(runtime: SearchRuntime, searched: Searched, spans: Sequence[Span]) -> dict[str, Any] | None:
    """Return the sentence with the most attention among these, as `closest_sentence` does."""
    readable = np.fromiter((span.is_readable for span in spans), np.bool_)
    if not readable.any():
        return None
    weights = _weights(runtime, searched, spans)
    best = int(np.argmax(np.where(readable, weights, -1.0)))
    span = spans[best]
    return {"id": span.id, "start": span.start, "end": span.end, "text": span.sentence, "weight": float(weights[best])}


def _weights(runtime: SearchRuntime, searched: Searched, spans: Sequence[Span]) -> Floats:
    generation, vectors = searched.generation, None
    if searched.query.by_keys:
        unknown = [span.text for span in spans if span.vector is None]
        encoded = iter(runtime.encoder.encode_queries(unknown) if unknown else ())
        vectors = np.stack([next(encoded) if span.vector is None else span.vector for span in spans])
    words = [generation.words.number(span.text) for span in spans]
    sentences = Sentences(np.asarray([span.rank for span in spans]), vectors, words)
    reading = read_query(generation, searched.query)
    return sentence_weights(searched.serving.head, reading.words, searched.ranking, sentences)


def _sentences(runtime: SearchRuntime, searched: Searched, rank: int, id: str, text: str) -> Iterator[Span]:
    """Yield the sentences of the hit at a 0-based rank, in reading order."""
    generation, doc_index = searched.generation, int(searched.ranking.doc_indices[rank])
    keys = _sentence_keys(generation, searched.ranking.asked, doc_index)
    if keys:
        yield from (_span(rank, id, text, start, end, vector) for start, end, vector in keys)
        return
    begin, end = best_passage(generation, searched.serving.head, searched.ranking, rank)
    passage = (text[begin:end] if end > begin else text)[:MAX_CHARACTERS]
    for span in runtime.encoder.cutter.sentences(passage)[:MAX_SENTENCES]:
        yield _span(rank, id, text, begin + span.start, begin + span.end, None)


def _span(rank: int, id: str, text: str, start: int, end: int, vector: Floats | None) -> Span:
    first, last = whole_sentences(text, start, end, WHOLE_CHARACTERS)
    return Span(rank, id, first, last, text[first:last], text[start:end], vector)


def _sentence_keys(generation: Generation, asked: Floats, doc_index: int) -> list[tuple[int, int, Floats]]:
    """Return start, end and vector of the stored sentences nearest to the query, in reading order."""
    columns = generation.columns
    first, last = (int(columns.first_key[at]) for at in (doc_index, doc_index + 1))
    keys = first + np.flatnonzero(columns.key_kind[first:last] == KeyKind.SENTENCE)
    vectors = generation.key_vectors(keys)
    nearest = np.sort(np.argsort(-inner_products(vectors, asked), kind="stable")[:MAX_SENTENCES])
    starts, ends = (side[keys[nearest]].tolist() for side in (columns.key_start, columns.key_end))
    return [
        (start, min(end, start + MAX_CHARACTERS), vectors[at])
        for at, start, end in zip(nearest, starts, ends, strict=True)
    ]
