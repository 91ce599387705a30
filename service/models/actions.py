"""Shows, compares and measures models; makes one live and takes it back."""

import re
from itertools import pairwise
from typing import Any

import numpy as np
from sqlalchemy import select

from index.attention import AttentionHead
from index.clicks import estimate_clicks
from index.evaluate import Qrels, measure_run
from index.examples import Feedback, split
from index.promotion import compare, interval
from index.search import Query, search
from index.train import held_out_qrels
from service.jobs import Progress
from service.learning import gather_feedback
from service.models.schemas import MEASURE_PATTERN, EvaluationIn, Promotion
from service.problems import Problem, not_found
from service.registry import previous_champion, promote, require_gate
from service.runtime import Runtime
from service.sources import normalise
from service.state import CollectionState, load_version
from service.tables import Alias, AliasChange, Document, Model

DEPTH = 1000
"""Documents of a ranked list that are measured."""


def list_models(runtime: Runtime, state: CollectionState) -> dict[str, Any]:
    """Return all versions, oldest first, and where the aliases point."""
    with runtime.database.read() as connection:
        rows = connection.execute(
            select(Model.__table__).where(Model.collection_id == state.id).order_by(Model.version)
        ).all()
        return {"models": [_body(row) for row in rows], "aliases": _aliases(connection, state)}


def show_model(runtime: Runtime, state: CollectionState, version: int) -> dict[str, Any]:
    """Return a version with its lineage, report and decision."""
    with runtime.database.read() as connection:
        row = connection.execute(
            select(Model.__table__).where(Model.collection_id == state.id, Model.version == version)
        ).one_or_none()
        if row is None:
            raise not_found("model")
        aliases = _aliases(connection, state)
    return _body(row) | {"aliases": sorted(name for name, points_at in aliases.items() if points_at == version)}


def compare_models(runtime: Runtime, state: CollectionState, a: int, b: int) -> dict[str, Any]:
    """Return two versions side by side: lineage, scalars, held-out measures as each was reported."""
    left, right = show_model(runtime, state, a), show_model(runtime, state, b)
    scalars = [one["report"].get("head") for one in (left, right)]
    return {"a": left, "b": right, "head": {"a": scalars[0], "b": scalars[1]}}


def set_champion(runtime: Runtime, state: CollectionState, wanted: Promotion) -> dict[str, Any]:
    """Make a version live, if the gate allows it or force is given."""
    with runtime.database.read() as connection:
        if wanted.force:
            known = select(Model.id).where(Model.collection_id == state.id, Model.version == wanted.version)
            if connection.execute(known).first() is None:
                raise not_found("model")
        else:
            require_gate(connection, state, wanted.version)
    promote(runtime, state, wanted.version, wanted.reason or ("forced" if wanted.force else "by hand"))
    return show_aliases(runtime, state)


def roll_back(runtime: Runtime, state: CollectionState) -> dict[str, Any]:
    """Make the former champion live again."""
    with runtime.database.read() as connection:
        version = previous_champion(connection, state)
    promote(runtime, state, version, "rollback", rollback=True)
    return show_aliases(runtime, state)


def show_aliases(runtime: Runtime, state: CollectionState) -> dict[str, Any]:
    """Return the champion, all aliases, and the newest moves."""
    with runtime.database.read() as connection:
        moves = connection.execute(
            select(AliasChange.__table__)
            .where(AliasChange.collection_id == state.id)
            .order_by(AliasChange.id.desc())
            .limit(20)
        ).all()
        aliases = _aliases(connection, state)
    history = [
        {"from": move.from_version, "to": move.to_version, "reason": move.reason, "at": move.created_at}
        for move in moves
    ]
    return {"alias": "champion", "version": aliases["champion"], "aliases": aliases, "history": history}


def start_evaluation(runtime: Runtime, state: CollectionState, wanted: EvaluationIn) -> str:
    """Start measuring models; return the id of the task. Unknown models, measures and documents are refused first."""
    if not all(re.fullmatch(MEASURE_PATTERN, name) for name in wanted.measures):
        detail = "measures are nDCG, AP, RR with or without a cut-off, P@k, R@k, Success@k, Judged@k and Rprec"
        raise Problem(422, "unknown_measure", detail, [{"pointer": "/measures", "detail": detail}])
    versions = wanted.models if wanted.models is not None else [state.serving.version]
    for version in versions:
        show_model(runtime, state, version)
    state.require_encoder(runtime.encoder)
    heads = {version: load_version(state.id, state.born, version, runtime.settings.data) for version in versions}

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
            ranking = search(generation, head, Query(one.text, one.vector), unseen=one.source)
            run[one.source] = [str(row) for row in generation.rows[ranking.places[:DEPTH]]]
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
        source = normalise(text)
        # an unknown document stays in the judgments, as one that cannot be found
        grades = {rows.get(one, f"missing {one}"): max(0, grade) for one, grade in wanted.qrels[text].items()}
        if any(grades.values()):
            asked.append(Feedback(source, text, vector, {}))
            qrels[source] = grades
    return asked, qrels, "given"


def _aliases(connection: Any, state: CollectionState) -> dict[str, int]:
    found = connection.execute(select(Alias.name, Alias.version).where(Alias.collection_id == state.id))
    return {row.name: row.version for row in found}


def _body(row: Any) -> dict[str, Any]:
    return {
        "version": row.version,
        "lineage": row.lineage,
        "report": row.report,
        "decision": row.decision,
        "created_at": row.created_at,
    }
