"""SQL of models and aliases that several slices need. The caller commits."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select

from index.memory.click_worth import ASSUMED_WORTH, ClickWorth
from service.storage.checksums import texts_as_stored
from service.storage.database import now
from service.storage.tables import ALIAS_CHANGES, ALIASES, MODEL_FILES, MODELS


def next_version(connection: Connection, collection_id: int) -> int:
    """Return the version number of the next model."""
    newest = select(func.max(MODELS.c.version)).where(MODELS.c.collection_id == collection_id)
    return int(connection.execute(newest).scalar_one() or 0) + 1


def insert_model(connection: Connection, collection_id: int, version: int, facts: dict[str, dict[str, Any]]) -> None:
    """Insert a model; `facts` holds its lineage, report and decision."""
    values = {"collection_id": collection_id, "version": version, "created_at": now(), **facts}
    connection.execute(insert(MODELS).values(values))


def insert_model_files(connection: Connection, collection_id: int, version: int, files: Mapping[str, bytes]) -> None:
    """Insert the files of a model: name -> bytes."""
    mine = {"collection_id": collection_id, "version": version}
    connection.execute(insert(MODEL_FILES), [{**mine, "name": name, "body": body} for name, body in files.items()])


def model_files(connection: Connection, collection_id: int, version: int) -> dict[str, bytes]:
    """Return the files of a model: name -> bytes. Version 0 has none."""
    mine = (MODEL_FILES.c.collection_id == collection_id, MODEL_FILES.c.version == version)
    with texts_as_stored(connection):  # a damaged name or type is a missing file
        found = connection.execute(
            select(MODEL_FILES.c.name, MODEL_FILES.c.body).where(*mine).order_by(MODEL_FILES.c.name)
        ).all()
    return {name: body for name, body in found if type(body) is bytes}


def stored_model_files(connection: Connection, collection_id: int) -> dict[tuple[int, str], bytes]:
    """Return (version, name) -> bytes of all files of the models of a collection."""
    mine = MODEL_FILES.c.collection_id == collection_id
    wanted = select(MODEL_FILES.c.version, MODEL_FILES.c.name, MODEL_FILES.c.body).where(mine)
    return {(version, name): body for version, name, body in connection.execute(wanted)}


def model_encoder(connection: Connection, collection_id: int, version: int) -> str | None:
    """Return the fingerprint of the earlier encoder that a model was trained for; None for the encoder of today."""
    mine = (MODELS.c.collection_id == collection_id, MODELS.c.version == version)
    fingerprint: str | None = connection.execute(select(MODELS.c.lineage["encoder"].as_string()).where(*mine)).scalar()
    return fingerprint


def click_worth(connection: Connection, collection_id: int, version: int) -> ClickWorth:
    """Return the worth of clicks by the examination curve of a model's training.

    It is ASSUMED_WORTH for version 0, for models of earlier releases, which have no curve in their lineage, and where
    the log of the training had too few clicks for a curve of its own.
    """
    mine = (MODELS.c.collection_id == collection_id, MODELS.c.version == version)
    lineage = connection.execute(select(MODELS.c.lineage).where(*mine)).scalar()
    model = (lineage or {}).get("click_model")
    return ClickWorth.of(model["curve"]) if model and model["method"] != "assumed" else ASSUMED_WORTH


def point_alias(connection: Connection, collection_id: int, name: str, version: int) -> None:
    """Point an alias at a version. A damaged row is replaced."""
    connection.execute(delete(ALIASES).where(ALIASES.c.collection_id == collection_id, ALIASES.c.name == name))
    connection.execute(insert(ALIASES).values(collection_id=collection_id, name=name, version=version))


def champion_version(connection: Connection, collection_id: int) -> int:
    """Return the version that the alias `champion` points at."""
    wanted = select(ALIASES.c.version).where(ALIASES.c.collection_id == collection_id, ALIASES.c.name == "champion")
    return int(connection.execute(wanted).scalar() or 0)


LEARNED_INDEX = "learned_index"
"""What the lineage of a model names language and keys by, if they were others when it learned."""
REENCODED = "the collection was encoded again with "
"""The beginning of the reason of the change to version 0 by `softseek reencode`. Stored changes are known by it."""


def insert_alias_change(
    connection: Connection, collection_id: int, name: str, before: int, after: int, reason: str, rollback: bool
) -> None:
    """Record that an alias moved from the version `before` to the version `after`."""
    values = {
        "collection_id": collection_id,
        "name": name,
        "from_version": before,
        "to_version": after,
        "reason": reason,
        "rollback": rollback,
        "created_at": now(),
    }
    connection.execute(insert(ALIAS_CHANGES).values(values))
