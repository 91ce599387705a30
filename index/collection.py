"""A collection without a service: documents, searches, feedback, training and evaluation in one object.

The service stores the same data in a database. Here documents and feedback are in memory, and the index is in a
temporary folder that `close` removes. A collection may be used by one thread at a time.
"""

import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from index.arguments import (
    is_finite,
    is_text,
    require_count,
    require_documents,
    require_ids,
    require_measures,
    require_qrels,
    require_several,
    require_text,
)
from index.encoding.documents import encode_documents, words_of
from index.encoding.encoder import Encoder
from index.errors import InvalidArgument
from index.generation.generation import IndexedDocument
from index.generation.store import GenerationStore
from index.memory.aggregation import Confirmations
from index.memory.confirmation import Confirmation
from index.memory.grades import DecayClock
from index.memory.query_key import as_query_key, bare_key
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.explanation import explain_parts
from index.ranking.head_settings import require_config
from index.ranking.retrieval import UNFINISHED_CANDIDATES, Query, with_vectors
from index.ranking.search import Ranking, search
from index.records import OWN_KINDS, Document, Floats, KeyKind
from index.words.analyzers import LANGUAGES
from index.words.compounds import COMPOUNDING
from index.words.participles import PARTICIPLES
from index.words.question_words import QUESTION_WORDS
from index.words.reading_options import ReadingOptions

if TYPE_CHECKING:
    from index.learning.config import FitConfig
    from index.learning.fit import Fitted

KINDS = (KeyKind.TITLE, KeyKind.PASSAGE)
MAX_GRADE = 4
"""The grade of a perfect document; its negative is the lowest grade."""


@dataclass(frozen=True)
class Hit:
    """A result of a search. Weights sum to 1 over all candidates and the null slot; the parts add up to the logit."""

    document: Document
    weight: float
    logit: float
    parts: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class _Judgment:
    """A grade for a document and a query with the vector (D,)."""

    number: int
    key: str
    text: str
    vector: Floats
    document_id: str
    grade: float


class Collection:
    """Documents with the attention head that ranks them.

    `head` ranks the searches. It is untrained initially, and `fit` replaces it if the gate passes.
    """

    def __init__(
        self,
        encoder: Encoder,
        config: HeadConfig | None = None,
        language: str = "english",
        kinds: Iterable[KeyKind | str] = KINDS,
        typos: bool = True,
        question_words: bool = True,
    ) -> None:
        """Create an empty collection.

        config: the form of attention and its initial values; the default is the hybrid search. language: the language
        of the stemmer, `none` for no stemming. kinds: the kinds of keys per document, of `title`, `passage` and
        `sentence`; passages are always included. typos: whether words of queries that no document contains are
        corrected. question_words: whether the words of questions, such as `how do I`, are left out of them. Raises
        InvalidArgument for another language or kind, and for a config with another width than the encoder's or a value
        that it cannot have.
        """
        if config is not None:
            require_config(config, encoder.dim)
        if language not in ("none", *LANGUAGES):
            raise InvalidArgument(f"language is {language!r}; it must be none or one of {', '.join(LANGUAGES)}")
        self._kinds = {KeyKind.PASSAGE, *map(_kind_of, require_several("kinds", kinds))}
        self.encoder = encoder
        self.head = AttentionHead(config or HeadConfig(encoder.dim))
        self._folder = tempfile.TemporaryDirectory(prefix="softseek-")
        asking = QUESTION_WORDS.get(language) if question_words else None
        reading = ReadingOptions(
            typos=typos,
            known=encoder.words,
            question_words=asking,
            participles=language in PARTICIPLES,
            compounds=language in COMPOUNDING,
        )
        self._store = GenerationStore(Path(self._folder.name) / "index", encoder.dim, language, reading)
        self._documents: dict[int, Document] = {}
        self._rows: dict[str, int] = {}
        self._first_rows: dict[str, int] = {}
        """Id -> the row of the first document with it, which tells how new the document is."""
        self._judgments: dict[tuple[str, str], _Judgment] = {}
        self._memory = Confirmations(DecayClock(0))
        self._numbers = count()
        self._watermark = 0

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, documents: Iterable[Document]) -> None:
        """Add documents. A document with a known id replaces the earlier document and keeps its feedback.

        Raises InvalidArgument for a document with a part of another type than the class says, such as an id that is no
        string or a number that is not finite. After an error none of the documents is added.
        """
        documents = require_documents(documents)
        latest = {document.id: document for document in documents}
        encoded = encode_documents(self.encoder, list(latest.values()), self._kinds)
        removed = [self._rows[id] for id in latest if id in self._rows]
        rows = {id: next(self._numbers) for id in latest}
        added = [
            IndexedDocument(
                rows[id], words_of(document), vectors.keys, vectors.value, document.title or "", id, document.metadata
            )
            for (id, document), vectors in zip(latest.items(), encoded, strict=True)
        ]
        self._store.apply(self._tick(), added, removed)
        for row in removed:
            del self._documents[row]
        self._documents.update((rows[id], document) for id, document in latest.items())
        self._rows.update(rows)
        self._first_rows = rows | self._first_rows
        self._remember([one for one in self._judgments.values() if one.document_id in latest])

    def remove(self, ids: Iterable[str]) -> None:
        """Remove documents and the feedback on them; unknown ids are ignored.

        Raises InvalidArgument for a lone string.
        """
        gone = {id: self._rows[id] for id in dict.fromkeys(require_ids(ids)) if id in self._rows}
        self._store.apply(self._tick(), [], list(gone.values()))
        for id, row in gone.items():
            del self._rows[id], self._first_rows[id], self._documents[row]
        forgotten = [pair for pair in self._judgments if pair[1] in gone]
        self._remember([], [self._judgments.pop(pair) for pair in forgotten])

    def search(self, text: str, limit: int = 10, prefix: bool = False) -> list[Hit]:
        """Return the best documents for a query, best first. prefix: whether the last word may be unfinished.

        Raises InvalidArgument for a text that is no string, and for a limit that is no whole number from 0 on.
        """
        require_text("text", text)
        require_count("limit", limit)
        ranking = self._ranking(text, prefix=prefix)
        rows = self._store.current.rows[ranking.doc_indices[:limit]].tolist()
        return [
            Hit(
                self._documents[row],
                float(ranking.weights[rank]),
                float(ranking.logits[rank]),
                explain_parts(ranking, rank),
            )
            for rank, row in enumerate(rows)
        ]

    def judge(self, text: str, document_id: str, grade: float) -> None:
        """Store a judgment: a grade above 0 for a relevant document, below 0 for an irrelevant one, 0 to remove it.

        grade: a number from -4 to 4, also with decimals. The next search uses it as memory. `fit` learns from it; there
        a grade below 0 counts like no grade. A later judgment of the document replaces it, also with another case or
        punctuation of the text. Raises KeyError for an unknown document, and InvalidArgument for a text of white space
        alone and for another grade.
        """
        if not is_text(text) or not text.strip():
            raise InvalidArgument("the text of a judged query must be a string with more than white space")
        if not is_finite(grade) or abs(grade) > MAX_GRADE:
            raise InvalidArgument(f"grade is {grade!r}; it must be a number from {-MAX_GRADE} to {MAX_GRADE}")
        if not is_text(document_id) or document_id not in self._rows:
            raise KeyError(document_id)
        key = as_query_key(text)
        added = []
        if grade:
            vector = self.encoder.encode_queries([text])[0]
            added = [_Judgment(next(self._numbers), key, text, vector, document_id, grade)]
        pair = (bare_key(key), document_id)  # all spellings of a query are one, as in memory
        before = self._judgments.pop(pair, None)
        if added:
            self._judgments[pair] = added[0]
        self._remember(added, [before] if before else [])

    def fit(self, config: "FitConfig | None" = None) -> "Fitted":
        """Train a challenger on all judgments; it becomes `head` if its gate passes.

        Raises NotEnoughFeedback, and InvalidArgument for a config with a value that it cannot have.

        It learns effects of all fields of the metadata too.

        Every call is judged as the first decision against the head; only the service counts decisions (decision 0022).
        """
        from index.learning.config import FitConfig, require_fit_config  # torch is imported by what trains alone
        from index.learning.examples import Feedback, with_search_vectors
        from index.learning.field_effects import labels_of
        from index.learning.fit import fit

        config = FitConfig() if config is None else config
        require_fit_config(config)
        by_key: dict[str, list[_Judgment]] = {}
        for (key, _), one in self._judgments.items():
            by_key.setdefault(key, []).append(one)
        feedback = [
            Feedback(key, of[-1].text, of[-1].vector, {self._rows[one.document_id]: one.grade for one in of})
            for key, of in sorted(by_key.items())
        ]
        generation = self._store.current
        feedback = with_search_vectors(generation, feedback, lambda: self.encoder)
        metadata = [one.metadata for one in self._documents.values()]
        labels = labels_of(generation, metadata, sorted({name for one in metadata for name in one}))
        named = [self._first_rows[one.document_id] for one in self._judgments.values() if one.grade > 0]
        newer = {self._rows[id] for id, first in self._first_rows.items() if first > max(named, default=first)}
        steps = fit(generation, feedback, self.head, config, labels=labels, newer=newer)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                fitted: Fitted = end.value
                break
        if fitted.decision.promote:
            self.head = fitted.head
        return fitted

    def evaluate(
        self, qrels: Mapping[str, Mapping[str, int]], measures: Sequence[str] = ("nDCG@10", "R@100")
    ) -> dict[str, float]:
        """Return the mean of each measure over the queries of qrels (query text -> document id -> grade).

        The memory of a query's own judgments is left out. Raises InvalidArgument for another measure, for a grade that
        is not a whole number, and for qrels of another form.
        """
        require_qrels(qrels)
        measures = require_measures(measures)
        from index.evaluation.measures import measure_run

        run = {text: self._ids(self._ranking(text, held_out=True)) for text in qrels}
        measured = measure_run(run, qrels, list(measures))
        return {name: sum(of.values()) / max(1, len(of)) for name, of in measured.items()}

    def close(self) -> None:
        """End background work and remove the index."""
        self._store.close()
        self._folder.cleanup()

    def _ranking(self, text: str, held_out: bool = False, prefix: bool = False) -> Ranking:
        generation = self._store.current
        options = replace(generation.reading, prefix=prefix)
        reading = generation.words.read(text, options)
        excluded = as_query_key(text) if held_out else None
        query = Query(text, np.zeros(generation.dim, np.float32), excluded_query=excluded, reading=options)
        query = replace(query, count=UNFINISHED_CANDIDATES if reading.unfinished else query.count)
        query = with_vectors(query, reading, self.encoder.encode_query, bool(self._judgments))
        return search(generation, self.head, query)

    def _ids(self, ranking: Ranking) -> list[str]:
        return [self._documents[row].id for row in self._store.current.rows[ranking.doc_indices].tolist()]

    def _remember(self, added: "Sequence[_Judgment]", removed: "Sequence[_Judgment]" = ()) -> None:
        """Publish a generation with these judgments added to memory or updated, and others removed."""
        moment = int(1000 * time.time())
        confirmed = [
            Confirmation(
                one.number, self._rows[one.document_id], one.key, one.vector, one.grade, None, moment, judged=True
            )
            for one in added
        ]
        touched = self._memory.change(confirmed, [one.number for one in removed])
        self._store.revise(self._tick(), self._memory.keys(touched))

    def _tick(self) -> int:
        self._watermark += 1
        return self._watermark


def _kind_of(name: KeyKind | str) -> KeyKind:
    """Return the kind of keys with this name. Raises InvalidArgument."""
    for kind in OWN_KINDS:
        if name in (kind.label, kind):
            return kind
    known = ", ".join(kind.label for kind in OWN_KINDS)
    raise InvalidArgument(f"kinds has {name!r}; a kind must be one of {known}")
