"""A BM25 index over title and text, by row number. The documents suffice to rebuild it.

Sees texts and row numbers, never ids or vectors; `index.words.word_search` searches it. The field `words` has the terms
that BM25 scores; the field `surface` has the words without stemming, for corrections and completions, and `written` has
their accents (`index.words.written_forms`). Source: Robertson and Zaragoza 2009 (BM25, k1 1.2, b .75).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import tantivy

from index.storage.files import make_durable_directory
from index.storage.full_disk import full_disk_as_os_error
from index.words.analyzers import analyzer_for
from index.words.postings import Postings
from index.words.query_words import Words, number_words
from index.words.recent_words import RecentView
from index.words.tokens import spaced
from index.words.vocabulary import Vocabulary
from index.words.word_search import WordSearcher
from index.words.written_forms import written_terms

META = "meta.json"
"""The file of the library that lists the segments of the last commit."""
WRITER_HEAP_BYTES = 32_000_000
RECENT_DOCUMENTS = 64
RECENT_CHARACTERS = 400_000
"""The files are written when more documents or characters than this wait in memory. A search reads the waiting
documents word by word."""
ANALYZER = "words"
SURFACE_ANALYZER = "surface"


class WordIndex:
    """The writable index. One writer. Each commit publishes a new WordSearcher. A full disk is an OSError.

    A commit of a few documents stays in memory, and the files are written with many documents at once: a commit of the
    library syncs and renames about 20 files. What is lost with the process is in the documents.
    """

    def __init__(self, directory: Path, language: str) -> None:
        make_durable_directory(directory)
        self._directory = directory
        self._schema = _schema()
        self._analyzer = analyzer_for(language)
        self._surface_analyzer = analyzer_for("none")
        with full_disk_as_os_error():
            self._index = tantivy.Index(self._schema, path=str(directory), reuse=True)
        reload_when_told(self._index)
        self._index.register_tokenizer(ANALYZER, self._analyzer.tokenizer)
        self._index.register_tokenizer(SURFACE_ANALYZER, self._surface_analyzer.tokenizer)
        self._writer: tantivy.IndexWriter | None = None
        self._added: dict[int, str] = {}
        """Row -> text of the documents added since the last commit."""
        self._removed: set[int] = set()
        """The rows removed since the last commit; rows that are added again are among them."""
        self._texts: dict[int, str] = {}
        """Row -> text of the committed documents that the files lack."""
        self._committed = self._written(0.0)

    def replace(self, rows: Iterable[int], texts: Iterable[str]) -> None:
        """Add documents, replacing those with the same rows; visible after commit."""
        added = dict(zip(rows, texts, strict=True))
        self._removed.update(added)
        self._added |= added

    def remove(self, rows: Sequence[int]) -> None:
        """Remove the documents with these rows; visible after commit."""
        self._removed.update(rows)
        for row in rows:
            self._added.pop(row, None)

    def number(self, text: str) -> Words:
        """Return the words of a text as numbers (T,), in order, for `index.words.term_matching`."""
        return number_words(self._analyzer.analyze(spaced(text)))

    def commit(self, mean_length: float = 0.0) -> WordSearcher:
        """Return a searcher that sees all changes. Few changes stay in memory; otherwise the files are written.

        mean_length: the mean number of words of a document; 0: of the documents that the files lack.
        """
        texts = {row: text for row, text in self._texts.items() if row not in self._removed} | self._added
        hidden = self._committed.hidden.union(self._committed.stored_rows(sorted(self._removed)))
        documents = self._committed.recent.seen + len(self._added)  # documents that were removed again count too
        if max(documents, len(hidden)) > RECENT_DOCUMENTS or sum(map(len, texts.values())) > RECENT_CHARACTERS:
            self._write(texts, hidden)
            self._committed = self._written(mean_length)
            texts = {}
        else:
            recent = self._with_changes(self._committed.recent)
            length_of_all = mean_length or recent.mean_length
            self._committed = replace(self._committed, hidden=hidden, recent=recent, mean_length=length_of_all)
        self._texts, self._added, self._removed = texts, {}, set()
        return self.searcher()

    def flush(self) -> WordSearcher:
        """Write all committed changes to the files, durably, and return a searcher."""
        if self._texts or self._committed.hidden:
            self._write(self._texts, self._committed.hidden)
            self._committed = self._written(self._committed.mean_length)
            self._texts = {}
        return self.searcher()

    def roll_back(self) -> None:
        """Forget the changes since the last commit."""
        self._added, self._removed = {}, set()

    def searcher(self) -> WordSearcher:
        """Return a searcher over the last commit."""
        return WordSearcher(self._committed, Vocabulary(self._committed, self._surface_analyzer, self._analyzer))

    @property
    def is_on_disk(self) -> bool:
        """Whether the files of the index exist."""
        return (self._directory / META).is_file()

    def close(self) -> None:
        """Wait for merges to end and release the lock of the folder. The files do not change until the next write."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.wait_merging_threads()

    def _with_changes(self, recent: RecentView) -> RecentView:
        """Return the recent documents with the changes since the last commit."""
        positions = recent.positions
        gone = recent.gone.union(positions[row] for row in self._removed if row in positions)
        cut = {row: spaced(text) for row, text in self._added.items()}
        terms = {row: self._analyzer.analyze(text) for row, text in cut.items()}
        surface = {row: self._surface_analyzer.analyze(text) for row, text in cut.items()}
        for row in cut:
            recent.log.append(row, terms[row], surface[row], written_terms(self._added[row]))
        return RecentView(recent.log, recent.seen + len(cut), gone)

    def _write(self, texts: Mapping[int, str], removed: Iterable[int]) -> None:
        """Write documents to the files, and delete these rows in them, durably.

        A writer that failed is forgotten: it would lose later changes too.
        """
        try:
            with full_disk_as_os_error():
                self._write_by(self._live_writer, texts, removed)
        except BaseException:
            self._writer = None
            raise

    def _write_by(self, writer: tantivy.IndexWriter, texts: Mapping[int, str], removed: Iterable[int]) -> None:
        for row in (*removed, *texts):  # a row that a failed call has left in the files is not added twice
            # delete_documents_by_term makes a signed term of the number, which matches no document
            writer.delete_documents_by_query(tantivy.Query.term_query(self._schema, "row", row))
        for row, text in texts.items():
            document = tantivy.Document()
            document.add_unsigned("row", row)
            cut = spaced(text)
            document.add_text("words", self._analyzer.prepared(cut))
            document.add_text("surface", cut)
            document.add_text("written", " ".join(written_terms(text)))
            writer.add_document(document)
        writer.commit()

    def _written(self, mean_length: float) -> Postings:
        """Return a view of the files as they were written last."""
        meta = json.loads((self._directory / META).read_bytes())
        deleted = deleted_documents(meta)
        self._index.reload()
        files = self._index.searcher()
        return Postings(files, self._schema, deleted, frozenset(), RecentView(), mean_length, meta["opstamp"])

    @property
    def _live_writer(self) -> tantivy.IndexWriter:
        if self._writer is None:
            self._writer = self._index.writer(WRITER_HEAP_BYTES, 1)
        return self._writer


def reload_when_told(index: tantivy.Index) -> None:
    """Let an index read new commits in calls of `reload` only.

    Otherwise a thread of the library reads each commit within half a second too: it makes a lock file in a folder that
    may be being removed, and changes the searcher between `reload` and `searcher`.
    """
    index.config_reader("manual", num_warmers=0)


def deleted_documents(meta: Mapping[str, Any]) -> int:
    """Return the number of deleted documents in the files that META lists. A merge after it can only lower it."""
    return sum(segment["deletes"]["num_deleted_docs"] for segment in meta["segments"] if segment.get("deletes"))


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("row", indexed=True, fast=True)
    builder.add_text_field("words", tokenizer_name=ANALYZER, index_option="freq")
    builder.add_text_field("surface", tokenizer_name=SURFACE_ANALYZER, index_option="basic")
    builder.add_text_field("written", tokenizer_name="whitespace", index_option="basic")
    return builder.build()
