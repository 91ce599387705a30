"""SQL that gives a collection other keys and values, such as those of another encoder. The caller commits.

The new rows are made beside, in a collection with the name of a deleted one: if the process ends before the switch, the
next start deletes them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, RowMapping, and_, bindparam, delete, exists, func, select, update

from index.records import Floats, KeyKind
from service.runtime.collection_repository import BESIDE, collection_row, delete_collection, insert_collection
from service.runtime.model_repository import (
    LEARNED_INDEX,
    REENCODED,
    champion_version,
    insert_alias_change,
    point_alias,
)
from service.storage.checked_rows import update_row
from service.storage.checksums import GOLDEN, crc, with_lower_sum, with_owner_changed
from service.storage.tables import (
    ALIAS_CHANGES,
    ALIASES,
    DOCUMENTS,
    EVENTS,
    JUDGMENTS,
    KEYS,
    MODELS,
    PENDING_DOCUMENTS,
    RULES,
    TRAINING_RUNS,
)
from service.storage.vector_codec import as_blob


def is_training(connection: Connection, collection_id: int) -> bool:
    """Return whether a training run of a collection has not ended."""
    mine = (TRAINING_RUNS.c.collection_id == collection_id, TRAINING_RUNS.c.status == "processing")
    return bool(connection.execute(select(exists().where(*mine))).scalar_one())


def is_empty(connection: Connection, collection_id: int) -> bool:
    """Return whether a collection has nothing of an encoder: documents, past queries, rules by meaning, a champion.

    Documents of an import that has not begun get the encoder of the next server.
    """
    if is_training(connection, collection_id) or champion_version(connection, collection_id):
        return False
    encoded = [table.c.collection_id == collection_id for table in (DOCUMENTS, PENDING_DOCUMENTS, KEYS)]
    encoded.append(and_(RULES.c.collection_id == collection_id, RULES.c.vector.is_not(None)))
    return not any(connection.execute(select(exists().where(one))).scalar_one() for one in encoded)


def document_count(connection: Connection, collection_id: int) -> int:
    """Return the number of searchable documents."""
    wanted = select(func.count()).select_from(DOCUMENTS).where(DOCUMENTS.c.collection_id == collection_id)
    return int(connection.execute(wanted).scalar_one())


def insert_beside(connection: Connection, row: RowMapping, encoder: str, fingerprint: str, dim: int) -> int:
    """Insert an empty collection for the new rows; return its id."""
    name = f"{BESIDE}{row['id']}"
    return int(insert_collection(connection, name, row["settings"], encoder, fingerprint, dim)["id"])


def memory_texts(connection: Connection, collection_id: int) -> dict[int, str]:
    """Return id of a `query` key -> the text of its query."""
    wanted = (
        select(KEYS.c.id, func.coalesce(EVENTS.c.query_text, JUDGMENTS.c.query_text, KEYS.c.query_key))
        .join(EVENTS, EVENTS.c.id == KEYS.c.event_id, isouter=True)
        .join(JUDGMENTS, JUDGMENTS.c.id == KEYS.c.judgment_id, isouter=True)
        .where(KEYS.c.collection_id == collection_id, KEYS.c.kind == KeyKind.QUERY, KEYS.c.weight != 0)
        .where(KEYS.c.confirmed_on.is_(None))
    )
    return {int(id): str(text) for id, text in connection.execute(wanted)}


def delete_anonymous_memory(connection: Connection, collection_id: int) -> int:
    """Delete the anonymous memory of a collection; return the number of its past queries.

    It has vectors of the old encoder, and no texts. A past query has a key for each document and day.
    """
    mine = (KEYS.c.collection_id == collection_id, KEYS.c.kind == KeyKind.QUERY, KEYS.c.confirmed_on.is_not(None))
    count = connection.execute(select(func.count(KEYS.c.query_key.distinct())).where(*mine)).scalar_one()
    connection.execute(delete(KEYS).where(*mine))
    return int(count)


def rule_texts(connection: Connection, collection_id: int) -> dict[str, str]:
    """Return id -> text of the rules that match queries near a text."""
    wanted = select(RULES.c.id, RULES.c.body).where(RULES.c.collection_id == collection_id, RULES.c.vector.is_not(None))
    return {id: body["query"]["near"] for id, body in connection.execute(wanted)}


def set_rule_vectors(connection: Connection, collection_id: int, vectors: Mapping[str, Floats]) -> None:
    """Replace the vectors of rules; vectors: id of a rule -> vector."""
    for id, vector in vectors.items():
        mine, blob = (RULES.c.collection_id == collection_id, RULES.c.id == id), as_blob(vector)
        changed = {"vector": blob, "checksum": with_lower_sum(RULES.c.checksum, crc([blob]))}
        connection.execute(update(RULES).where(*mine).values(changed))


def switch_encoder(
    connection: Connection, before: RowMapping, beside: int, memory: Mapping[int, str], vectors: Mapping[str, Floats]
) -> tuple[int, int]:
    """Replace documents, keys and values of a collection by the rows beside, which have vectors of another encoder.

    Returns the version of the old champion, and the number of anonymous past queries that were deleted.
    memory: id of a `query` key -> text; vectors: text -> vector. Other feedback and models stay. Models that were
    trained get the fingerprint of the old encoder in their lineage, and version 0 becomes the champion.
    """
    collection_id, after = int(before["id"]), collection_row(connection, beside)
    anonymous = delete_anonymous_memory(connection, collection_id)
    switch_documents(connection, before, beside, {name: after[name] for name in ("encoder", "fingerprint", "dim")})
    set_vectors(connection, ((id, vectors[text]) for id, text in memory.items()))
    return _retire_models(connection, collection_id, before["fingerprint"], after["encoder"]), anonymous


def switch_documents(connection: Connection, before: RowMapping, beside: int, values: Mapping[str, Any]) -> None:
    """Replace documents, own keys and values of a collection by the rows beside; memory goes to the new rows.

    values: what the row of the collection gets, besides its watermarks.
    """
    collection_id = int(before["id"])
    _move_memory(connection, collection_id, beside)
    own = and_(KEYS.c.collection_id == collection_id, KEYS.c.kind != KeyKind.QUERY)
    connection.execute(delete(KEYS).where(own))
    connection.execute(delete(DOCUMENTS).where(DOCUMENTS.c.collection_id == collection_id))
    for table in (DOCUMENTS, KEYS):
        checksum = with_owner_changed(table.c.checksum, (collection_id - beside) * GOLDEN)
        moved = {"collection_id": collection_id, "checksum": checksum}
        connection.execute(update(table).where(table.c.collection_id == beside).values(moved))
    delete_collection(connection, beside)
    watermark = before["watermark"] + 1
    marks = {"watermark": watermark, "documents_watermark": watermark}
    update_row(connection, "collections", {"id": collection_id}, {**values, **marks})


def _move_memory(connection: Connection, collection_id: int, beside: int) -> None:
    """Attach the `query` keys of each document to the row beside that has the same id.

    A key whose document is missing is damaged, and stays as it is.
    """
    old, new = DOCUMENTS.alias(), DOCUMENTS.alias()
    row = (
        select(new.c.row)
        .join(old, old.c.id == new.c.id)
        .where(new.c.collection_id == beside, old.c.row == KEYS.c.document_row)
        .scalar_subquery()
    )
    mine = (KEYS.c.collection_id == collection_id, KEYS.c.kind == KeyKind.QUERY, row.is_not(None))
    moved = {"document_row": row, "checksum": with_owner_changed(KEYS.c.checksum, row - KEYS.c.document_row)}
    connection.execute(update(KEYS).where(*mine).values(moved))


def set_vectors(connection: Connection, vectors: Iterable[tuple[int, Floats]]) -> None:
    """Replace the vectors of `query` keys; vectors: id of a key and vector."""
    rows: Sequence[dict[str, Any]] = [
        {"key": id, "blob": blob, "lower": crc([blob])} for id, blob in ((id, as_blob(one)) for id, one in vectors)
    ]
    if rows:
        checksum = with_lower_sum(KEYS.c.checksum, bindparam("lower"))
        changed = update(KEYS).where(KEYS.c.id == bindparam("key"))
        changed = changed.values(vector=bindparam("blob"), checksum=checksum)
        connection.execute(changed, rows)


def note_learned_index(
    connection: Connection, collection_id: int, before: Mapping[str, Any], after: Mapping[str, Any]
) -> set[int]:
    """Note in the lineage of each trained model the index that it learned from, if that is not the new one.

    before, after: the index of the collection until now, and the new one. Returns the versions that have such a note.
    """
    noted = set()
    for version, lineage in _trained(connection, collection_id):
        learned = lineage.get(LEARNED_INDEX, before)
        changed = {name: value for name, value in lineage.items() if name != LEARNED_INDEX}
        if learned != after:
            changed[LEARNED_INDEX] = learned
            noted.add(version)
        if changed != lineage:
            update_row(connection, "models", {"collection_id": collection_id, "version": version}, {"lineage": changed})
    return noted


def _trained(connection: Connection, collection_id: int) -> Sequence[Row[int, dict[str, Any]]]:
    """Return version and lineage of the trained models."""
    mine = (MODELS.c.collection_id == collection_id, MODELS.c.version > 0)
    return connection.execute(select(MODELS.c.version, MODELS.c.lineage).where(*mine)).all()


def retired_champion(connection: Connection, collection_id: int) -> int:
    """Return the champion before the last switch to another encoder; 0 if none, or if the alias moved since."""
    mine = (ALIAS_CHANGES.c.collection_id == collection_id, ALIAS_CHANGES.c.name == "champion")
    wanted = select(ALIAS_CHANGES.c.from_version, ALIAS_CHANGES.c.reason).where(*mine)
    newest = connection.execute(wanted.order_by(ALIAS_CHANGES.c.id.desc()).limit(1)).one_or_none()
    return int(newest.from_version) if newest is not None and newest.reason.startswith(REENCODED) else 0


def _retire_models(connection: Connection, collection_id: int, fingerprint: str, encoder: str) -> int:
    """Make version 0 the champion; return the champion before. There is no challenger until the next training run."""
    for version, lineage in _trained(connection, collection_id):
        if "encoder" not in lineage:
            mine = {"collection_id": collection_id, "version": version}
            update_row(connection, "models", mine, {"lineage": lineage | {"encoder": fingerprint}})
    champion = champion_version(connection, collection_id)
    connection.execute(delete(ALIASES).where(ALIASES.c.collection_id == collection_id, ALIASES.c.name == "challenger"))
    if champion:
        point_alias(connection, collection_id, "champion", 0)
        insert_alias_change(connection, collection_id, "champion", champion, 0, f"{REENCODED}{encoder}", False)
    return champion
