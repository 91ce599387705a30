"""Shows and compares models, makes a model the champion, and rolls back."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from index.errors import DamagedFile, EncoderMismatch
from index.generation.generation import Generation
from index.ranking.attention import AttentionHead
from service.http.problems import Problem, not_found
from service.models import repository
from service.models.explored_lists import ExploredLog, read_explored
from service.models.explored_repository import has_explored
from service.models.schemas import Promotion
from service.runtime.collection import CollectionState
from service.runtime.feedback_repository import document_rows
from service.runtime.model_files import load_version
from service.runtime.model_registry import promote, require_own_vectors
from service.runtime.runtime import Runtime

MIN_LISTS = 100
"""Least number of explored lists for estimates of clicks."""


def list_models(runtime: Runtime, state: CollectionState) -> dict[str, Any]:
    """Return all models, oldest first, and the aliases."""
    with runtime.database.read() as connection:
        models = [_body(row) for row in repository.all_models(connection, state.id)]
        return {"models": models, "aliases": repository.aliases(connection, state.id)}


def show_model(runtime: Runtime, state: CollectionState, version: int) -> dict[str, Any]:
    """Return a model with its lineage, report and decision. Raises Problem 404."""
    with runtime.database.read() as connection:
        row = repository.find_model(connection, state.id, version)
        if row is None:
            raise not_found("model")
        aliases = repository.aliases(connection, state.id)
    return _body(row) | {"aliases": sorted(name for name, points_at in aliases.items() if points_at == version)}


def compare_models(runtime: Runtime, state: CollectionState, a: int, b: int) -> dict[str, Any]:
    """Return two models side by side: lineage, scalars, the held-out measures that each run reported, and estimates.

    The estimates are the clicks per search of both models on explored lists.
    """
    left, right = show_model(runtime, state, a), show_model(runtime, state, b)
    scalars = [one["report"].get("head") for one in (left, right)]
    estimates = estimated_clicks(runtime, state, left, right)
    return {"a": left, "b": right, "head": {"a": scalars[0], "b": scalars[1]}, "off_policy": estimates}


def estimated_clicks(
    runtime: Runtime, state: CollectionState, left: Mapping[str, Any], right: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the estimates of the clicks per search of two models, or the reason why there are none."""
    learned_until = max(
        (one["created_at"] for one in (left, right) if one["lineage"].get("kind") == "trained"), default=None
    )
    generation, rows, log = _explored(runtime, state, learned_until)
    body = {"impressions": len(log.lists), "need": MIN_LISTS, "left_out": log.left_out, "reason": None}
    body |= dict.fromkeys(("logged", "a", "b", "difference"))
    if len(log.lists) < MIN_LISTS:
        return body | {"reason": f"{len(log.lists)} explored searches count, and {MIN_LISTS} are needed"}
    # imported here because scipy takes longer to import than the service takes to start
    from service.models.off_policy import Models, estimate_models

    curve = show_model(runtime, state, state.serving.version)["lineage"].get("click_model", {}).get("curve")
    try:
        state.require_encoder(runtime.encoder)
        heads = _head(runtime, state, left["version"]), _head(runtime, state, right["version"])
        return body | estimate_models(Models(runtime, state, generation, rows, heads, curve), log.lists)
    except (EncoderMismatch, DamagedFile) as error:
        return body | {"reason": str(error)}


def _explored(
    runtime: Runtime, state: CollectionState, learned_until: str | None
) -> tuple[Generation, Mapping[str, int], ExploredLog]:
    """Return the generation, its documents (id -> row), and the explored lists; no documents without such a list."""
    runtime.impressions.flush()
    with runtime.database.read() as connection:
        if not has_explored(connection, state.id):
            return state.generation, {}, ExploredLog((), {})
    with state.lock:  # so that rows and generation have the same watermark
        generation = state.generation
        with runtime.database.read() as connection:
            rows = document_rows(connection, state.id)
    with runtime.database.read() as connection:
        return generation, rows, read_explored(connection, state.id, generation, rows, learned_until)


def _head(runtime: Runtime, state: CollectionState, version: int) -> AttentionHead:
    require_own_vectors(runtime, state, version)
    with runtime.database.read() as connection:
        return load_version(connection, state.id, state.initial, version)


def set_champion(runtime: Runtime, state: CollectionState, wanted: Promotion) -> dict[str, Any]:
    """Make a version the champion. Raises Problem 404, and 409 if the gate refuses it without `force`."""
    with runtime.database.read() as connection:
        _require_gate(connection, state, wanted)
    with state.lock:  # held for the answer: the data of a collection is deleted under this lock
        promote(runtime, state, wanted.version, wanted.reason or ("forced" if wanted.force else "by hand"))
        return show_aliases(runtime, state)


def _require_gate(connection: Connection, state: CollectionState, wanted: Promotion) -> None:
    """Raise Problem 409 with the failed checks, unless the version passed the gate, served before, or is forced."""
    row = repository.find_model(connection, state.id, wanted.version)
    if row is None:
        raise not_found("model")
    if wanted.force or wanted.version == 0 or row.decision.get("promote"):
        return
    if repository.has_been_champion(connection, state.id, wanted.version):
        return
    failed = [check for check in row.decision.get("checks", []) if not check["passed"]]
    errors = [{"pointer": "/version", "detail": check["reason"]} for check in failed]
    detail = "the model did not pass the gate; use force to promote it anyway"
    raise Problem(409, "promotion_gate_failed", detail, errors)


def roll_back(runtime: Runtime, state: CollectionState) -> dict[str, Any]:
    """Make the previous champion the champion again. Raises Problem 409 without a previous champion."""
    with state.lock:  # so that two rollbacks are two steps, and the answer comes before a deletion of the collection
        with runtime.database.read() as connection:
            version = repository.champion_before(connection, state.id)
        if version is None:
            raise Problem(409, "nothing_to_roll_back", "no other model was the champion before the current champion")
        promote(runtime, state, version, "rollback", rollback=True)
        return show_aliases(runtime, state)


def show_aliases(runtime: Runtime, state: CollectionState) -> dict[str, Any]:
    """Return the champion, all aliases and their newest changes."""
    with runtime.database.read() as connection:
        changes = repository.newest_alias_changes(connection, state.id)
        aliases = repository.aliases(connection, state.id)
    history = [
        {"from": change.from_version, "to": change.to_version, "reason": change.reason, "at": change.created_at}
        for change in changes
    ]
    return {"alias": "champion", "version": aliases["champion"], "aliases": aliases, "history": history}


def _body(row: Any) -> dict[str, Any]:
    return {
        "version": row.version,
        "lineage": row.lineage,
        "report": row.report,
        "decision": row.decision,
        "created_at": row.created_at,
    }
