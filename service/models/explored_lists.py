"""Reads the explored lists on which two models can be compared, and the clicks on them.

A list counts if neither model has learned from it, if its search can be repeated, and if all its documents exist.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from index.candidates.base import MISSING
from index.generation.generation import Generation
from index.learning.examples import TEST_FOLDS, fold_of
from index.records import Ints
from service.models import explored_repository
from service.runtime.candidate_steps import stepped
from service.runtime.explored_slates import is_repeatable
from service.runtime.feedback_log import client_of, combined_grade, grades_by_client, searcher_of

POSITIONS = 10
MAX_LISTS = 2_000
"""Lists that are read, at most: the newest."""
MAX_SEARCHES = 500
"""Different searches that are repeated for each model, at most. Bounds the time of a comparison."""
Search = tuple[str, str, int, tuple[int, ...]]
"""A search to repeat: query key, mode, number of candidates, and the doc indices that keep their places."""


@dataclass(frozen=True)
class ExploredList:
    """The first POSITIONS documents of a logged list; documents, kept, probabilities and clicks are (P,), P <= 10.

    share: the chance that the order was sampled. documents: doc indices. kept: whether the document keeps its place.
    probabilities: the selection probabilities. client: the name of the client or else of the session, "" if unknown.
    """

    search: Search
    text: str
    share: float
    documents: Ints
    kept: NDArray[np.bool_]
    probabilities: NDArray[np.float64]
    clicks: NDArray[np.float64]
    client: str = ""


@dataclass(frozen=True)
class ExploredLog:
    """The lists that count, the newest first, and the number of lists left out by reason."""

    lists: Sequence[ExploredList]
    left_out: Mapping[str, int]


def read_explored(
    connection: Connection,
    collection_id: int,
    generation: Generation,
    rows: Mapping[str, int],
    learned_until: str | None,
) -> ExploredLog:
    """Return the explored lists of a collection. rows: document id -> row, of the same state as the generation.

    learned_until: the time of the newer of both models, as RFC 3339 text. Later lists count, and earlier lists whose
    query is in the test folds. None: no model has learned from feedback.
    """
    left_out: Counter[str] = Counter()
    counting = _counting(explored_repository.explored_lists(connection, collection_id), rows, learned_until, left_out)
    found = list(islice(counting, MAX_LISTS))
    confirmed = _confirmed(connection, collection_id, [impression for impression, _ in found], rows)
    lists: list[ExploredList] = []
    searches: set[Search] = set()
    for impression, shown in found:
        one = _explored_list(impression, shown, rows, generation, confirmed.get(impression.query_id, set()))
        if one is None:
            left_out["document_deleted"] += 1
        elif one.search in searches or len(searches) < MAX_SEARCHES:
            searches.add(one.search)
            lists.append(one)
        else:
            left_out["too_many_searches"] += 1
    return ExploredLog(lists, dict(left_out))


def _confirmed(
    connection: Connection, collection_id: int, impressions: Sequence[Any], rows: Mapping[str, int]
) -> dict[str, set[str]]:
    """Return query id -> ids of the documents that a client confirms in this search, as training counts clients."""
    shown = {impression.query_id: impression for impression in impressions}
    grades: dict[str, dict[tuple[str, str], float]] = {}
    for event in explored_repository.graded_events(connection, collection_id, list(shown)):
        of_list, name = grades.setdefault(event.query_id, {}), (client_of(event), event.document_id)
        of_list[name] = combined_grade(of_list[name], event.grade) if name in of_list else event.grade
    return {query_id: _confirmed_in(shown[query_id], of_list, rows) for query_id, of_list in grades.items()}


def _confirmed_in(impression: Any, grades: Mapping[tuple[str, str], float], rows: Mapping[str, int]) -> set[str]:
    """Return the ids of the documents that a client confirms. grades: client and document -> grade, first event first.

    The documents that training leaves out do not tell whose list it is: pinned documents and deleted ones.
    """
    pinned = {hit["id"] for hit in impression.shown if hit.get("pinned")}
    learned = [name for name in grades if name[1] in rows and name[1] not in pinned]
    of_clients = grades_by_client(grades, searcher_of(impression, learned))
    return {document for (_, document), grade in of_clients.items() if grade > 0}


def _counting(
    impressions: Iterable[Any], rows: Mapping[str, int], learned_until: str | None, left_out: Counter[str]
) -> Iterator[tuple[Any, Sequence[Mapping[str, Any]]]]:
    """Yield the impressions that count, with their first POSITIONS hits; count the others in `left_out` by reason."""
    for impression in impressions:
        shown = impression.shown[:POSITIONS]
        reason = _obstacle(impression, shown, rows, learned_until)
        if reason is None:
            yield impression, shown
        else:
            left_out[reason] += 1


def _obstacle(
    impression: Any, shown: Sequence[Mapping[str, Any]], rows: Mapping[str, int], learned_until: str | None
) -> str | None:
    """Return why a list does not count, or None."""
    if not shown or any("selection_probability" not in hit for hit in shown):
        return "not_explored"
    earlier = learned_until is not None and impression.created_at <= learned_until
    if earlier and fold_of(impression.query_key) >= TEST_FOLDS:
        return "learned_from"
    if not is_repeatable(impression.request):
        return "not_repeatable"
    in_order = [hit["position"] for hit in shown] == list(range(1, len(shown) + 1))
    return None if in_order and all(hit["id"] in rows for hit in shown) else "document_deleted"


def _explored_list(
    impression: Any,
    shown: Sequence[Mapping[str, Any]],
    rows: Mapping[str, int],
    generation: Generation,
    clicked: set[str],
) -> ExploredList | None:
    """Return a list, None if the generation lacks one of its documents."""
    documents = generation.doc_indices(np.asarray([rows[hit["id"]] for hit in shown], np.int64))
    if (documents == MISSING).any():
        return None
    kept = np.asarray([bool(hit.get("pinned") or hit.get("exact_rating")) for hit in shown])
    request = impression.request
    count = stepped(request["candidates"], request["limit"])
    return ExploredList(
        search=(impression.query_key, request["mode"], count, tuple(sorted(documents[kept].tolist()))),
        text=impression.text,
        share=float(request["explore"]),
        documents=documents,
        kept=kept,
        probabilities=np.asarray([hit["selection_probability"] for hit in shown]),
        clicks=np.asarray([float(hit["id"] in clicked) for hit in shown]),
        client=client_of(impression),
    )
