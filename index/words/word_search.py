"""Searches words: reads the text of a query, and returns the best documents by BM25.

Exact words come first. A word that no document contains is corrected by the vocabulary of the collection, as are the
spaces between words; the last word may be unfinished; the owner of a collection may declare synonyms and stop words.
Queries are built from tokens, without a query parser, so no character of a query is an operator.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from threading import Lock

import numpy as np
import tantivy
from numpy.typing import NDArray

from index.records import Floats, Ints
from index.words.alternatives import Alternatives, alternatives, split_compounds
from index.words.apostrophes import without_joined_letters
from index.words.hyphens import shares_of_words
from index.words.postings import Factors, Postings
from index.words.query_words import Field, Phrase, QueryWords, Source, Words, number_words
from index.words.question_words import without_question_words
from index.words.reading_options import EXACTLY, ReadingOptions
from index.words.slots import OTHER_COMPLETIONS, Slot, scores_of_recent, slots_of
from index.words.spaces import Spaces, with_spaces
from index.words.tokens import is_unspaced, spaced, tokens
from index.words.visible_words import VisibleWords
from index.words.vocabulary import Vocabulary
from index.words.word import Substitute, Word, overlaps

CACHED_TEXTS = 1024
"""Query texts whose reading a searcher caches."""
READERS, CACHED_TEXTS_OF_READER = 64, 64
"""Readers with words of their own, those that searched last, and the texts of each whose reading is cached."""
IdOrder = Callable[[Ints], NDArray[np.bytes_]]
"""Returns bytes (n,) that sort as the ids of the documents with these rows (n,) do."""
TIES, LEAST_TIES = 16, 8
"""A search for k documents collects k / TIES more, at least LEAST_TIES: mostly all that tie with the last."""
MOST_SEEN = 50_000_000
"""Words of documents that are kept for all readers together, unless one reader sees more."""
NOTHING = (np.empty(0, np.int64), np.empty(0, np.float32))


@dataclass(frozen=True)
class Reading:
    """A query as it is searched.

    words: its words, and the words that stand for them. terms: the terms of the index with their factors, by position
    of the query. text: the query, corrected and completed. encoded: the text that is encoded: `text` without spaces at
    the end, and without a last word that has no likely completion; "" if no other word is left. remembered: the text
    that is compared with past queries, which are kept as they were typed: the query as it was typed, or `encoded` if
    its last word is completed. corrections: pairs (from, to). trust: the share of the text that is known, in [0, 1]; an
    unfinished word counts with the likelihood of its completion, or 0. unfinished: whether the last word is the
    beginning of words, and not likely a word itself; not where its beginning is corrected. corrected_terms: the terms
    of corrections with their factors, where corrections do not match in all fields; `terms` has them otherwise. slots:
    what is searched in place of the terms where other words stand for a word of the query. overlaps: whether each two
    neighbouring words are pairs of characters that share one.
    """

    words: QueryWords
    terms: tuple[tuple[str, float], ...]
    text: str
    encoded: str
    remembered: str
    corrections: tuple[tuple[str, str], ...] = ()
    trust: float = 1.0
    unfinished: bool = False
    corrected_terms: tuple[tuple[str, float], ...] = ()
    slots: tuple[Slot, ...] = ()
    overlaps: tuple[bool, ...] = ()

    @property
    def corrected(self) -> str | None:
        """The corrected text; None if no word is corrected, or if the last word is a beginning or completed."""
        return self.text if self.corrections and not self.unfinished and self.remembered != self.encoded else None


def read(text: str, options: ReadingOptions, vocabulary: Vocabulary) -> Reading:
    """Return the reading of a query."""
    terms = vocabulary.stems(spaced(text))
    words = _words(text, terms, vocabulary)
    words = without_joined_letters(text, words)
    if words and options.question_words is not None:
        kept = options.kept_in_question(text, words)
        words = without_question_words(text, words, kept, options.question_words)
    if words and options.stop_words:
        words = [word for word in words if word.folded not in options.stop_words] or words
    if words and options.compounds:
        words = split_compounds(text, words, options, vocabulary)
    spaces = with_spaces(text, words, options, vocabulary) if options.typos else Spaces(words)
    terms = tuple(word.term for word in spaces.words) or terms
    found = alternatives(text, spaces, options, vocabulary)
    reading = _reading(text, terms, spaces.words, found, vocabulary)
    return _by_field(reading, options.uncorrected_fields, terms, found.substitutes)


class ReaderWords:
    """The words of the documents that a reader sees, and how the reader's queries are read by them."""

    def __init__(self, vocabulary: Vocabulary, seen: VisibleWords) -> None:
        self.seen = seen
        own = vocabulary.of_reader(seen)
        self._read = lru_cache(CACHED_TEXTS_OF_READER)(lambda text, options: read(text, options, own))

    def read(self, text: str, options: ReadingOptions) -> Reading:
        """Return what `WordSearcher.read` does, by these words."""
        reading: Reading = self._read(text, options)
        return reading


class WordSearcher:
    """An immutable view of the index at one commit; safe to share between threads."""

    def __init__(self, postings: Postings, vocabulary: Vocabulary) -> None:
        self.postings = postings
        self._searcher = postings.files
        self._schema = postings.schema
        self.vocabulary = vocabulary
        # a search reads its text more than once, and so does a comparison of two models
        self._read = lru_cache(CACHED_TEXTS)(lambda text, options: read(text, options, vocabulary))
        self._of_readers: dict[str, ReaderWords] = {}
        """The last that searched is the last."""
        self._lock = Lock()

    @property
    def count(self) -> int:
        """The number of documents."""
        return self.postings.documents

    def read(self, text: str, options: ReadingOptions = EXACTLY) -> Reading:
        """Return the words of a query with their weights, and the words that stand for them."""
        reading: Reading = self._read(text, options)
        return reading

    def of_reader(self, reader: str, seen: Callable[[], VisibleWords]) -> "ReaderWords":
        """Return how a reader who sees only some of the documents reads queries.

        reader: names who reads, with caches that no other reader shares: a faster answer would tell what another typed.
        seen: returns the words of the documents that the reader sees; called where they are not kept.
        """
        kept = self._of_readers
        with self._lock:
            if own := kept.pop(reader, None):
                kept[reader] = own
                return own
        made = ReaderWords(self.vocabulary, seen())
        with self._lock:
            own = kept.setdefault(reader, made)  # another thread may have made them meanwhile
            while len(kept) > READERS or (len(kept) > 1 and sum(one.seen.length for one in kept.values()) > MOST_SEEN):
                del kept[next(iter(kept))]
        return own

    def number(self, text: str) -> Words:
        """Return the words of a text as numbers (T,), in order, as `WordIndex.number` does."""
        return number_words(self.vocabulary.stems(spaced(text)))

    def phrase(self, text: str) -> list[Words]:
        """Return for each word of a phrase the numbers (n,) of the words that have it: that word alone for most words.

        Documents may write the first and the last word within a longer run of a script without spaces: a single
        character at the beginning of the phrase also ends a pair, and one at the end of the phrase begins a pair.
        """
        terms = self.vocabulary.stems(spaced(text))
        found: list[Words] = []
        for at, term in enumerate(terms):
            having = {term}
            if len(term) == 1 and is_unspaced(term):
                if at == 0:
                    having.update(word for word, _ in self.vocabulary.ending(term))
                if at == len(terms) - 1:
                    having.update(word for word, _ in self.vocabulary.beginning(term))
            found.append(number_words(having))
        return found

    def search(
        self, text: str, k: int, allowed: Ints | None = None, options: ReadingOptions = EXACTLY
    ) -> tuple[Ints, Floats]:
        """Return the rows of the k best documents and their BM25 scores, best first; ties go to the lower row.

        allowed (n,): the rows that may be returned; None allows all. options: how the text is read.
        """
        return self.find(self.read(text, options), k, allowed)

    def find(
        self,
        reading: Reading,
        k: int,
        allowed: Ints | None = None,
        corrected: Ints | None = None,
        id_order: IdOrder | None = None,
        idf: Mapping[str, float] | None = None,
    ) -> tuple[Ints, Floats]:
        """Return the rows and scores of a reading, as `search` does.

        corrected (m,): the rows that `Reading.corrected_terms` may match; None for no row. id_order: what orders rows
        with equal scores instead of the row. idf: the idf of the terms in the whole collection, where this index has a
        part of its documents.
        """
        if k <= 0 or self.count == 0 or (allowed is not None and len(allowed) == 0):
            return NOTHING
        if not reading.words.uncorrected_fields:
            corrected = None  # corrected words match in all documents
        elif corrected is None:
            corrected = NOTHING[0]
        query = self._query_of_slots(reading.slots, corrected) if reading.slots else self._query(reading, idf)
        if query is None:
            return NOTHING
        query = query if allowed is None else self._restricted(query, allowed)
        rows, scores = self._collect(self.postings.without_hidden(query), k)
        recent: dict[int, float] = {}
        if self.postings.recent.documents and reading.slots:
            recent = scores_of_recent(reading.slots, self.postings, corrected)
        elif self.postings.recent.documents:
            idf = self._idf(reading) if idf is None else idf
            recent = self.postings.search_recent([(term, factor * idf[term]) for term, factor in reading.terms])
        if recent:
            rows = np.append(rows, np.fromiter(recent, np.int64))
            scores = np.append(scores, np.fromiter(recent.values(), np.float32))
            if allowed is not None:
                among = np.isin(rows, allowed)
                rows, scores = rows[among], scores[among]
        return _best(rows, scores, k, id_order)

    def _query_of_slots(self, slots: Sequence[Slot], corrected: Ints | None) -> tantivy.Query:
        """Return a query that scores a document by the best of each slot.

        corrected (m,): the rows that corrected words may match; None for all.
        """
        clauses = []
        for slot in slots:
            completed, corrections = self._weighted(slot.completed), self._weighted(slot.corrected)
            each = [_sum(terms) for terms in map(self._weighted, slot.exact) if terms]
            each += [_best_of(completed, OTHER_COMPLETIONS)] if completed else []
            if corrections and corrected is not None:
                corrections = [self._restricted(_best_of(corrections), corrected)] if len(corrected) else []
            if each or corrections:
                clauses.append(_best_of(each + corrections))
        return _sum(clauses) if clauses else tantivy.Query.empty_query()

    def _weighted(self, terms: Factors) -> list[tantivy.Query]:
        """Return a query for each term that the files have, with its weight in place of the idf of the library."""
        postings = self.postings
        counted = [(term, weight, postings.library_count(term)) for term, weight in terms]
        return [self._boosted(term, weight / postings.library_idf(count)) for term, weight, count in counted if count]

    def _boosted(self, term: str, boost: float) -> tantivy.Query:
        return tantivy.Query.boost_query(tantivy.Query.term_query(self._schema, "words", term, "freq"), boost)

    def _query(self, reading: Reading, idf: Mapping[str, float] | None) -> tantivy.Query | None:
        """Return a query for a reading without slots."""
        counts: dict[str, float] = {}
        for token, factor in reading.terms:
            counts[token] = counts.get(token, 0.0) + factor
        if not counts:
            return None
        terms = [
            (tantivy.Occur.Should, self._boosted(token, float(count) * self._correction(token, idf)))
            for token, count in sorted(counts.items())
        ]
        return tantivy.Query.boolean_query(terms)

    def _idf(self, reading: Reading) -> dict[str, float]:
        """Return the idf of the terms of a reading, from the counts that the vocabulary caches."""
        terms = {term for term, _ in reading.terms}
        return {term: self.vocabulary.term_idf(term) for term in terms}

    def _correction(self, term: str, idf: Mapping[str, float] | None) -> float:
        """Return the idf of a term among living documents over the idf that the library scores it with."""
        if idf is None and self.postings.are_counts_exact:
            return 1.0
        vocabulary = self.vocabulary
        living = vocabulary.term_idf(term) if idf is None else idf[term]
        return living / self.postings.library_idf(self.postings.library_count(term))

    def _restricted(self, query: tantivy.Query, allowed: Ints) -> tantivy.Query:
        member = tantivy.Query.term_set_query(self._schema, "row", allowed.tolist())
        without_score = tantivy.Query.const_score_query(member, 0.0)
        return tantivy.Query.boolean_query([(tantivy.Occur.Must, query), (tantivy.Occur.Must, without_score)])

    def _collect(self, query: tantivy.Query, k: int) -> tuple[Ints, Floats]:
        """Return the rows and scores of at least the k best documents in the files, with all that tie with the last."""
        most = int(self._searcher.num_docs)
        limit = min(k + max(LEAST_TIES, k // TIES), most)
        if not limit:
            return NOTHING
        hits = self._searcher.search(query, limit=limit, count=False).hits
        while len(hits) == limit < most and hits[-1][0] == hits[k - 1][0]:  # the last collected document ties
            limit = min(4 * limit, most)
            hits = self._searcher.search(query, limit=limit, count=False).hits
        while len(hits) > k and hits[-1][0] < hits[k - 1][0]:
            hits.pop()
        if not hits:
            return NOTHING
        scores, addresses = zip(*hits, strict=True)
        rows = np.asarray(self._searcher.fast_field_values("row", list(addresses)), np.int64)
        return rows, np.asarray(scores, np.float32)


def _sum(queries: Sequence[tantivy.Query]) -> tantivy.Query:
    if len(queries) == 1:
        return queries[0]
    return tantivy.Query.boolean_query([(tantivy.Occur.Should, one) for one in queries])


def _best_of(queries: Sequence[tantivy.Query], others: float = 0.0) -> tantivy.Query:
    """Return a query with the best score of these, and a share of the scores of the others."""
    return queries[0] if len(queries) == 1 else tantivy.Query.disjunction_max_query(queries, others)


def _best(rows: Ints, scores: Floats, k: int, id_order: IdOrder | None) -> tuple[Ints, Floats]:
    """Return the k best, best first. Only a tie at the cut is decided by the ids: the caller orders what it gets."""
    at_cut = np.partition(scores, len(scores) - k)[len(scores) - k] if len(scores) > k else None
    tied = at_cut is not None and int((scores >= at_cut).sum()) > k
    ids = () if id_order is None or not tied else (id_order(rows),)
    order = np.lexsort((rows, *ids, -scores))[:k]
    return rows[order], scores[order]


def _words(text: str, terms: Sequence[str], vocabulary: Vocabulary) -> list[Word]:
    """Return the words of a query with their terms, or nothing where the analyzer cuts the text in another way."""
    found = [(token, vocabulary.stems(token.text)) for token in tokens(text)]
    if tuple(term for _, of in found for term in of) != tuple(terms) or any(len(of) != 1 for _, of in found):
        return []
    return [Word(token, vocabulary.folded(token.text), of[0]) for token, of in found]


def _reading(
    text: str, terms: Sequence[str], words: Sequence[Word], found: Alternatives, vocabulary: Vocabulary
) -> Reading:
    shares = shares_of_words(text, words, vocabulary) or [1.0] * len(terms)  # `_words` may have returned none
    idf = np.asarray([vocabulary.term_idf(term) * share for term, share in zip(terms, shares, strict=True)], np.float32)
    numbers = number_words([*terms, *(one.term for one in found.substitutes)])
    numbered = [
        one.numbered(int(number), shares[one.position])
        for one, number in zip(found.substitutes, numbers[len(terms) :], strict=True)
    ]
    boosts = (*zip(terms, shares, strict=True), *(pair for one in found.substitutes for pair in one.searched))
    read = _replaced(text, words, found.replaced, found.through)
    encoded = _finished(text, words, found, found.meant | found.replaced)
    remembered = _finished(text, words, found, found.replaced) if found.completed else text.rstrip()
    known = QueryWords.of(numbers[: len(terms)], idf, numbered, _phrases(found.substitutes))
    written = dict(zip(numbers.tolist(), [*terms, *(one.term for one in found.substitutes)], strict=True))
    return Reading(
        known,
        boosts,
        read,
        encoded,
        remembered,
        tuple(found.corrections),
        found.trust,
        found.unfinished,
        slots=slots_of(known, written, vocabulary) if found.substitutes else (),
        overlaps=overlaps(words) if words else (False,) * (len(terms) - 1),
    )


def _phrases(substitutes: Sequence[Substitute]) -> tuple[Phrase, ...]:
    phrases = dict.fromkeys(one.term for one in substitutes if " " in one.term)
    numbers = number_words(phrases).tolist()
    return tuple(
        Phrase(number, tuple(number_words(phrase.split(" ")).tolist()))
        for number, phrase in zip(numbers, phrases, strict=True)
    )


def _finished(text: str, words: Sequence[Word], found: Alternatives, by: Mapping[int, str]) -> str:
    """Return a text with some words replaced, without its last word where that is too short to be completed."""
    if not found.without_last:
        return _replaced(text, words, by, found.through).rstrip()
    last = len(words) - 1
    finished = {position: word for position, word in by.items() if position != last}
    return _replaced(text[: words[last].token.start], words, finished, found.through).rstrip() if last else ""


def _replaced(text: str, words: Sequence[Word], by: Mapping[int, str], through: Mapping[int, int]) -> str:
    """Return a text with the words at some positions replaced, or those from there through another position."""
    for position in sorted(by, reverse=True):
        end = words[through.get(position, position)].token.end
        text = text[: words[position].token.start] + by[position] + text[end:]
    return text


def _by_field(
    reading: Reading, uncorrected_fields: frozenset[Field], terms: Sequence[str], substitutes: Sequence[Substitute]
) -> Reading:
    """Return a reading whose corrections do not match in these fields."""
    corrected = tuple((one.term, one.factor) for one in substitutes if one.source is Source.CORRECTED)
    if not uncorrected_fields or not corrected:
        return reading
    others = (pair for one in substitutes if one.source is not Source.CORRECTED for pair in one.searched)
    everywhere = (*reading.terms[: len(terms)], *others)
    words = reading.words._replace(uncorrected_fields=uncorrected_fields)
    return replace(reading, words=words, terms=everywhere, corrected_terms=corrected)
