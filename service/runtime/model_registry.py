"""The models of a collection: immutable versions, and the alias that says which one serves.

Going live and going back are the same thing: a row changes, and one reference in memory.
"""

import os
import shutil
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from index.storage.files import sync_directory
from service.http.problems import Problem, not_found
from service.runtime.collection import CollectionState, Serving, load_version, model_directory
from service.runtime.runtime import Runtime
from service.storage.database import now
from service.storage.tables import Alias, AliasChange, Model


def next_version(connection: Connection, state: CollectionState) -> int:
    """Return the number that the next model gets."""
    newest = select(func.max(Model.version)).where(Model.collection_id == state.id)
    return int(connection.execute(newest).scalar_one() or 0) + 1


def register(
    runtime: Runtime,
    state: CollectionState,
    connection: Connection,
    staged: Path,
    version: int,
    facts: dict[str, dict[str, Any]],
) -> None:
    """Make a staged model a version: its files move to their place, its row is written, `challenger` points at it.

    facts are lineage, report and decision.
    """
    target = model_directory(runtime.settings.data, state.id, version)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(target, ignore_errors=True)  # left by a process that ended before its row was committed
    os.replace(staged, target)
    sync_directory(target.parent)
    connection.execute(insert(Model).values(collection_id=state.id, version=version, created_at=now(), **facts))
    set_alias(connection, state, "challenger", version)


def set_alias(connection: Connection, state: CollectionState, name: str, version: int) -> None:
    """Point an alias at a version."""
    where = (Alias.collection_id == state.id, Alias.name == name)
    if connection.execute(update(Alias).where(*where).values(version=version)).rowcount == 0:
        connection.execute(insert(Alias).values(collection_id=state.id, name=name, version=version))


def champion_version(connection: Connection, state: CollectionState) -> int:
    """Return the version that `champion` points at."""
    where = (Alias.collection_id == state.id, Alias.name == "champion")
    return int(connection.execute(select(Alias.version).where(*where)).scalar_one())


def promote(runtime: Runtime, state: CollectionState, version: int, reason: str, rollback: bool = False) -> None:
    """Make a version the champion, durably, then for the next search; its files are verified first.

    Raises DamagedFile: then nothing has changed.
    """
    head = load_version(state.id, state.initial, version, runtime.settings.data)
    with state.lock:
        with runtime.database.write() as connection:
            before = champion_version(connection, state)
            set_alias(connection, state, "champion", version)
            connection.execute(
                insert(AliasChange).values(
                    collection_id=state.id,
                    name="champion",
                    from_version=before,
                    to_version=version,
                    reason=reason,
                    rollback=rollback,
                    created_at=now(),
                )
            )
        state.serving = Serving(version, head)


def require_gate(connection: Connection, state: CollectionState, version: int) -> None:
    """Raise Problem 409 with the failing checks unless the version passed the gate or has been champion before."""
    row = connection.execute(
        select(Model.decision).where(Model.collection_id == state.id, Model.version == version)
    ).one_or_none()
    if row is None:
        raise not_found("model")
    served = select(AliasChange.id).where(AliasChange.collection_id == state.id, AliasChange.name == "champion")
    back = served.where((AliasChange.from_version == version) | (AliasChange.to_version == version))
    if version == 0 or row.decision.get("promote") or connection.execute(back).first():
        return
    failing = [check for check in row.decision.get("checks", []) if not check["passed"]]
    errors = [{"pointer": "/version", "detail": check["reason"]} for check in failing]
    raise Problem(
        409, "promotion_gate_failed", "the model did not pass the gate; force to promote it all the same", errors
    )


def previous_champion(connection: Connection, state: CollectionState) -> int:
    """Return the version that was champion before the present one; raises Problem 409 where there is none."""
    current = champion_version(connection, state)
    came = connection.execute(
        select(AliasChange.from_version)
        .where(
            AliasChange.collection_id == state.id,
            AliasChange.name == "champion",
            AliasChange.to_version == current,
            AliasChange.rollback.is_(False),
            AliasChange.from_version != current,
        )
        .order_by(AliasChange.id.desc())
    ).first()
    if came is None:
        raise Problem(409, "nothing_to_roll_back", "no other model was champion before this one")
    return int(came.from_version)
