"""Creates, changes, shows and deletes collections."""

import shutil
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, RowMapping

from service.collections.repository import counts, find_collection, has_documents, update_settings
from service.collections.schemas import CollectionIn, SwapIn
from service.http.problems import Problem, not_found
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import (
    bump_watermark,
    delete_collection,
    mark_deleted,
    processing_run_ids,
    require_collection,
    swap_names,
)
from service.runtime.collection_settings import CollectionSettings
from service.runtime.jobs import Progress
from service.runtime.model_repository import champion_version
from service.runtime.runtime import DEFAULT_COLLECTION, Runtime

FIXED = {"language": "language", "keys": "kinds"}
"""Settings that decide what is indexed, and their attributes. They cannot change while the collection has documents."""
NULLABLE = ("retention_days", "memory_half_life_days", "memory_max_mb", "memory_retention_days", "train")
"""Settings for which null is a value: no limit, or never."""


def put(runtime: Runtime, name: str, wanted: CollectionIn, may_create: bool = True) -> tuple[dict[str, Any], bool]:
    """Create a collection or change its settings; return its body, and whether it was created.

    may_create: whether the caller may create collections. Raises Problem 403 if the collection would be new and the
    caller may not, 409 if an alias whose collection was deleted has the name, and 422 for lengths out of order and for
    a stop word of several words.
    """
    given = wanted.model_dump(exclude_unset=True)
    changes = {key: value for key, value in given.items() if value is not None or key in NULLABLE}
    with runtime.collections_lock:  # so that simultaneous requests create the collection once
        state = runtime.find_collection(name)
        if state is None and not may_create:
            raise Problem(403, "scope_missing", "only a key with the scope admin creates collections")
        if state is None and name in runtime.aliases:
            raise Problem(
                409, "name_is_taken", "an alias of a deleted collection has this name; delete the alias first"
            )
        if state is None:
            return show(runtime, runtime.create_collection(name, _changed(CollectionSettings(), changes))), True
        state = runtime.collection(name)
    with ExitStack() as reading:
        with state.lock:  # the data of a collection is deleted under this lock
            _change(runtime, state, changes)
            shown = _as_of_now(runtime, [state], reading)
        return shown()[0], False


def _changed(settings: CollectionSettings, changes: dict[str, Any]) -> CollectionSettings:
    """Return the settings with these changes.

    Raises Problem 422 if a change of `typos` makes `one_edit` greater than `two_edits`. Settings that were stored with
    such lengths keep them, until `typos` is changed. Raises Problem 422 for a new stop word of several words.
    """
    for word in changes.get("stop_words", ()):
        if len(word.split()) > 1 and word not in settings.stop_words:
            detail = "a stop word is a single word"
            raise Problem(
                422, "invalid_request", f"stop_words: {detail}", [{"pointer": "/stop_words", "detail": detail}]
            )
    changed = settings.changed(changes)
    reading = changed.reading
    if "typos" in changes and reading.one_edit > reading.two_edits:
        detail = "one_edit must be at most two_edits"
        raise Problem(422, "invalid_request", f"typos: {detail}", [{"pointer": "/typos", "detail": detail}])
    return changed


def _change(runtime: Runtime, state: CollectionState, changes: dict[str, Any]) -> None:
    with state.lock:
        settings = _changed(state.settings, changes)
        fixed = [name for name, of in FIXED.items() if getattr(settings, of) != getattr(state.settings, of)]
        ages = settings.memory_half_life_days != state.settings.memory_half_life_days
        limits = settings.memory_max_mb != state.settings.memory_max_mb
        with runtime.database.write() as connection:
            require_collection(connection, state.id)
            if fixed and has_documents(connection, state.id):
                detail = f"{fixed[0]} decides what is indexed: stop the server and run softseek reindex {state.name}"
                raise Problem(409, "setting_is_fixed", detail)
            update_settings(connection, state.id, asdict(settings))
            watermark = bump_watermark(connection, state.id, documents=False) if ages or limits else 0
        state.configure(settings)
        if "language" in fixed:
            state.reset_index()
        if ages:
            state.age(watermark, settings.decay_clock())
        if limits:
            state.limit_memory(watermark)


def show(runtime: Runtime, state: CollectionState) -> dict[str, Any]:
    """Return a collection's settings, counts and champion. Raises Problem 404."""
    found = show_all(runtime, [state])["collections"]
    if not found:
        raise not_found("collection")
    return dict(found[0])


def show_all(runtime: Runtime, states: Iterable[CollectionState]) -> dict[str, Any]:
    """Return collections as `show` does, without those that were deleted in the meantime."""
    with ExitStack() as reading:
        return {"collections": _as_of_now(runtime, states, reading)()}


def _as_of_now(
    runtime: Runtime, states: Iterable[CollectionState], reading: ExitStack
) -> Callable[[], list[dict[str, Any]]]:
    """Begin to read collections; return the function that shows those that exist now, as long as `reading` is open.

    A caller that holds a lock calls the function after the lock is released: counting takes long.
    """
    connection = reading.enter_context(runtime.database.read())
    rows = [(state, find_collection(connection, state.id)) for state in states]
    return lambda: [_body(connection, state, row) for state, row in rows if row is not None]


def _body(connection: Connection, state: CollectionState, row: RowMapping) -> dict[str, Any]:
    return {
        "name": state.name,
        "settings": {name: value for name, value in asdict(state.settings).items() if name != "synonyms"},
        "encoder": {"model": row["encoder"], "fingerprint": row["fingerprint"], "dim": row["dim"]},
        "counts": counts(connection, state.id),
        "memory": asdict(state.bounded_memory.size),
        "champion": champion_version(connection, state.id),
        "generation": row["watermark"],
        "created_at": row["created_at"],
    }


def swap(runtime: Runtime, wanted: SwapIn) -> dict[str, Any]:
    """Exchange the names of two collections, durably, and return both. No request sees only one of the changes.

    Raises Problem 404 if one does not exist, and 422 if both are the same.
    """
    with ExitStack() as reading:
        with runtime.collections_lock:
            a, b = runtime.collection(wanted.a), runtime.collection(wanted.b)
            if a is b:
                detail = "must name another collection than a"
                raise Problem(422, "invalid_request", detail, [{"pointer": "/b", "detail": detail}])
            names = a.name, b.name
            try:
                with runtime.database.write() as connection:
                    swap_names(connection, a.id, b.id)
                    b.name, a.name = names  # before the commit: the next task that is recorded has the new name
            except BaseException:
                a.name, b.name = names
                raise
            runtime.collections = {**runtime.collections, a.name: a, b.name: b}  # a search reads the old or the new
            shown = _as_of_now(runtime, sorted((a, b), key=lambda one: one.name), reading)  # neither is deleted yet
        return {"collections": shown()}


def remove(runtime: Runtime, name: str) -> str:
    """Make a collection unavailable, start the task that deletes its data, and return the task's id."""
    with runtime.collections_lock:
        state = runtime.collection(name)
        if state.name != name:
            detail = (
                f"{name} is an alias of the collection {state.name}: delete the alias, or the collection by its name"
            )
            raise Problem(409, "name_is_alias", detail)
        if state.name == DEFAULT_COLLECTION:
            detail = "the default collection cannot be deleted; delete its documents"
            raise Problem(409, "collection_is_default", detail)
        return _removed(runtime, state)


def _end_run(runtime: Runtime, state: CollectionState, run_id: str) -> None:
    """End a run of a deleted collection. Its staging folder has texts of the collection."""
    if state.training_lock.acquire(blocking=False):  # no thread follows the run
        try:
            shutil.rmtree(runtime.staging / run_id, ignore_errors=True)
        finally:
            state.training_lock.release()
    else:
        runtime.training.cancel(run_id)


def _removed(runtime: Runtime, state: CollectionState) -> str:
    name = state.name
    with runtime.database.write() as connection:  # a deletion for whose task there is no place is undone
        mark_deleted(connection, state.id)
        task_id = runtime.jobs.enqueued(connection, "collection_deletion", name)
        going = processing_run_ids(connection, state.id)
    runtime.collections.pop(name)
    for run_id in going:
        _end_run(runtime, state, run_id)

    def work(progress: Progress) -> dict[str, Any]:
        with state.lock:
            with runtime.database.write() as connection:
                delete_collection(connection, state.id)
            state.remove_index()
        return {"deleted": name}

    runtime.jobs.run(task_id, work)
    return task_id
