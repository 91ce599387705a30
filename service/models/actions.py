"""Shows and compares models; makes one live and takes it back."""

from typing import Any

from sqlalchemy import select

from service.http.problems import not_found
from service.models.schemas import Promotion
from service.runtime.collection import CollectionState
from service.runtime.model_registry import previous_champion, promote, require_gate
from service.runtime.runtime import Runtime
from service.storage.tables import Alias, AliasChange, Model


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
