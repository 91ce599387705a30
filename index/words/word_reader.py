"""Reads a word index that another process writes: its files as of one commit, and the words that the files lack."""

import json
from pathlib import Path
from typing import Any

import tantivy

from index.errors import SearchError
from index.words.analyzers import analyzer_for
from index.words.bm25_index import META, deleted_documents, reload_when_told
from index.words.postings import Postings
from index.words.recent_words import RecentView, RecentWords
from index.words.vocabulary import Vocabulary
from index.words.word_search import WordSearcher


class OtherCommit(SearchError):
    """The files of the word index are of another commit than the one to read."""


class WordReader:
    """The reading side of a word index. `read` takes what `described` returned in the writing process."""

    def __init__(self, directory: Path, language: str) -> None:
        """Open the files. Raises OtherCommit if there are none."""
        self._directory = directory
        self._analyzer, self._surface_analyzer = analyzer_for(language), analyzer_for("none")
        try:
            self._index = tantivy.Index.open(str(directory))
            reload_when_told(self._index)
        except (ValueError, OSError) as error:
            raise OtherCommit(f"{directory.name} is gone") from error
        self._log, self._log_number = RecentWords(), 0
        self._files: tuple[int, tantivy.Searcher, int] | None = None

    def read(self, described: dict[str, Any]) -> WordSearcher:
        """Return a searcher of a described state. States come in order, and none is left out.

        Raises OtherCommit if the writer has written the files again meanwhile: a later state describes them.
        """
        if described["log"] != self._log_number:
            self._log, self._log_number = RecentWords(), described["log"]
        for added in described["added"]:
            self._log.append(*added)
        files, deleted = self._files_of(described["opstamp"])
        recent = RecentView(self._log, described["seen"], frozenset(described["gone"]))
        hidden = frozenset(described["hidden"])
        postings = Postings(
            files, self._index.schema, deleted, hidden, recent, described["mean_length"], described["opstamp"]
        )
        return WordSearcher(postings, Vocabulary(postings, self._surface_analyzer, self._analyzer))

    def _files_of(self, opstamp: int) -> tuple[tantivy.Searcher, int]:
        """Return the files of a commit, and the number of deleted documents that they hold."""
        if self._files is None or self._files[0] != opstamp:
            meta = self._meta()
            try:
                self._index.reload()
            except (ValueError, OSError) as error:
                raise OtherCommit(f"{self._directory.name} cannot be read") from error
            if meta["opstamp"] != opstamp or self._meta()["opstamp"] != opstamp:
                raise OtherCommit(f"{self._directory.name} has another commit than {opstamp}")
            self._files = opstamp, self._index.searcher(), deleted_documents(meta)
        return self._files[1:]

    def _meta(self) -> dict[str, Any]:
        try:
            meta: dict[str, Any] = json.loads((self._directory / META).read_bytes())
        except OSError as error:
            raise OtherCommit(f"{self._directory.name} is gone") from error
        return meta


class WordDescriber:
    """Describes successive states of a word index for a `WordReader`, each with what the state before it lacks."""

    def __init__(self) -> None:
        self._log: RecentWords | None = None
        self._log_number = 0
        self._seen = 0

    def described(self, words: WordSearcher) -> dict[str, Any]:
        """Return a state as JSON; the next call begins where this one ends."""
        postings = words.postings
        recent = postings.recent
        if recent.log is not self._log:
            self._log, self._log_number, self._seen = recent.log, self._log_number + 1, 0
        added, self._seen = recent.log.documents[self._seen : recent.seen], recent.seen
        return {
            "opstamp": postings.opstamp,
            "hidden": sorted(postings.hidden),
            "log": self._log_number,
            "added": added,
            "seen": recent.seen,
            "gone": sorted(recent.gone),
            "mean_length": postings.mean_length,
        }
