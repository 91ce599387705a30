"""What a coordinator asks partitions, and what they answer. Messages are data: numbers, texts and arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from index.partitions.merged_words import PartTotals
from index.partitions.part import Nominations
from index.ranking.explanation import KeyShare
from index.ranking.retrieval import Query
from index.records import Floats, Ints
from index.words.query_syntax import ParsedQuery
from service.http.access import Caller
from service.search.field_columns import Scalar
from service.search.schemas import MAX_WINDOW, SearchIn

State = tuple[int, int]
"""The epoch of the writer and the watermark of the last change of documents: the words of a part are of it."""


@dataclass(frozen=True)
class Wanted:
    """The collection that a request is about, and which state of it may answer.

    watermark: the least, of the epoch of the writer. parts: the number of parts that the coordinator knows; a partition
    of another deployment has other documents.
    """

    collection: int
    watermark: int
    epoch: int
    parts: int


@dataclass(frozen=True)
class PartSearch:
    """A search as each of its rounds needs it.

    version: of the model. query: with its reading and the statistics of the collection, without a filter. hidden: ids
    of documents that rules hide. sorted_count: documents in the order of `sort` that are wanted at least.
    """

    wanted: Wanted
    version: int
    request: SearchIn
    caller: Caller
    parsed: ParsedQuery
    query: Query
    hidden: tuple[str, ...] = ()
    sorted_count: int = 0

    @property
    def window(self) -> int:
        """The number of documents in the order of `sort` that are selected: all, for a search without words."""
        of_page = MAX_WINDOW if self.query.read is None else self.request.offset + self.request.limit + 1
        return max(of_page, self.sorted_count)


@dataclass(frozen=True)
class Standing:
    """The state of a part, and why its answers are less than they should be."""

    state: State
    degraded: tuple[str, ...]
    awaits_vectors: bool


@dataclass(frozen=True)
class Words:
    """The sums of a part over its documents, the counts that were asked for, and the state that they are of."""

    state: State
    totals: PartTotals
    counts: Sequence[int]


@dataclass(frozen=True)
class Nominated:
    """What a part nominates for a query."""

    nominations: Nominations
    standing: Standing


@dataclass(frozen=True)
class Newest:
    """The newest documents of a part that pass, the newest first."""

    rows: Ints
    standing: Standing


@dataclass(frozen=True)
class Selected:
    """What a search selects in a part besides its ranking.

    rows_of: id -> row of the documents among those asked for that pass. facets: field -> values with counts of all
    matching documents. ordered: rows in the order of `sort`, at most `PartSearch.window`; None without `sort`.
    ids: for each of them, the bytes by which equal documents are ordered. sorted_by: for each of them, its value for
    each rule of `sort`, then for `distinct`. matching: the number of all
    matching documents, None without `count`.
    """

    rows_of: Mapping[str, int]
    facets: Mapping[str, Sequence[tuple[Scalar, int]]]
    standing: Standing
    ordered: Sequence[int] | None
    ids: Sequence[bytes]
    sorted_by: Sequence[tuple[Scalar | None, ...]]
    matching: int | None


@dataclass(frozen=True)
class Page:
    """The hits of a page that a part has, of a ranking whose query vector was asked (D,).

    rows, logits, weights (n,) and parts (n, E): as `index.ranking.search.Ranked` has them. rules: row -> id of the rule
    that pins it.
    """

    asked: Floats
    rows: Ints
    logits: Floats
    weights: Floats
    parts: Floats
    rules: Mapping[int, str]


@dataclass(frozen=True)
class WordsOfKey:
    """A key of the document with this row, its score for the query, and the effect (Q,) of each word on the score."""

    row: int
    key: KeyShare
    cosine: float
    cells: Floats
