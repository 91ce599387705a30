"""Applies the rules of a collection to a search: hidden documents are excluded, pinned documents get their positions.

Rules apply in every mode. Searches with `sort` have no pinned documents. Rules of the text `*` apply to
searches without words.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from index.generation.generation import Generation
from index.ranking.retrieval import Query
from index.ranking.search import Ranking
from index.records import Ints, Mask
from index.words.word_search import Reading
from service.runtime.rules import Rule
from service.runtime.served_collection import ServedCollection
from service.search.field_columns import Scalar
from service.search.named_documents import doc_indices_of
from service.search.passing import first_of_each, passing_ranks, ranks_in_order
from service.search.schemas import SearchIn
from service.storage.database import DatabaseReader, now


@dataclass(frozen=True)
class Pins:
    """The pinned documents of a search, by position.

    doc_indices (P,); positions (P,) 1-based, ascending and distinct; rules: doc index -> id of the rule that pins it.
    """

    doc_indices: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    positions: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    rules: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.doc_indices)


NONE = Pins()


def apply_rules(
    database: DatabaseReader,
    state: ServedCollection,
    generation: Generation,
    query: Query,
    reading: Reading | None,
    is_sorted: bool,
) -> tuple[Query, Pins]:
    """Return the query without the documents that rules hide, and the documents that rules pin.

    reading: None for a search without words, whose text is `*`. is_sorted: no document is pinned. A document that a
    rule hides is not pinned by another rule. A pinned document that does not exist, or that the filter excludes, is
    left out.
    """
    if not len(state.rules):
        return query, NONE
    rules = matching_rules(state, query, reading)
    if not rules:
        return query, NONE
    ids = {id for rule in rules for id in (*rule.hides, *(pinned for pinned, _ in rule.pins))}
    doc_index_of = doc_indices_of(database, state, generation, sorted(ids))
    hidden = [doc_index_of[id] for rule in rules for id in rule.hides if id in doc_index_of]
    allowed: Mask = generation.alive.copy() if query.allowed is None else query.allowed & generation.alive
    allowed[hidden] = False
    pins = NONE if is_sorted else pins_of(rules, {id: at for id, at in doc_index_of.items() if allowed[at]})
    count = max(query.count, int(pins.positions.max(initial=0)))  # so that every page has the same positions
    return replace(query, allowed=allowed if hidden else query.allowed, count=count), pins


def matching_rules(state: ServedCollection, query: Query, reading: Reading | None) -> list[Rule]:
    """Return the rules that match a query as it was typed, or as it was corrected and completed. reading: as above."""
    texts = (query.text,) if reading is None else (query.text, reading.text)
    return state.rules.matching(texts, query.vector, now())


def ranks_of_hits(
    request: SearchIn,
    ranking: Ranking,
    pins: Pins,
    kept: Ints,
    values: Callable[[Ints], Sequence[Scalar | None]],
) -> Ints:
    """Return the 0-based ranks (n,) of the hits in the order in which they are shown.

    Thresholds do not remove pinned documents, and `distinct` keeps them before other documents with their value; then
    those of `kept` (k,), which a ranking of fewer candidates found. values: documents (n,) -> their values of
    `distinct`.
    """
    ranks = passing_ranks(ranking, request)
    if request.distinct:
        for first in (ranks_in_order(ranking, kept, request), _ranks_of(pins, ranking.doc_indices)):
            ranks = np.concatenate([first, ranks[~np.isin(ranks, first)]])
        ranks = ranks[first_of_each(values(ranking.doc_indices[ranks]))]
    return placed(ranks, pins, ranking.doc_indices)


def placed(ranks: Ints, pins: Pins, doc_indices: Ints) -> Ints:
    """Return the 0-based ranks of the hits with the pinned documents at their positions; the others move down.

    ranks (n,): the ranks of the hits in their order; doc_indices (N,): the document of each rank. A position beyond
    the end of the list becomes the end of the list.
    """
    if not len(pins):
        return ranks
    pinned = _ranks_of(pins, doc_indices)
    hits: list[int] = ranks[~np.isin(ranks, pinned)].tolist()
    for rank, position in zip(pinned.tolist(), pins.positions.tolist(), strict=True):
        hits.insert(position - 1, rank)
    return np.asarray(hits, np.int64)


def _ranks_of(pins: Pins, doc_indices: Ints) -> Ints:
    """Return the 0-based ranks (P,) of the pinned documents, all of which are ranked."""
    order = np.argsort(doc_indices)
    ranks: Ints = order[np.searchsorted(doc_indices, pins.doc_indices, sorter=order)]
    return ranks


def pins_of(rules: Sequence[Rule], doc_index_of: dict[str, int]) -> Pins:
    """Return the pins of these rules, for the documents that can be pinned.

    The first rule that pins a document decides; a taken position moves down.
    """
    wanted: dict[int, tuple[int, str]] = {}
    for rule in rules:
        for id, position in rule.pins:
            if id in doc_index_of:
                wanted.setdefault(doc_index_of[id], (position, rule.id))
    ordered = sorted(wanted.items(), key=lambda one: one[1][0])
    positions: list[int] = []
    for _, (position, _) in ordered:
        positions.append(max(position, positions[-1] + 1 if positions else 1))
    doc_indices = np.asarray([doc_index for doc_index, _ in ordered], np.int64)
    return Pins(doc_indices, np.asarray(positions, np.int64), {at: rule for at, (_, rule) in wanted.items()})
