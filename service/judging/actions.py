"""Chooses the queries and documents whose judgment decides most.

The score of a query is its frequency (distinct clients) times its uncertainty. Where a challenger stands beside the
champion, the uncertainty is the disagreement of their ranks: the judgments decide which of the two is better. Otherwise
it is the entropy of the attention weights: the judgments tell the model where to look.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from math import log2
from typing import Any, Literal

from index.memory.query_key import bare_key
from service.judging import repository
from service.judging.repository import AskedQuery
from service.runtime.collection import CollectionState
from service.runtime.runtime import Runtime
from service.search.actions import answer
from service.search.repository import challenger_version, fits_vectors
from service.search.schemas import SearchIn

FIRST = 10
"""Documents of a list that are judged: those that nDCG@10 and most users look at."""
MAX_SEARCHES = 50
"""Searches of a call."""
DAYS = 90
"""Days of the log of which searches and clients count."""
Model = Literal["champion"] | int


@dataclass(frozen=True)
class Lists:
    """The first documents of a query, in the lists of the champion and, if there is one, of the challenger.

    shown: document id -> hit. ranks: a mapping from document id to rank, from 1, for each list. Pinned documents are
    left out: the owner placed them, and no judgment moves them.
    """

    shown: Mapping[str, dict[str, Any]]
    ranks: tuple[Mapping[str, int], ...]
    entropy: float


def judging(runtime: Runtime, state: CollectionState, limit: int) -> dict[str, Any]:
    """Return the queries with documents to judge, the highest score first; at most MAX_SEARCHES searches are made."""
    runtime.impressions.flush()
    since = datetime.now(UTC) - timedelta(days=DAYS)
    champion = state.serving.version
    with runtime.database.read() as connection:
        challenger = challenger_version(connection, state.id)
        if challenger == champion or not fits_vectors(connection, state.id, challenger):
            challenger = None
        asked = repository.asked_queries(connection, state.id, since)
        judged = repository.judged_documents(connection, state.id, [one.query_key for one in asked])
    models: tuple[Model, ...] = ("champion",) if challenger is None else ("champion", challenger)
    complete = min(FIRST, state.generation.count)
    words = {bare_key(one.query_key): one for one in reversed(asked)}  # of several spellings, the one with most clients
    asked = [one for one in asked if words[bare_key(one.query_key)] is one]
    asked.sort(key=lambda one: len(judged[bare_key(one.query_key)]) >= complete)  # stable: then by clients
    found = []
    for one in asked[: MAX_SEARCHES // len(models)]:
        lists = _lists(runtime, state, one.text, models)
        documents = _documents(lists, judged[bare_key(one.query_key)])
        if documents:
            found.append(_query(one, lists, documents))
    found.sort(key=lambda one: (one["measure"] == "entropy", -one["score"], one["q"]))
    return {"champion": champion, "challenger": challenger, "queries": found[:limit]}


def _lists(runtime: Runtime, state: CollectionState, text: str, models: tuple[Model, ...]) -> Lists:
    """Search with each model, in the search pool, so that searches of users are not delayed."""
    bodies = []
    for model in models:
        request = SearchIn(q=text, limit=FIRST, model=model, log=False, snippet=True, fields=["title"])
        bodies.append(runtime.run_search(partial(answer, runtime, state, request)).result())
    hits = [[hit for hit in body["hits"] if not hit.get("pinned")] for body in bodies]
    shown = {hit["id"]: hit for of_model in reversed(hits) for hit in of_model}
    ranks = tuple({hit["id"]: hit["position"] for hit in of_model} for of_model in hits)
    return Lists(shown, ranks, bodies[0]["attention"]["entropy"])


def _documents(lists: Lists, judged: Set[str]) -> list[dict[str, Any]]:
    """Return the documents without a judgment: those whose ranks differ most first, then by rank."""
    documents = []
    for id, hit in lists.shown.items():
        if id in judged:
            continue
        ranks = [ranks.get(id) for ranks in lists.ranks]
        document = {"id": id, "title": hit["title"], "snippet": hit["snippet"], "rank": ranks[0]}
        document["challenger_rank"] = ranks[1] if len(ranks) > 1 else None
        document["disagreement"] = abs(discount(ranks[0]) - discount(ranks[1])) if len(ranks) > 1 else None
        documents.append(document)
    return sorted(documents, key=lambda one: (-(one["disagreement"] or 0), min(_ranks(one)), one["id"]))


def _ranks(document: Mapping[str, Any]) -> list[int]:
    return [document[name] for name in ("rank", "challenger_rank") if document[name] is not None]


def discount(rank: int | None) -> float:
    """Return the weight of a rank in DCG: 1 / log2(1 + rank); 0 for a document that is not among the first."""
    return 0.0 if rank is None else 1 / log2(1 + rank)


def _query(asked: AskedQuery, lists: Lists, documents: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a query of the answer: its documents, its score, and the reason in words."""
    disagreement = sum(one["disagreement"] or 0 for one in documents)
    if disagreement:
        measure, uncertainty = "disagreement", disagreement
        told = f"champion and challenger rank these documents differently (disagreement {disagreement:.2f})"
    else:
        measure, uncertainty = "entropy", lists.entropy
        told = f"the attention weights have an entropy of {lists.entropy:.2f}"
    clients = f"{asked.clients} {'client' if asked.clients == 1 else 'clients'}"
    return {
        "q": asked.text,
        "searches": asked.searches,
        "clients": asked.clients,
        "measure": measure,
        "uncertainty": uncertainty,
        "score": max(1, asked.clients) * uncertainty,
        "reason": f"{clients} in {DAYS} days; {told}",
        "documents": documents,
    }
