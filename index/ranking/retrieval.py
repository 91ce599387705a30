"""The candidates of a query: documents with near keys, with its words, or confirmed by a near past query.

Sees one generation and one query, and of the model only the search vectors. Every candidate gets all evidence: a
document found by words alone also gets its exact dense evidence.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.candidates.base import MISSING
from index.candidates.distinct import distinct
from index.generation.columns import ID_ORDER
from index.generation.generation import Generation
from index.memory.query_key import as_query_key, bare_key
from index.ranking.attention import Candidates
from index.ranking.word_evidence import PEAK_DEPTH, query_facts, word_parts
from index.ranking.word_scores import best_scored, bm25_scores, found_by_words
from index.records import FACTS, LEXICAL, SIGNALS, EncodedQuery, Floats, Ints, Mask
from index.words.query_words import QueryWords
from index.words.reading_options import ReadingOptions
from index.words.word_search import Reading
from index.words.word_statistics import WordStatistics

MEMORY_RADIUS = 0.5
"""Least cosine of a near past query. Past queries farther away change no bit of the ranking."""
UNFINISHED_CANDIDATES = 50
"""Candidates by keys and by words while the last word is unfinished: the next letter changes the query anyway."""


class Mode(StrEnum):
    """The evidence that a search uses."""

    HYBRID = "hybrid"
    DENSE = "dense"
    WORDS = "words"


@dataclass(frozen=True)
class Query:
    """A query: its text for term matching, its unit vector (D,), and the options of the search."""

    text: str
    vector: Floats
    mode: Mode = Mode.HYBRID
    count: int = 200
    """Number of candidates retrieved by keys, and number retrieved by words; attention ranks their union."""
    allowed: Mask | None = None
    """(N,) bool over the documents of the generation, True = passes the filter; None allows all."""
    excluded_query: str | None = None
    """A query key. Its memory and the memory of the query's words, as typed and as corrected, are left out: a training
    example or held-out query must not see its own feedback. None: all memory counts."""
    reading: ReadingOptions | None = None
    """How the text is read: corrections, completions, synonyms, stop words. None: as the generation says."""
    memory_vector: Floats | None = None
    """Unit vector (D,) that is compared with past queries; None: `vector`. It differs where `vector` encodes a
    corrected text, or only the finished words, because memory keeps the texts that were typed."""
    typed: str | None = None
    """The text as it was typed, where `text` is only a part of it; None: `text`. The documents that judgments or clicks
    confirm for exactly this text come first."""
    signals: bool = False
    """Whether the candidates get the signals that trees read."""
    read: Reading | None = None
    """The reading by the words of the whole collection, where the generation has a part of its documents; None: the
    generation reads the text."""
    statistics: WordStatistics | None = None
    """The statistics of the whole collection, where the generation has a part of its documents."""
    context: Ints | None = None
    """Doc indices (C,) of the documents of the session, which draw the query (`index.ranking.context`); None: none."""
    encoded: bool = True
    """Whether `vector` encodes the text. False: it is zeros, no key is compared with it, and no past query is compared
    without a `memory_vector`."""
    known: float = 1.0
    """The share of the tokens of the encoded text that the encoder knows: a factor of the dense evidence."""

    @property
    def by_keys(self) -> bool:
        """Whether keys are compared with the query vector."""
        return self.encoded and self.mode is not Mode.WORDS

    @cached_property
    def query_key(self) -> str:
        """The query key of the text as it was typed."""
        return as_query_key(self.text if self.typed is None else self.typed)


@dataclass(frozen=True)
class CandidateSet:
    """The N candidates of one query.

    doc_indices (N,) ascending; words (N, len(LEXICAL)) and facts (len(FACTS),) as in `Candidates`. For each near memory
    key: memory_key (m,) is its position in the memory, memory_candidate (m,) the index in doc_indices of the document
    that it confirms, memory_cosine (m,) its cosine with this query, memory_weight (m,) its weight, and memory_same (m,)
    whether it has the same words as this query. trust is `trust_of` the query: the factor of the dense evidence. exact:
    pairs of a candidate (its index in doc_indices) and its exact rating, for the candidates that come first for exactly
    these words. signals (N, len(SIGNALS)), None if the query does not ask for them. titled (N,): whether the title
    has exactly the words of the query; None: not in this mode. id_order (N,): bytes that stand for the ids; None: not
    read.
    """

    doc_indices: Ints
    words: Floats
    facts: Floats
    memory_key: Ints
    memory_candidate: Ints
    memory_cosine: Floats
    memory_weight: Floats
    memory_same: Mask
    trust: float = 1.0
    exact: tuple[tuple[int, float], ...] = ()
    signals: Floats | None = None
    titled: Mask | None = None
    id_order: NDArray[np.bytes_] | None = None


def retrieve(generation: Generation, query: Query, projected: Floats, required: Ints | None = None) -> CandidateSet:
    """Return the candidates: `query.count` by keys, `query.count` by words, and all confirmed by a near past query.

    projected (H, D) are the search vectors; required (E,) are doc indices that are always included.
    """
    alive = generation.alive
    allowed = alive if query.allowed is None else query.allowed & alive
    by_keys = generation.nearest(projected, query.count, allowed) if query.by_keys else []
    by_words = _NONE if query.mode is Mode.DENSE else best_by_words(generation, query, allowed)
    near, cosine, same, confirmed = near_memory(generation, query, allowed)
    first, ratings = exact_memory(generation, query, allowed)
    more = _NONE if required is None else required
    doc_indices = distinct(np.concatenate([more, *by_keys, confirmed, first]))
    words, facts, trust = (
        np.zeros((len(doc_indices), len(LEXICAL)), np.float32),
        np.full(len(FACTS), 0.5, np.float32),
        1.0,
    )
    signals = np.zeros((len(doc_indices), len(SIGNALS)), np.float32) if query.signals else None
    if query.mode is not Mode.DENSE:
        reading = read_query(generation, query)
        doc_indices, words, facts, signals = _with_words(generation, query, reading.words, doc_indices, by_words)
        trust = trust_of(query, reading)
    candidate = np.searchsorted(doc_indices, confirmed)
    weights = generation.memory.weights[near]
    exact = tuple(zip(np.searchsorted(doc_indices, first).tolist(), ratings.tolist(), strict=True))
    titled = titled_by(generation, query, doc_indices)
    ids = generation.columns.id_order.take(doc_indices)
    return CandidateSet(
        doc_indices, words, facts, near, candidate, cosine, weights, same, trust, exact, signals, titled, ids
    )


def titled_by(generation: Generation, query: Query, doc_indices: Ints) -> Mask | None:
    """Return whether the title of each document (n,) has exactly the words of the query; None: not in its mode."""
    return generation.titled(query.text, doc_indices) if query.mode is Mode.HYBRID else None


def read_query(generation: Generation, query: Query) -> Reading:
    """Return the words of a query, and the words that stand for them."""
    return query.read or generation.words.read(query.text, query.reading or generation.reading)


def trust_of(query: Query, reading: Reading) -> float:
    """Return the factor of the dense evidence: the share of the text that is finished, and that the encoder knows."""
    return reading.trust * query.known if query.mode is Mode.HYBRID else 1.0


def encoded_text(mode: Mode, reading: Reading) -> str:
    """Return the text of a query that is encoded; "" for nothing.

    The mode `dense` has no other evidence, so an unlikely completion is encoded too.
    """
    return reading.text.rstrip() if mode is Mode.DENSE else reading.encoded


def with_vectors(query: Query, reading: Reading, encode: Callable[[str], EncodedQuery], has_memory: bool) -> Query:
    """Return a query that is not encoded yet, so that its vector is zeros, with its vectors.

    encode: returns the unit vector (D,) of a text. A vector of unknown tokens alone is left out. has_memory: whether
    there may be past queries.
    """
    text, known = encoded_text(query.mode, reading), 1.0
    vector, encoded = query.vector, False
    if text:
        made, known = encode(text)
        vector, encoded = (made, True) if known else (vector, False)
    reads_memory = has_memory and query.mode is Mode.HYBRID and reading.remembered not in ("", text)
    memory_vector = encode(reading.remembered) if reads_memory else None
    return replace(
        query,
        vector=vector,
        memory_vector=memory_vector.vector if memory_vector and memory_vector.known else None,
        encoded=encoded,
        known=known,
    )


def as_searched(generation: Generation, query: Query, encode: Callable[[str], EncodedQuery]) -> Query:
    """Return a query that is not encoded yet with the vectors that a search for its text has (`with_vectors`)."""
    return with_vectors(query, read_query(generation, query), encode, bool(generation.memory.count))


def best_by_words(generation: Generation, query: Query, allowed: Mask) -> Ints:
    """Return the doc indices of the allowed documents with the best BM25 scores, more than `count` and PEAK_DEPTH.

    The word library scores with rounded lengths and in the order of its files, so exact scores decide which are best.
    """
    idf = None if query.statistics is None else query.statistics.idf
    return found_by_words(generation, read_query(generation, query), max(query.count, PEAK_DEPTH), allowed, idf)


def asked_keys(generation: Generation, query: Query) -> tuple[str, ...]:
    """Return the query keys whose feedback a query obeys: of the text as typed, and without operators as corrected."""
    corrected = read_query(generation, query).corrected
    if corrected is None or bare_key(as_query_key(query.text)) != bare_key(query.query_key):
        return (query.query_key,)
    return query.query_key, as_query_key(corrected)


def asked_vectors(generation: Generation, query: Query) -> tuple[Floats, ...]:
    """Return the unit vectors (D,) that are compared with past queries: of the typed and of the corrected text."""
    if query.memory_vector is None:
        return (query.vector,) if query.encoded else ()
    is_corrected = query.encoded and read_query(generation, query).corrected is not None
    return (query.memory_vector, query.vector) if is_corrected else (query.memory_vector,)


def near_memory(generation: Generation, query: Query, allowed: Mask) -> tuple[Ints, Floats, Mask, Ints]:
    """Return the memory keys (m,) of allowed documents near a query.

    With their cosines (m,), whether they have the same words as the query (m,), and their doc indices (m,).
    """
    memory = generation.memory
    vectors = asked_vectors(generation, query) if query.mode is Mode.HYBRID and memory.count else ()
    if not vectors:
        return _NONE, np.empty(0, np.float32), np.empty(0, np.bool_), _NONE
    asked = asked_keys(generation, query)
    excluded = () if query.excluded_query is None else (query.excluded_query, *asked)
    corrected = vectors[1] if len(vectors) > 1 else None
    unfinished = read_query(generation, query).unfinished  # an unfinished number is another one
    about = () if unfinished else (as_query_key(query.text), *asked[1:])
    near, cosine = memory.near(vectors[0], MEMORY_RADIUS, excluded, corrected, about)
    confirmed, usable = _usable(generation, memory.rows[near], allowed)
    near = near[usable]
    return near, cosine[usable], memory.of_query(near, *asked), confirmed[usable]


def exact_memory(generation: Generation, query: Query, allowed: Mask) -> tuple[Ints, Floats]:
    """Return the doc indices (m,) of allowed documents that come first for exactly this query, and their ratings (m,).

    The best rating is first; equal ratings are in the order of the document ids. The lookup is by words, so that it
    does not depend on the cosine of two spellings.
    """
    if query.mode is not Mode.HYBRID or not generation.memory.count or query.excluded_query is not None:
        return _NONE, np.empty(0, np.float32)
    rows, ratings = generation.memory.exact_of(*asked_keys(generation, query))
    doc_indices, usable = _usable(generation, rows, allowed)
    doc_indices, ratings = doc_indices[usable], ratings[usable]
    order = generation.best_first(doc_indices, ratings)
    return doc_indices[order], ratings[order]


def _usable(generation: Generation, rows: Ints, allowed: Mask) -> tuple[Ints, Mask]:
    """Return the doc indices (m,) of these rows (m,), and a mask (m,) of those that exist and are allowed."""
    doc_indices = generation.doc_indices(rows)
    usable = doc_indices != MISSING
    usable[usable] = allowed[doc_indices[usable]]
    return doc_indices, usable


def assemble(
    generation: Generation,
    sets: Sequence[CandidateSet],
    with_keys: bool = True,
    with_values: bool = False,
    with_fields: bool = False,
) -> Candidates:
    """Return the arrays that attention reads for B queries. A key that several queries share is gathered once.

    with_keys, with_values, with_fields: whether they have the keys, the values and the metadata of the candidates.
    """
    counts = np.asarray([len(found.doc_indices) for found in sets], np.int64)
    width = int(counts.max(initial=0))
    slots = np.concatenate([_NONE, *(b * width + np.arange(n) for b, n in enumerate(counts))])
    doc_indices = np.concatenate([_NONE, *(found.doc_indices for found in sets)])
    pair_slot, pair_key = _key_pairs(generation, slots, doc_indices if with_keys else doc_indices[:0])
    used, local = _distinct(pair_key, len(sets))
    mask = np.arange(width) < counts[:, None]
    with_signals = bool(sets) and all(found.signals is not None for found in sets)
    return Candidates(
        keys=generation.key_vectors(used),
        pair_query=pair_slot // max(1, width),
        pair_key=local,
        pair_slot=pair_slot,
        pair_kind=generation.columns.key_kind.take(pair_key),
        words=_padded([found.words for found in sets], width, len(LEXICAL)),
        facts=np.stack([found.facts for found in sets]) if sets else np.zeros((0, len(FACTS)), np.float32),
        mask=mask,
        **memory_arrays(sets, width),
        values=_gathered_values(generation, doc_indices, mask) if with_values else None,
        trust=_trust(sets),
        signals=_padded([found.signals for found in sets], width, len(SIGNALS)) if with_signals else None,
        id_order=_padded_ids(sets, width),
        fields=generation.fields_of(doc_indices, slots) if with_fields else None,
    )


def memory_arrays(sets: Sequence[CandidateSet], width: int) -> dict[str, Any]:
    """Return the arrays of `Candidates` about past queries, for B queries with `width` slots each."""
    slot = np.concatenate([_NONE, *(b * width + found.memory_candidate for b, found in enumerate(sets))])
    no_floats = np.empty(0, np.float32)
    cosine = np.concatenate([no_floats, *(found.memory_cosine for found in sets)])
    weight = np.concatenate([no_floats, *(found.memory_weight for found in sets)])
    same = np.concatenate([np.empty(0, np.bool_), *(found.memory_same for found in sets)])
    if not same.any():
        return {"memory_slot": slot, "memory_cosine": cosine, "memory_weight": weight}
    others = {"memory_slot": slot[~same], "memory_cosine": cosine[~same], "memory_weight": weight[~same]}
    return others | {"same_slot": slot[same], "same_weight": weight[same]}


def _trust(sets: Sequence[CandidateSet]) -> Floats | None:
    """Return the factor of the dense evidence of each query (B,), None if it is 1 for all."""
    if all(found.trust == 1 for found in sets):
        return None
    return np.asarray([found.trust for found in sets], np.float32)


def _padded(each: Sequence[Floats | None], width: int, columns: int) -> Floats:
    """Return arrays (n, columns) of B queries as one array (B, width, columns), 0 in empty slots."""
    padded = np.zeros((len(each), width, columns), np.float32)
    for b, values in enumerate(each):
        if values is not None:
            padded[b, : len(values)] = values
    return padded


def _padded_ids(sets: Sequence[CandidateSet], width: int) -> NDArray[np.bytes_]:
    """Return the ids of the candidates of B queries (B, width), empty in empty slots."""
    if len(sets) == 1 and sets[0].id_order is not None:
        return sets[0].id_order[None]  # a search copies nothing
    padded = np.zeros((len(sets), width), ID_ORDER)
    for ids, found in zip(padded, sets, strict=True):
        if found.id_order is not None:
            ids[: len(found.id_order)] = found.id_order
    return padded


def _key_pairs(generation: Generation, slots: Ints, doc_indices: Ints) -> tuple[Ints, Ints]:
    """Return the slot (P,) and the key position (P,) of each key of these documents."""
    first = generation.columns.first_key.take(doc_indices)
    keys_each = generation.columns.first_key.take(doc_indices + 1) - first
    pair_slot = np.repeat(slots[: len(doc_indices)], keys_each)
    ends = np.cumsum(keys_each)
    pair_key = np.repeat(first - (ends - keys_each), keys_each)
    pair_key += np.arange(len(pair_key))
    return pair_slot, pair_key


def _gathered_values(generation: Generation, doc_indices: Ints, mask: Mask) -> Floats:
    """Return the stored values (B, N, V) of the candidates, 0 where the mask (B, N) is False."""
    values = np.zeros((*mask.shape, generation.values.shape[1]), np.float32)
    values[mask] = generation.value_vectors(doc_indices)
    return values


def _distinct(pair_key: Ints, queries: int) -> tuple[Ints, Ints]:
    """Return the distinct keys of pairs, ascending, and the index of each pair's key among them.

    The pairs of a single query repeat no key.
    """
    if queries == 1:
        return pair_key, np.arange(len(pair_key))
    used, local = np.unique(pair_key, return_inverse=True)
    return used, local


_NONE = np.empty(0, np.int64)


def _with_words(
    generation: Generation, asked: Query, query: QueryWords, others: Ints, found: Ints
) -> tuple[Ints, Floats, Floats, Floats | None]:
    """Return the candidates, ascending, their word evidence (N, len(LEXICAL)), the facts of the query, and the signals.

    The candidates are `others` and, of the documents `found` by words, the `count` best by exact BM25; the facts read
    PEAK_DEPTH of them at least. BM25 is divided by the best score, and is split into exact, corrected and completed
    words.
    """
    union = distinct(np.concatenate([others, found]))
    by_source, matches, signals = generation.match(query, union, asked.signals, asked.statistics)
    scores = bm25_scores(query, by_source)
    places = np.searchsorted(union, found)
    best = places[best_scored(generation, query, found, scores[places], max(asked.count, PEAK_DEPTH))]
    kept = np.zeros(len(union), np.bool_)
    kept[np.searchsorted(union, others)] = True
    kept[best[: asked.count]] = True
    evidence = word_parts(by_source, np.column_stack(matches), scores[best])
    facts = query_facts(query.weight[query.of_query], scores[best])
    return union[kept], evidence[kept], facts, None if signals is None else signals[kept]
