"""A BM25 index over title and text, by row number. The documents suffice to rebuild it.

Sees texts and row numbers, never ids or vectors; `index.words.word_search` searches it. The field `words` has the terms
that BM25 scores; the field `surface` has the words without stemming, for corrections and completions. Source: Robertson
and Zaragoza 2009 (BM25, k1 1.2, b .75).
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import tantivy

from index.storage.files import make_durable_directory
from index.words.analyzers import analyzer_for
from index.words.query_words import Words, number_words
from index.words.tokens import spaced
from index.words.vocabulary import Vocabulary
from index.words.word_search import WordSearcher

META = "meta.json"
"""The file of the library that lists the segments of the last commit."""
WRITER_HEAP_BYTES = 32_000_000
ANALYZER = "words"
SURFACE_ANALYZER = "surface"


class WordIndex:
    """The writable index, in its own folder. One writer. Each commit publishes a new WordSearcher."""

    def __init__(self, directory: Path, language: str) -> None:
        make_durable_directory(directory)
        self._directory = directory
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

    def roll_back(self) -> None:
        """Forget the changes since the last commit, and the writer: a writer that failed loses later changes too."""
        self._writer = None

    def searcher(self) -> WordSearcher:
        """Return a searcher over the last commit."""
        deleted = self._deleted_count()  # before the reload: a merge in between can only lower it
        self._index.reload()
        searcher = self._index.searcher()
        vocabulary = Vocabulary(searcher, self._schema, self._surface_analyzer, self._analyzer, deleted)
        return WordSearcher(searcher, self._schema, vocabulary)

    @property
    def is_on_disk(self) -> bool:
        """Whether the files of the index exist."""
        return (self._directory / META).is_file()

    def _deleted_count(self) -> int:
        """Return the number of deleted documents that the files still hold, and the library's statistics count."""
        segments = json.loads((self._directory / META).read_bytes())["segments"]
        return sum(segment["deletes"]["num_deleted_docs"] for segment in segments if segment.get("deletes"))

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
