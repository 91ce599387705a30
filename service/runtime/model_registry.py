"""Registers trained models, and makes a version the champion.

A promotion and a rollback are the same operation: an alias row and a reference in memory change.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from index.errors import EncoderMismatch
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import require_collection
from service.runtime.model_files import load_version
from service.runtime.model_repository import (
    champion_version,
    click_worth,
    insert_alias_change,
    insert_model,
    insert_model_files,
    model_encoder,
    point_alias,
)
from service.runtime.runtime import Runtime
from service.runtime.served_collection import Serving


def register(
    state: CollectionState,
    connection: Connection,
    files: Mapping[str, bytes],
    version: int,
    facts: dict[str, dict[str, Any]],
) -> None:
    """Make a model a version: insert its row and its files, and point `challenger` at it. The caller commits.

    files: name -> bytes. facts: lineage, report and decision.
    """
    insert_model(connection, state.id, version, facts)
    insert_model_files(connection, state.id, version, files)
    point_alias(connection, state.id, "challenger", version)


def require_own_vectors(runtime: Runtime, state: CollectionState, version: int) -> None:
    """Raise EncoderMismatch if a model was trained on vectors that the collection no longer has."""
    with runtime.database.read() as connection:
        fingerprint = model_encoder(connection, state.id, version)
    if fingerprint not in (None, state.fingerprint):
        raise EncoderMismatch(f"model {version} was trained on vectors of another encoder ({fingerprint[:12]})")


def promote(runtime: Runtime, state: CollectionState, version: int, reason: str, rollback: bool = False) -> None:
    """Make a version the champion, durably; the next search uses it.

    Raises DamagedFile and EncoderMismatch before anything is changed.
    """
    with state.lock:  # also while the head is read: a change of the settings changes the initial one
        require_own_vectors(runtime, state, version)
        with runtime.database.read() as connection:
            head = load_version(connection, state.id, state.initial, version)
        with runtime.database.write() as connection:
            require_collection(connection, state.id)
            worth = click_worth(connection, state.id, version)
            before = champion_version(connection, state.id)
            point_alias(connection, state.id, "champion", version)
            insert_alias_change(connection, state.id, "champion", before, version, reason, rollback)
        state.serve(Serving(version, head, worth=worth))
