"""Measures models on held-out queries, or on judgments that are given.

Imported when the first evaluation is asked for: statistics take longer to load than a search service to start.
"""

import re
from itertools import pairwise
from typing import Any

import numpy as np
from sqlalchemy import select

from index.evaluation.measures import Qrels, measure_run
from index.evaluation.significance import compare, interval
from index.learning.click_model import estimate_clicks, held_out_qrels
from index.learning.examples import Feedback, split
from index.ranking.attention import AttentionHead
from index.ranking.retrieval import Query
from index.ranking.search import search
from service.http.problems import Problem
from service.models.actions import show_model
from service.models.schemas import MEASURE_PATTERN, EvaluationIn
from service.runtime.collection import CollectionState, load_version
from service.runtime.feedback_log import gather_feedback
from service.runtime.jobs import Progress
from service.runtime.query_text import normalise
from service.runtime.runtime import Runtime
from service.storage.tables import Document

DEPTH = 1000
"""Documents of a ranked list that are measured."""


def start_evaluation(runtime: Runtime, state: CollectionState, wanted: EvaluationIn) -> str:
    """Start measuring models; return the id of the task. Unknown models, measures and documents are refused first."""
    if not all(re.fullmatch(MEASURE_PATTERN, name) for name in wanted.measures):
        detail = "measures are nDCG, AP, RR with or without a cut-off, P@k, R@k, Success@k, Judged@k and Rprec"
        raise Problem(422, "unknown_measure", detail, [{"pointer": "/measures", "detail": detail}])
    versions = wanted.models if wanted.models is not None else [state.serving.version]
    for version in versions:
        show_model(runtime, state, version)
    state.require_encoder(runtime.encoder)
    heads = {version: load_version(state.id, state.initial, version, runtime.settings.data) for version in versions}

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
    """Return measures per model and paired comparisons of neighbours; a query never sees its own memory."""
    with state.lock:  # rows and generation of one moment
        generation = state.generation
        asked, qrels, origin = _asked(runtime, state, wanted)
    if not asked:
        raise Problem(
            422, "not_enough_feedback", "there is no held-out query with a confirmed document", have=0, need=1
        )
    progress.expect(len(asked) * len(heads))
    measured: dict[int, dict[str, dict[str, float]]] = {}
    for version, head in heads.items():
        run = {}
        for one in asked:
            ranking = search(generation, head, Query(one.text, one.vector, excluded_query=one.query_key))
            run[one.query_key] = [str(row) for row in generation.rows[ranking.doc_indices[:DEPTH]]]
            progress.advance(1)
        measured[version] = measure_run(run, qrels, wanted.measures)
    models = [{"version": version, "measures": _means(values)} for version, values in measured.items()]
    comparisons = [
        {"models": [a, b], **compare(name, measured[a][name], measured[b][name]).as_dict()}
        for a, b in pairwise(measured)
        for name in wanted.measures
    ]
    return {"queries": len(qrels), "judgments": origin, "models": models, "comparisons": comparisons}


def _means(values: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    means = {}
    for name, per_query in values.items():
        array = np.asarray(list(per_query.values()), float)
        low, high = interval(array)
        means[name] = {"mean": float(array.mean()) if len(array) else 0.0, "low": low, "high": high}
    return means


def _asked(runtime: Runtime, state: CollectionState, wanted: EvaluationIn) -> tuple[list[Feedback], Qrels, str]:
    """Return the queries to run, their qrels over rows, and where these come from."""
    with runtime.database.read() as connection:
        if wanted.qrels is None:
            learned, held_out = split(gather_feedback(connection, state.id))
            clicks = estimate_clicks(learned)  # as training runs have it: never from what is held out
            return held_out, held_out_qrels(held_out, clicks), "stored feedback, held-out queries"
        rows = {
            row.id: str(row.row)
            for row in connection.execute(select(Document.id, Document.row).where(Document.collection_id == state.id))
        }
    asked, qrels = [], {}
    texts = sorted(wanted.qrels)
    vectors = runtime.encoder.encode_queries(texts)
    for text, vector in zip(texts, vectors, strict=True):
        query_key = normalise(text)
        # an unknown document stays in the judgments, as one that cannot be found
        grades = {rows.get(one, f"missing {one}"): max(0, grade) for one, grade in wanted.qrels[text].items()}
        if any(grades.values()):
            asked.append(Feedback(query_key, text, vector, {}))
            qrels[query_key] = grades
    return asked, qrels, "given"
