"""Registers the model of a training run and promotes it if the gate passes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import Row

from index.storage.files import read_files
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import require_collection
from service.runtime.model_registry import promote, register
from service.runtime.model_repository import champion_version, next_version
from service.runtime.runtime import Runtime
from service.training.child_process import Specification
from service.training.repository import model_kind, model_of_run, update_decision
from service.training.staging import MODEL, REPORT


def conclude(runtime: Runtime, state: CollectionState, specification: Specification) -> dict[str, Any]:
    """Register the staged model and apply the gate's decision; return columns of the run's record.

    After an interruption it can be called again: steps that are complete are not repeated. Raises Problem 404 if the
    collection was deleted.
    """
    with state.lock:
        model = _registered(runtime, state, specification)
        version, decision = model.version, dict(model.decision)
        with runtime.database.read() as connection:
            champion = champion_version(connection, state.id)
            kind = model_kind(connection, state.id, champion)
        obstacle = _obstacle(specification, champion, kind)
        if champion == version:
            decision["promoted"] = True
        elif decision["promote"] and obstacle is None:
            promote(runtime, state, version, f"training run {specification['run']} {_proof(specification, decision)}")
            decision["promoted"] = True
        elif obstacle is not None and (decision["promote"] or specification["promote"] == "never"):
            decision["reasons"] = [*(reason for reason in decision["reasons"] if reason != obstacle), obstacle]
        with runtime.database.write() as connection:
            update_decision(connection, state.id, version, decision)
    return {"model_version": version, "report": model.report, "decision": decision}


def _proof(specification: Specification, decision: Mapping[str, Any]) -> str:
    """Return what speaks for the model, as the end of a sentence."""
    if specification["learn_from"] == "feedback":
        return "passed the gate"
    passed = all(check["passed"] for check in decision["checks"])
    return "passed the guard" if passed else "calibrated the null weight and kept the weights of version 0"


def _obstacle(specification: Specification, champion: int, kind: str | None) -> str | None:
    """Return the reason against promotion in spite of a passed gate or guard, or None. kind: of the champion."""
    if specification["promote"] == "never":
        return "promotion was not asked for"
    if specification["learn_from"] == "documents" and kind == "trained":
        return "a model trained on feedback serves, and the guard does not compare with it"
    return None if champion == specification["champion"] else "the champion was changed during the run"


def _registered(runtime: Runtime, state: CollectionState, specification: Specification) -> Row[Any, Any, Any, Any]:
    """Return the model of this run. If it is only staged, register it first."""
    with runtime.database.write() as connection:
        require_collection(connection, state.id)
        model = model_of_run(connection, state.id, specification["run"])
        if model is None:
            staging = Path(specification["staging"])
            report = json.loads((staging / REPORT).read_bytes())
            facts = {"lineage": report["lineage"], "report": report["report"]}
            facts["decision"] = report["decision"] | {"promoted": False}
            files = read_files(staging / MODEL)
            register(state, connection, files, next_version(connection, state.id), facts)
            model = model_of_run(connection, state.id, specification["run"])
            assert model is not None
        return model
