"""The partitions as one search asks them: the rounds of a ranking, and what the partitions say of themselves."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import orjson

from index.partitions.part import Nominations, PartEvidence
from index.ranking.retrieval import Query
from index.records import Floats, Ints
from service.partitions.calls import Calls
from service.partitions.messages import Page, PartSearch, Selected, Standing, WordsOfKey
from service.search.closest_sentence import Span
from service.search.field_columns import Scalar


@dataclass
class SearchedParts:
    """The partitions of a search. It notes the standings of those that nominated, and which were away."""

    calls: Calls
    search: PartSearch
    standings: dict[int, Standing] = field(default_factory=dict)
    away: set[int] = field(default_factory=set)

    def nominate(self, query: Query, vectors: Floats, asked: Floats | None) -> list[Nominations]:
        """Return what each partition nominates, with its evidence for the query vector asked (D,)."""
        search = self._with(query)
        found = self._all("nominate", search, vectors, asked)
        self.standings |= {number: one.standing for number, one in found.items()}
        return [one.nominations for one in found.values()]

    def evidence_of(self, query: Query, asked: Floats, rows: Ints, with_values: bool) -> list[PartEvidence]:
        """Return the evidence of each partition for its documents among these rows."""
        search = self._with(query)
        found = self._of_owners("evidence_of", rows, lambda own: (search, asked, own, with_values))
        return list(found.values())

    def values_of(self, rows: Ints) -> Floats:
        """Return the values (n, V) of these documents, zeros for those that are gone."""
        found = self._of_owners("values_of", rows, lambda own: (self.search.wanted, own))
        values = np.zeros((len(rows), len(self.search.query.vector)), np.float32)
        at = {row: place for place, row in enumerate(rows.tolist())}
        for own, vectors in found.values():
            values[[at[row] for row in own.tolist()]] = vectors
        return values

    def select(self, ids: Sequence[str]) -> list[Selected]:
        """Return what the search selects besides its ranking, of each partition."""
        found = self._all("select", self.search, ids)
        self.standings |= {number: one.standing for number, one in found.items()}
        return list(found.values())

    def sorted_further(self, count: int) -> list[Selected]:
        """Return at least `count` documents of each partition in the order of `sort`, or all that it has."""
        request = self.search.request.model_copy(update={"facets": None, "count": False})
        search = replace(self.search, request=request, sorted_count=count)
        return list(self._all("select", search, ()).values())

    def has_others(self, values: Sequence[Scalar], shown: Ints) -> bool:
        """Return whether documents that may be hits have other values of `distinct` than these, or have none.

        shown: the rows of documents without a value that do not count.
        """
        return any(self._all("has_others", self.search, values, shown).values())

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        """Return id -> row of the documents among these ids that the caller may name."""
        return {id: row for found in self._all("rows_of", self.search, ids).values() for id, row in found.items()}

    def newest(self, count: int) -> Ints:
        """Return the rows of the newest documents that pass, the newest first, at most `count`."""
        found = self._all("newest", self.search, count)
        self.standings |= {number: one.standing for number, one in found.items()}
        rows = np.concatenate([np.empty(0, np.int64), *(one.rows for one in found.values())])
        return np.sort(rows)[::-1][:count]

    def first_values(self, name: str, rows: Ints) -> list[Scalar | None]:
        """Return the first value of a filterable field of each document (n,)."""
        found = self._of_owners("first_values", rows, lambda own: (self.search.wanted, name, own.tolist()))
        values = {row: value for of_part in found.values() for row, value in of_part.items()}
        return [values.get(row) for row in rows.tolist()]

    def metadata(self, rows: Ints, fields: Sequence[str]) -> dict[int, dict[str, Any]]:
        """Return row -> these fields of the metadata of each document that is still stored."""
        found = self._of_owners("metadata", rows, lambda own: (self.search.wanted, own.tolist(), fields))
        return {row: of for of_part in found.values() for row, of in of_part.items()}

    def hits(self, page: Page) -> dict[int, dict[str, Any]]:
        """Return row -> hit of each document of a page that is still stored."""
        found = self._of_owners("hits", page.rows, lambda own: (self.search, _taken(page, own)))
        hits = {row: hit for of_part in found.values() for row, hit in orjson.loads(of_part)}
        for hit in hits.values():
            if isinstance(metadata := hit.get("metadata"), str):
                hit["metadata"] = orjson.Fragment(metadata)
        return hits

    def sentences(self, page: Page) -> dict[int, list[Span]]:
        """Return row -> sentences of each document of a page."""
        found = self._of_owners("sentences", page.rows, lambda own: (self.search, _taken(page, own)))
        return {row: spans for of_part in found.values() for row, spans in of_part}

    def words_by_keys(self, page: Page, without: Floats, each: int) -> dict[int, list[WordsOfKey]]:
        """Return row -> the strongest keys of each document of a page that is still there, in their order."""
        asked = self._of_owners("words_by_keys", page.rows, lambda own: (self.search, _taken(page, own), without, each))
        found: dict[int, list[WordsOfKey]] = {}
        for one in (one for of_part in asked.values() for one in of_part):
            found.setdefault(one.row, []).append(one)
        return found

    def _with(self, query: Query) -> PartSearch:
        """Return the search with a query as a part needs it: it comes with its reading, and without options."""
        return replace(self.search, query=replace(query, reading=None, allowed=None, context=None))

    def _all(self, request: str, *arguments: Any) -> dict[int, Any]:
        """Return number -> answer of the partitions that answer."""
        found = self.calls.all(request, *arguments)
        self._note(number for number, one in enumerate(found) if one is None)
        return {number: one for number, one in enumerate(found) if one is not None}

    def _of_owners(self, request: str, rows: Ints, arguments: Callable[[Ints], tuple[Any, ...]]) -> dict[int, Any]:
        """Ask each partition about its documents among these rows; return number -> answer."""
        owner = rows % len(self.calls)
        owned = [rows[owner == number] for number in range(len(self.calls))]
        each = [arguments(own) if len(own) else None for own in owned]
        found = self.calls.each(request, each)
        self._note(number for number, one in enumerate(found) if one is None and each[number] is not None)
        return {number: one for number, one in enumerate(found) if one is not None}

    def _note(self, numbers: Iterable[int]) -> None:
        self.away.update(numbers)


def _taken(page: Page, rows: Ints) -> Page:
    """Return the documents of a page with these rows."""
    mine = np.isin(page.rows, rows)
    rules = {row: rule for row, rule in page.rules.items() if row in set(rows.tolist())}
    return replace(
        page,
        rows=page.rows[mine],
        logits=page.logits[mine],
        weights=page.weights[mine],
        parts=page.parts[mine],
        rules=rules,
    )
