"""A BM25 index over title and text, by row number. The documents suffice to rebuild it.

Sees texts and row numbers, never ids or vectors. Queries are built from tokens, without a query parser, so no character
of a query is an operator. The field `words` has the terms that BM25 scores; the field `surface` has the words without
stemming, for corrections and completions. Source: Robertson and Zaragoza 2009 (BM25, k1 1.2, b .75).
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import tantivy

from index.records import Floats, Ints
from index.words.analyzers import analyzer_for
from index.words.query_reading import EXACTLY, Reading, ReadingOptions, read
from index.words.query_words import Words, number_words
from index.words.tokens import spaced
from index.words.vocabulary import Vocabulary

WRITER_HEAP_BYTES = 32_000_000
ANALYZER = "words"
SURFACE_ANALYZER = "surface"
CACHED_TEXTS = 1024
"""Query texts whose reading a searcher caches."""
Factors = Sequence[tuple[str, float]]
"""Terms of the index, and how much each counts."""
NOTHING = (np.empty(0, np.int64), np.empty(0, np.float32))


class WordSearcher:
    """An immutable view of the index at one commit; safe to share between threads."""

    def __init__(self, searcher: tantivy.Searcher, schema: tantivy.Schema, vocabulary: Vocabulary) -> None:
        self._searcher = searcher
        self._schema = schema
        self.vocabulary = vocabulary
        # a search reads its text more than once, and so does a comparison of two models
        self._read = lru_cache(CACHED_TEXTS)(lambda text, options: read(text, options, vocabulary))

    @property
    def count(self) -> int:
        """The number of documents."""
        return int(self._searcher.num_docs)

    def read(self, text: str, options: ReadingOptions = EXACTLY) -> Reading:
        """Return the words of a query with their weights, and the words that stand for them."""
        reading: Reading = self._read(text, options)
        return reading

    def number(self, text: str) -> Words:
        """Return the words of a text as numbers (T,), in order, as `WordIndex.number` does."""
        return number_words(self.vocabulary.stems(spaced(text)))

    def search(
        self, text: str, k: int, allowed: Ints | None = None, options: ReadingOptions = EXACTLY
    ) -> tuple[Ints, Floats]:
        """Return the rows of the k best documents and their BM25 scores, best first; ties go to the lower row.

        allowed (n,): the rows that may be returned; None allows all. options: how the text is read.
        """
        return self.find(self.read(text, options), k, allowed)

    def find(
        self, reading: Reading, k: int, allowed: Ints | None = None, corrected: Ints | None = None
    ) -> tuple[Ints, Floats]:
        """Return the rows and scores of a reading, as `search` does.

        corrected (m,): the rows that `Reading.corrected_terms` may match; None for no row.
        """
        if k <= 0 or self.count == 0 or (allowed is not None and len(allowed) == 0):
            return NOTHING
        query = self._query(reading.terms)
        if corrected is not None and len(corrected):
            query = self._with_corrections(query, reading.corrected_terms, corrected)
        if query is None:
            return NOTHING
        return self._collect(query if allowed is None else self._restricted(query, allowed), min(k, self.count))

    def _with_corrections(
        self, query: tantivy.Query | None, corrected_terms: Factors, rows: Ints
    ) -> tantivy.Query | None:
        """Return the query with terms that match the documents with these rows alone."""
        corrected = self._query(corrected_terms)
        if corrected is None or query is None:
            return query
        either = [(tantivy.Occur.Should, query), (tantivy.Occur.Should, self._restricted(corrected, rows))]
        return tantivy.Query.boolean_query(either)

    def _query(self, terms_with_factors: Factors) -> tantivy.Query | None:
        counts: dict[str, float] = {}
        for token, factor in terms_with_factors:
            counts[token] = counts.get(token, 0.0) + factor
        if not counts:
            return None
        terms = []
        for token, count in sorted(counts.items()):
            term = tantivy.Query.term_query(self._schema, "words", token, "freq")
            terms.append((tantivy.Occur.Should, tantivy.Query.boost_query(term, float(count))))
        return tantivy.Query.boolean_query(terms)

    def _restricted(self, query: tantivy.Query, allowed: Ints) -> tantivy.Query:
        member = tantivy.Query.term_set_query(self._schema, "row", allowed.tolist())
        without_score = tantivy.Query.const_score_query(member, 0.0)
        return tantivy.Query.boolean_query([(tantivy.Occur.Must, query), (tantivy.Occur.Must, without_score)])

    def _collect(self, query: tantivy.Query, k: int) -> tuple[Ints, Floats]:
        limit = min(k + 1, self.count)
        hits = self._searcher.search(query, limit=limit, count=False).hits
        while len(hits) == limit < self.count and hits[-1][0] == hits[k - 1][0]:  # a tie at the cut: the lower rows win
            limit = min(4 * limit, self.count)
            hits = self._searcher.search(query, limit=limit, count=False).hits
        addresses = [address for _, address in hits]
        rows = np.asarray(self._searcher.fast_field_values("row", addresses), np.int64)
        scores = np.asarray([score for score, _ in hits], np.float32)
        order = np.lexsort((rows, -scores))[:k]
        return rows[order], scores[order]


class WordIndex:
    """The writable index, in its own folder. One writer. Each commit publishes a new WordSearcher."""

    def __init__(self, directory: Path, language: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._schema = _schema()
        self._analyzer = analyzer_for(language)
        self._surface_analyzer = analyzer_for("none")
        self._index = tantivy.Index(self._schema, path=str(directory), reuse=True)
        self._index.register_tokenizer(ANALYZER, self._analyzer)
        self._index.register_tokenizer(SURFACE_ANALYZER, self._surface_analyzer)
        self._writer: tantivy.IndexWriter | None = None

    def replace(self, rows: Iterable[int], texts: Iterable[str]) -> None:
        """Add documents, replacing those with the same rows; visible after commit."""
        for row, text in zip(rows, texts, strict=True):
            self._delete(row)
            document = tantivy.Document()
            document.add_unsigned("row", row)
            cut = spaced(text)
            document.add_text("words", cut)
            document.add_text("surface", cut)
            self._live_writer.add_document(document)

    def remove(self, rows: Sequence[int]) -> None:
        """Remove the documents with these rows; visible after commit."""
        for row in rows:
            self._delete(row)

    def number(self, text: str) -> Words:
        """Return the words of a text as numbers (T,), in order, for `index.words.term_matching`."""
        return number_words(self._analyzer.analyze(spaced(text)))

    def commit(self) -> WordSearcher:
        """Make all changes durable and return a searcher that sees them."""
        self._live_writer.commit()
        return self.searcher()

    def searcher(self) -> WordSearcher:
        """Return a searcher over the last commit."""
        self._index.reload()
        searcher = self._index.searcher()
        return WordSearcher(searcher, self._schema, Vocabulary(searcher, self._surface_analyzer, self._analyzer))

    def close(self) -> None:
        """Wait for merges to end and release the lock of the folder. The files do not change until the next write."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.wait_merging_threads()

    def _delete(self, row: int) -> None:
        # delete_documents_by_term makes a signed term of the number, which matches no document
        self._live_writer.delete_documents_by_query(tantivy.Query.term_query(self._schema, "row", row))

    @property
    def _live_writer(self) -> tantivy.IndexWriter:
        if self._writer is None:
            self._writer = self._index.writer(WRITER_HEAP_BYTES, 1)
        return self._writer


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("row", indexed=True, fast=True)
    builder.add_text_field("words", tokenizer_name=ANALYZER, index_option="freq")
    builder.add_text_field("surface", tokenizer_name=SURFACE_ANALYZER, index_option="basic")
    return builder.build()
