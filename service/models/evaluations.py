"""Measures models on the held-out queries of the feedback log, or on the judgments of the request.

The routes import this module at the first evaluation: scipy and ir-measures take longer to import than
the service takes to start.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from index.evaluation.measures import Qrels, Run, measure_run
from index.evaluation.significance import compare, interval
from index.generation.generation import Generation
from index.learning.click_model import among_shown, estimate_clicks, held_out_qrels, highest_hash
from index.learning.examples import Feedback, split
from index.memory.query_key import as_query_key
from index.ranking.attention import AttentionHead
from index.ranking.retrieval import Query, as_searched
from index.ranking.search import search
from index.records import EncodedQuery
from service.http.problems import Problem
from service.models.actions import show_model
from service.models.schemas import MEASURE_PATTERN, EvaluationIn
from service.runtime.candidate_steps import stepped
from service.runtime.collection import CollectionState
from service.runtime.feedback_log import gather_feedback
from service.runtime.feedback_repository import document_rows, learned_since
from service.runtime.jobs import Progress
from service.runtime.model_files import load_version
from service.runtime.model_registry import require_own_vectors
from service.runtime.runtime import Runtime

DEPTH = 1000
"""Length of the ranked lists of a measure without a cut-off."""
BATCH = 200
"""Queries whose ranked lists are in memory at the same time, at most."""


def start_evaluation(runtime: Runtime, state: CollectionState, wanted: EvaluationIn) -> str:
    """Start an evaluation and return the id of its task. Raises Problem for unknown models and measures."""
    if not all(re.fullmatch(MEASURE_PATTERN, name) for name in wanted.measures):
        detail = "measures are nDCG, AP, RR with or without a cut-off, P@k, R@k, Success@k, Judged@k and Rprec"
        raise Problem(422, "unknown_measure", detail, [{"pointer": "/measures", "detail": detail}])
    versions = wanted.models if wanted.models is not None else [state.serving.version]
    for version in versions:
        show_model(runtime, state, version)
        require_own_vectors(runtime, state, version)
    state.require_encoder(runtime.encoder)
    with runtime.database.read() as connection:
        heads = {version: load_version(connection, state.id, state.initial, version) for version in versions}

    def work(progress: Progress) -> dict[str, Any]:
        return _evaluate(runtime, state, wanted, heads, progress)

    return runtime.jobs.start("evaluation", state.name, work)


def _evaluate(
    runtime: Runtime,
    state: CollectionState,
    wanted: EvaluationIn,
    heads: dict[int, AttentionHead],
    progress: Progress,
) -> dict[str, Any]:
    """Return the measures of each model and paired comparisons of adjacent models.

    A query runs without its own memory.
    """
    with state.lock:  # so that rows and generation have the same watermark
        generation = state.generation
        queries, qrels, origin, unknown = _queries(runtime, state, wanted)
    if not queries:
        detail = "there is no held-out query with a confirmed document"
        if wanted.qrels is not None:
            detail = "no document in qrels has a grade above 0"
        raise Problem(422, "not_enough_feedback", detail, have=0, need=1)
    progress.expect(len(queries) * len(heads) * len(_by_candidates(wanted.measures)))
    searches = _searches(generation, queries, runtime.encoder.encode_query, progress)
    measured = {
        version: _measured(partial(_ranked_rows, generation, head, progress), queries, searches, qrels, wanted.measures)
        for version, head in heads.items()
    }
    models = [{"version": version, "measures": _means(values)} for version, values in measured.items()]
    comparisons = [
        {"models": [a, b], **compare(name, measured[a][name], measured[b][name]).as_dict()}
        for a, b in pairwise(heads if wanted.models is None else wanted.models)
        for name in wanted.measures
    ]
    found = {"queries": len(qrels), "judgments": origin, "models": models, "comparisons": comparisons}
    return found | ({"unknown_documents": unknown} if unknown else {})


def _by_candidates(measures: Sequence[str]) -> dict[int, list[str]]:
    """Return number of candidates -> the measures whose ranked lists have as many: as a page of their length."""
    groups: dict[int, list[str]] = {}
    for name in measures:
        groups.setdefault(stepped(Query.count, _depth(name)), []).append(name)
    return groups


def _depth(measure: str) -> int:
    """Return the length of the ranked lists that a measure reads: its cut-off, or DEPTH."""
    _, _, cutoff = measure.partition("@")
    return int(cutoff) if cutoff else DEPTH


def _searches(
    generation: Generation, queries: list[Feedback], encode: Callable[[str], EncodedQuery], progress: Progress
) -> dict[str, Query]:
    """Return query key -> query, read and encoded as a search; the vectors of the feedback are those of typed texts."""
    found = {}
    unread = np.zeros(generation.dim, np.float32)
    for one in queries:
        progress.check()
        found[one.query_key] = as_searched(generation, Query(one.text, unread, excluded_query=one.query_key), encode)
    return found


def _ranked_rows(
    generation: Generation, head: AttentionHead, progress: Progress, searches: Mapping[str, Query]
) -> dict[str, list[str]]:
    """Return query key -> document rows, best first."""
    run = {}
    for query_key, query in searches.items():
        run[query_key] = [str(row) for row in generation.rows[search(generation, head, query).doc_indices]]
        progress.advance(1)
    return run


def _measured(
    ranked: Callable[[Mapping[str, Query]], Run],
    queries: Sequence[Feedback],
    searches: Mapping[str, Query],
    qrels: Qrels,
    measures: Sequence[str],
) -> dict[str, dict[str, float]]:
    """Return measure -> query key -> value. ranked: the ranked document rows of queries, by query key."""
    values: dict[str, dict[str, float]] = {name: {} for name in measures}
    for first in range(0, len(queries), BATCH):
        batch = queries[first : first + BATCH]
        judged = {one.query_key: qrels[one.query_key] for one in batch}
        for count, names in _by_candidates(measures).items():
            run = ranked({query_key: replace(searches[query_key], count=count) for query_key in judged})
            for name in names:
                values[name] |= measure_run(among_shown(run, batch, _depth(name)), judged, [name])[name]
    return values


def _means(values: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    means = {}
    for name, per_query in values.items():
        array = np.asarray(list(per_query.values()), float)
        low, high = interval(array)
        means[name] = {"mean": float(array.mean()) if len(array) else 0.0, "low": low, "high": high}
    return means


def _queries(runtime: Runtime, state: CollectionState, wanted: EvaluationIn) -> tuple[list[Feedback], Qrels, str, int]:
    """Return the queries, their qrels over document rows, the origin of the qrels, and their unknown documents."""
    with runtime.database.read() as connection:
        if wanted.qrels is None:
            since = learned_since(connection, state.id, state.settings.memory_half_life_days)
            feedback = gather_feedback(connection, state.id, since=since)
            learned, held_out = split(feedback)
            clicks = estimate_clicks(learned, highest_hash(feedback))  # as in a training run: without held-out queries
            asked = [one for one in held_out if not one.is_silent]
            judged = held_out_qrels(asked, clicks).items()
            found = {query_key: grades for query_key, grades in judged if any(grade > 0 for grade in grades.values())}
            asked = [one for one in asked if one.query_key in found]
            return asked, found, "stored feedback, held-out queries", 0
        rows = {document_id: str(row) for document_id, row in document_rows(connection, state.id).items()}
    queries: list[Feedback] = []
    qrels: dict[str, dict[str, int]] = {}
    no_vector = np.empty(0, np.float32)
    for text in sorted(wanted.qrels):
        query_key = as_query_key(text)
        # an unknown document stays in the qrels and is never found
        grades = {rows.get(one, f"missing {one}"): max(0, grade) for one, grade in wanted.qrels[text].items()}
        if any(grades.values()):
            if query_key not in qrels:
                queries.append(Feedback(query_key, text, no_vector, {}))
            # two spellings of a query are one query, with the best grade of each document
            known = qrels.setdefault(query_key, {})
            known |= {one: max(grade, known.get(one, 0)) for one, grade in grades.items()}
    unknown = {one for grades in wanted.qrels.values() for one in grades if one not in rows}
    return queries, qrels, "given", len(unknown)
