"""Creates, changes, shows and deletes collections."""

import shutil
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, delete, func, select, update

from index.records import KeyKind
from service.collections.schemas import CollectionIn
from service.http.problems import Problem, not_found
from service.runtime.collection import CollectionSettings, CollectionState
from service.runtime.jobs import Progress
from service.runtime.runtime import DEFAULT_COLLECTION, TOMBSTONE, Runtime
from service.storage.tables import Alias, Collection, Document, Event, Judgment, Key, Model, PendingDocument

FIXED = ("language", "keys")
"""Settings that decide what is indexed: they cannot change once documents are there."""
UNSET = ("retention_days", "memory_half_life_days")
"""Settings for which null is a value: without end."""


def put(runtime: Runtime, name: str, wanted: CollectionIn) -> tuple[dict[str, Any], bool]:
    """Create a collection or change its settings; return its body and whether it was created."""
    given = wanted.model_dump(exclude_unset=True)
    changes = {key: value for key, value in given.items() if value is not None or key in UNSET}
    with runtime.collections_lock:  # of those who ask at once, one creates
        state = runtime.collections.get(name)
        if state is None:
            return show(runtime, runtime.create_collection(name, CollectionSettings().changed(changes))), True
    _change(runtime, state, changes)
    return show(runtime, state), False


def _change(runtime: Runtime, state: CollectionState, changes: dict[str, Any]) -> None:
    with state.lock:
        settings = state.settings.changed(changes)
        changed = [key for key in FIXED if getattr(settings, key) != getattr(state.settings, key)]
        with runtime.database.write() as connection:
            if changed and _holds_documents(connection, state):
                detail = f"{changed[0]} decides what is indexed: make a new collection, or delete the documents first"
                raise Problem(409, "setting_is_fixed", detail)
            connection.execute(update(Collection).where(Collection.id == state.id).values(settings=asdict(settings)))
            ages = settings.memory_half_life_days != state.settings.memory_half_life_days
            watermark = state.bump(connection, documents=False) if ages else 0
        state.configure(settings)
        if "language" in changed:
            state.reset_index()
        if ages:
            state.age(watermark, settings.clock())


def _holds_documents(connection: Connection, state: CollectionState) -> bool:
    tables = (Document, PendingDocument)
    return any(connection.execute(select(one.id).where(one.collection_id == state.id)).first() for one in tables)


def show(runtime: Runtime, state: CollectionState) -> dict[str, Any]:
    """Return a collection's settings, counts and champion."""
    with runtime.database.read() as connection:
        row = connection.execute(select(Collection.__table__).where(Collection.id == state.id)).mappings().one_or_none()
        if row is None:
            raise not_found("collection")

        def count(table: Any) -> int:
            wanted = select(func.count()).select_from(table).where(table.collection_id == state.id)
            return int(connection.execute(wanted).scalar_one())

        kinds = connection.execute(
            select(Key.kind, func.count()).where(Key.collection_id == state.id).group_by(Key.kind)
        ).all()
        champion = connection.execute(
            select(Alias.version).where(Alias.collection_id == state.id, Alias.name == "champion")
        ).scalar_one()
        by_kind = {kind.label: 0 for kind in KeyKind} | {KeyKind(kind).label: number for kind, number in kinds}
        return {
            "name": state.name,
            "settings": asdict(state.settings),
            "encoder": {"model": row["encoder"], "fingerprint": row["fingerprint"], "dim": row["dim"]},
            "counts": {
                "documents": count(Document),
                "pending": count(PendingDocument),
                "keys": by_kind,
                "events": count(Event),
                "judgments": count(Judgment),
                "models": count(Model),
            },
            "champion": champion,
            "generation": row["watermark"],
            "created_at": row["created_at"],
        }


def remove(runtime: Runtime, name: str) -> str:
    """Take a collection out of use at once and delete what it holds in a task; return the task's id."""
    if name == DEFAULT_COLLECTION:
        raise Problem(409, "collection_is_default", "the default collection is always there; delete its documents")
    with runtime.collections_lock, runtime.database.write() as connection:
        state = runtime.collection(name)
        tombstone = f"{TOMBSTONE}{state.id}"  # a restart does not bring the collection back
        connection.execute(update(Collection).where(Collection.id == state.id).values(name=tombstone))
        runtime.collections.pop(name)

    def work(progress: Progress) -> dict[str, Any]:
        with state.lock:
            with runtime.database.write() as connection:
                connection.execute(delete(Key).where(Key.collection_id == state.id))
                connection.execute(delete(Collection).where(Collection.id == state.id))
            state.store.close()
            shutil.rmtree(state.directory, ignore_errors=True)
            shutil.rmtree(runtime.settings.data / "models" / str(state.id), ignore_errors=True)
        return {"deleted": name}

    return runtime.jobs.start("collection_deletion", name, work)
