"""Answers a search from the result cache where the same search has the same result as before.

An answer from the cache has a `query_id`, an impression and times of its own. Not kept are results of searches with
`explain`, which shows feedback; with `explore`, which draws; with `context`; with another model than the champion; with
rules that begin or end at a time; and results of a collection that is degraded or waits for vectors.
"""

import sys
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import orjson

from index.memory.query_key import bare_key
from index.ranking.retrieval import asked_keys, asked_vectors
from service.http.access import OWNER, Caller
from service.http.metrics import CACHED_RESULTS
from service.runtime.result_cache import Moment, Result
from service.runtime.search_runtime import SearchRuntime
from service.runtime.served_collection import ServedCollection
from service.search import actions
from service.search.actions import Answered
from service.search.schemas import SearchIn
from service.search.stopwatch import Stopwatch
from service.storage.database import new_id, now

OF_CLIENTS = ("client_id", "session_id")
"""Parameters of a search that its answer does not depend on."""
PARTS = ("filter", "encode", "retrieve", "attend", "fields")
"""Parts of a search that take no time where the result is kept."""
OF_SEARCH = ("query_id", "generation", "took_ms", "timings_ms")
"""Members of an answer that each search has for itself."""
SIZE_OF_HIT = 1_000
"""Estimated bytes of a hit beside its JSON: what its impression keeps."""
SIZE = 6_000
"""Estimated bytes of a result without its JSON, its texts and its hits."""
TEXTS = 3
"""How often the parameters of a search are kept: in the key, in the impression and in the query."""


@dataclass(frozen=True, eq=False)
class _Kept:
    """The response body, with its members as JSON, and its impression; the ids and times are of the first search."""

    body: dict[str, Any]
    impression: dict[str, Any] | None


def answer(
    runtime: SearchRuntime,
    state: ServedCollection,
    request: SearchIn,
    arrived: float | None = None,
    caller: Caller = OWNER,
) -> dict[str, Any]:
    """Return the response body of a search as JSON needs it, and queue its impression, as `actions.answer` does."""
    stopwatch = Stopwatch.since(arrived)
    key = _key_of(runtime, state, request, caller)
    if key is None:
        return actions.answered(runtime, state, request, stopwatch, caller).body
    moment = runtime.result_cache.moment(state)
    kept: _Kept | None = runtime.result_cache.find(moment, key)
    if kept is not None:
        CACHED_RESULTS.inc()
        return _repeated(runtime, kept, moment, request, stopwatch, caller)
    found = actions.answered(runtime, state, request, stopwatch, caller)
    if not _is_of(moment, state, found):
        return found.body
    parts = {name: orjson.dumps(value) for name, value in found.body.items() if name not in OF_SEARCH}
    body = found.body | {name: orjson.Fragment(part) for name, part in parts.items()}
    size = SIZE + sum(map(len, parts.values())) + SIZE_OF_HIT * len(found.searched.page)
    size += TEXTS * sys.getsizeof(key[0])
    query = found.searched.query
    vectors = asked_vectors(found.searched.generation, query)
    size += sum(one.nbytes for one in vectors[1:])
    keys = [bare_key(one) for one in asked_keys(found.searched.generation, query)]
    result = Result(_Kept(body, found.impression), keys, vectors, size)
    runtime.result_cache.add(moment, key, result)
    return body


def _key_of(
    runtime: SearchRuntime, state: ServedCollection, request: SearchIn, caller: Caller
) -> tuple[str, *tuple[Hashable, ...]] | None:
    """Return what the result of a search depends on beside the state of its collection; None: it is not kept.

    Callers share a result if their keys have the same filter and collections: a faster answer would tell another
    tenant that this text was searched.
    """
    if not runtime.result_cache.most_bytes:
        return None
    if request.model != "champion" or request.explain or request.explore or request.context is not None:
        return None
    if state.rules.is_dated or state.awaits_vectors or state.degraded:
        return None
    wanted = [value for name, value in request.__dict__.items() if name not in OF_CLIENTS]
    return repr(wanted), "candidates" in request.model_fields_set, caller.filter, caller.collections


def _is_of(moment: Moment, state: ServedCollection, found: Answered) -> bool:
    """Return whether an answer is of the state that was current when its search began, as a whole."""
    searched, began = found.searched, moment.state
    if searched.generation is not began.generation or searched.serving is not began.serving:
        return False
    return state.rules is began.rules and state.settings is began.settings and not found.body["degraded"]


def _repeated(
    runtime: SearchRuntime, kept: _Kept, moment: Moment, request: SearchIn, stopwatch: Stopwatch, caller: Caller
) -> dict[str, Any]:
    """Return a kept body with the ids and times of this search, and queue its impression."""
    watermark, query_id = moment.state.generation.watermark, new_id()
    if kept.impression is not None:
        of_this = {
            "query_id": query_id,
            "client_id": caller.client(request.client_id),
            "session_id": caller.session(request.session_id),
            "generation": watermark,
            "created_at": now(),
        }
        runtime.impressions.add(kept.impression | of_this)
    stopwatch.lap("cache")
    for part in PARTS:
        stopwatch.lap(part)
    return kept.body | {"query_id": query_id, "generation": watermark} | stopwatch.report()
