"""Word engines beside ours: SQLite FTS5, and tantivy's own fuzzy and prefix queries.

Each indexes the same text, title and text, and searches for the words of a query. Each is used as its documentation
says: the last word as a prefix, and unknown words with as many edits as ours. English stems are the default.
"""

import re
import sqlite3
from collections.abc import Callable, Sequence

import tantivy

WORD = re.compile(r"\w+")
Search = Callable[[str, int], list[str]]
"""Query and count -> ids, best first."""


def edits(word: str) -> int:
    """Return the edits that a word may have: one from 4 letters, two from 8."""
    return (len(word) >= 4) + (len(word) >= 8)


class Fts5:
    """SQLite FTS5 and its BM25: all words, else any word; the last word may be a prefix."""

    def __init__(self, documents: Sequence[tuple[str, str]], tokenizer: str = "porter unicode61") -> None:
        """documents: (id, text)."""
        self._connection = sqlite3.connect(":memory:", check_same_thread=False)
        self._connection.execute(f"CREATE VIRTUAL TABLE d USING fts5(id UNINDEXED, text, tokenize='{tokenizer}')")
        self._connection.executemany("INSERT INTO d VALUES (?, ?)", documents)

    def search(self, query: str, count: int, prefix: bool = False) -> list[str]:
        """Return the ids of the best documents."""
        words = [f'"{word}"' for word in WORD.findall(query.lower())]
        if not words:
            return []
        if prefix and WORD.fullmatch(query[-1:]):
            words[-1] += "*"
        found = self._ids(" AND ".join(words), count)
        return found or self._ids(" OR ".join(words), count)

    def _ids(self, expression: str, count: int) -> list[str]:
        statement = "SELECT id FROM d WHERE d MATCH ? ORDER BY rank LIMIT ?"
        return [row[0] for row in self._connection.execute(statement, (expression, count))]


class Trigrams(Fts5):
    """SQLite FTS5 with the trigram tokenizer: all words as parts of words, else any three adjacent characters."""

    def __init__(self, documents: Sequence[tuple[str, str]]) -> None:
        """documents: (id, text)."""
        super().__init__(documents, "trigram")

    def search(self, query: str, count: int, prefix: bool = False) -> list[str]:
        """Return the ids of the best documents. Every word may be the beginning of a longer word."""
        words = WORD.findall(query.lower())
        trigrams = list(dict.fromkeys(word[at : at + 3] for word in words for at in range(len(word) - 2)))
        if not trigrams:  # the tokenizer finds nothing shorter
            return []
        found = self._ids(" AND ".join(f'"{word}"' for word in words), count)
        return found or self._ids(" OR ".join(f'"{one}"' for one in trigrams), count)


def stems(language: str) -> tantivy.TextAnalyzer:
    """Return tantivy's default analyzer with the stemmer of a language."""
    lower = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).filter(tantivy.Filter.lowercase())
    return lower.filter(tantivy.Filter.stemmer(language)).build()


def ngrams(least: int, most: int) -> tantivy.TextAnalyzer:
    """Return tantivy's analyzer of `least` to `most` adjacent characters."""
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.ngram(least, most, prefix_only=False))
    return builder.filter(tantivy.Filter.lowercase()).build()


class Tantivy:
    """tantivy: BM25 of the terms of an analyzer, and its fuzzy term queries on the words as they are written."""

    def __init__(self, documents: Sequence[tuple[str, str]], analyzer: tantivy.TextAnalyzer | None = None) -> None:
        """documents: (id, text). analyzer: cuts texts and queries; None means English stems."""
        self._analyzer = analyzer or stems("english")
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("id", stored=True, tokenizer_name="raw")
        builder.add_text_field("stems", tokenizer_name="own", index_option="freq")
        builder.add_text_field("words", tokenizer_name="default", index_option="freq")
        self._schema = builder.build()
        index = tantivy.Index(self._schema)
        index.register_tokenizer("own", self._analyzer)
        writer = index.writer(50_000_000, 1)
        for id, text in documents:
            writer.add_document(tantivy.Document(id=id, stems=text, words=text))
        writer.commit()
        index.reload()
        self._searcher = index.searcher()

    def search(self, query: str, count: int, fuzzy: bool = True, prefix: bool = False) -> list[str]:
        """Return the ids of the best documents."""
        words = WORD.findall(query.lower())
        unfinished = prefix and bool(WORD.fullmatch(query[-1:]))
        parts = []
        for at, word in enumerate(words):
            terms = self._analyzer.analyze(word)
            parts += [tantivy.Query.term_query(self._schema, "stems", term) for term in terms]
            last = unfinished and at == len(words) - 1
            distance = edits(word) if fuzzy else 0
            if distance or last:
                parts.append(tantivy.Query.fuzzy_term_query(self._schema, "words", word, distance, prefix=last))
        if not parts:
            return []
        wanted = tantivy.Query.boolean_query([(tantivy.Occur.Should, part) for part in parts])
        hits = self._searcher.search(wanted, limit=count).hits
        return [self._searcher.doc(address)["id"][0] for _, address in hits]
