"""Parts in this process, for tests: each is a generation with a part of the documents."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from index.generation.generation import Generation, IndexedDocument
from index.generation.store import GenerationStore
from index.partitions.merged_words import Asking, MergedPostings, PartTotals, frequencies_in
from index.partitions.part import Nominations, PartEvidence, evidence_of, nominate
from index.ranking.attention import AttentionHead
from index.ranking.retrieval import Query
from index.records import Floats, Ints, MemoryKey
from index.words.analyzers import analyzer_for
from index.words.vocabulary import Vocabulary
from tests.index.fixtures import ENCODER


class LocalParts:
    """The parts of a collection, in this process. The document with the row r is in the part r mod P."""

    def __init__(self, generations: Sequence[Generation], head: AttentionHead, language: str = "none") -> None:
        self.generations, self._head = generations, head
        self.postings = MergedPostings(
            [PartTotals.of(one) for one in generations],
            Asking(
                lambda asked: [frequencies_in(one.words.postings, asked) for one in generations],
                lambda field, prefix: [one.words.postings.with_prefix(field, prefix) for one in generations],
            ),
        )
        self.vocabulary = Vocabulary(self.postings, analyzer_for("none"), analyzer_for(language))

    def nominate(self, query: Query, vectors: Floats, asked: Floats | None) -> list[Nominations]:
        return [nominate(one, self._head, query, vectors, asked) for one in self.generations]

    def evidence_of(self, query: Query, asked: Floats, rows: Ints, with_values: bool) -> list[PartEvidence]:
        parts = len(self.generations)
        return [
            evidence_of(one, self._head, query, asked, rows[rows % parts == part], with_values)
            for part, one in enumerate(self.generations)
        ]

    def values_of(self, rows: Ints) -> Floats:
        values = np.zeros((len(rows), ENCODER.dim), np.float32)
        for part, one in enumerate(self.generations):
            mine = rows % len(self.generations) == part
            values[mine] = one.value_vectors(one.doc_indices(rows[mine]))
        return values


def split(
    directory: Path,
    documents: Sequence[IndexedDocument],
    memory: Sequence[MemoryKey],
    parts: int,
    removed: Sequence[int],
) -> list[Generation]:
    """Return the generations of P parts; every part has all of memory. The rows `removed` are added, then removed."""
    generations = []
    for part in range(parts):
        store = GenerationStore(directory / f"{part} of {parts}", ENCODER.dim, "none")
        store.apply(1, [one for one in documents if one.row % parts == part])
        store.apply(2, [], [row for row in removed if row % parts == part])
        generations.append(store.remember(3, memory))
        store.close()
    return generations
