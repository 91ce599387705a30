"""SQL that gives a collection the keys and values of another encoder. The caller commits.

The new rows are made beside, in a collection with the name of a deleted one: if the process ends before the switch, the
next start deletes them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping, and_, bindparam, delete, exists, func, select, update
from sqlalchemy.orm import aliased

from index.records import Floats, KeyKind
from service.runtime.collection_repository import BESIDE, collection_row, delete_collection, insert_collection
from service.runtime.model_repository import champion_version, insert_alias_change, point_alias
from service.storage.checked_rows import update_row
from service.storage.checksums import GOLDEN, crc, with_lower_sum, with_owner_changed
from service.storage.tables import Alias, Document, Event, Judgment, Key, Model, Rule, TrainingRun
from service.storage.vector_codec import as_blob


def is_training(connection: Connection, collection_id: int) -> bool:
    """Return whether a training run of a collection has not ended."""
    mine = (TrainingRun.collection_id == collection_id, TrainingRun.status == "processing")
    return bool(connection.execute(select(exists().where(*mine))).scalar_one())


def document_count(connection: Connection, collection_id: int) -> int:
    """Return the number of searchable documents."""
    wanted = select(func.count()).select_from(Document).where(Document.collection_id == collection_id)
    return int(connection.execute(wanted).scalar_one())


def insert_beside(connection: Connection, row: RowMapping, encoder: str, fingerprint: str, dim: int) -> int:
    """Insert an empty collection for the new rows; return its id."""
    name = f"{BESIDE}{row['id']}"
    return int(insert_collection(connection, name, row["settings"], encoder, fingerprint, dim)["id"])


def memory_texts(connection: Connection, collection_id: int) -> dict[int, str]:
    """Return id of a `query` key -> the text of its query."""
    wanted = (
        select(Key.id, func.coalesce(Event.query_text, Judgment.query_text, Key.query_key))
        .join(Event, Event.id == Key.event_id, isouter=True)
        .join(Judgment, Judgment.id == Key.judgment_id, isouter=True)
        .where(Key.collection_id == collection_id, Key.kind == KeyKind.QUERY, Key.weight != 0)
        .where(Key.confirmed_on.is_(None))
    )
    return {int(id): str(text) for id, text in connection.execute(wanted)}


def delete_anonymous_memory(connection: Connection, collection_id: int) -> None:
    """Delete the anonymous memory of a collection: it has vectors of the old encoder, and no texts."""
    mine = (Key.collection_id == collection_id, Key.kind == KeyKind.QUERY, Key.confirmed_on.is_not(None))
    connection.execute(delete(Key).where(*mine))


def rule_texts(connection: Connection, collection_id: int) -> dict[str, str]:
    """Return id -> text of the rules that match queries near a text."""
    wanted = select(Rule.id, Rule.body).where(Rule.collection_id == collection_id, Rule.vector.is_not(None))
    return {id: body["query"]["near"] for id, body in connection.execute(wanted)}


def set_rule_vectors(connection: Connection, collection_id: int, vectors: Mapping[str, Floats]) -> None:
    """Replace the vectors of rules; vectors: id of a rule -> vector."""
    for id, vector in vectors.items():
        mine, blob = (Rule.collection_id == collection_id, Rule.id == id), as_blob(vector)
        changed = {"vector": blob, "checksum": with_lower_sum(Rule.checksum, crc([blob]))}
        connection.execute(update(Rule).where(*mine).values(changed).execution_options(synchronize_session=False))


def switch(
    connection: Connection, before: RowMapping, beside: int, memory: Mapping[int, str], vectors: Mapping[str, Floats]
) -> int:
    """Replace documents, keys and values of a collection by the rows beside; return the version of the old champion.

    memory: id of a `query` key -> text; vectors: text -> vector. Feedback and models stay. Models that were trained get
    the fingerprint of the old encoder in their lineage, and version 0 becomes the champion.
    """
    collection_id = int(before["id"])
    after = collection_row(connection, beside)
    delete_anonymous_memory(connection, collection_id)
    _move_memory(connection, collection_id, beside)
    set_vectors(connection, ((id, vectors[text]) for id, text in memory.items()))
    own = and_(Key.collection_id == collection_id, Key.kind != KeyKind.QUERY)
    connection.execute(delete(Key).where(own))
    connection.execute(delete(Document).where(Document.collection_id == collection_id))
    for table in (Document, Key):
        checksum = with_owner_changed(table.checksum, (collection_id - beside) * GOLDEN)
        moved = {"collection_id": collection_id, "checksum": checksum}
        connection.execute(update(table).where(table.collection_id == beside).values(moved))
    delete_collection(connection, beside)
    values = {name: after[name] for name in ("encoder", "fingerprint", "dim")}
    watermark = before["watermark"] + 1
    values |= {"watermark": watermark, "documents_watermark": watermark}
    update_row(connection, "collections", {"id": collection_id}, values)
    return _retire_models(connection, collection_id, before["fingerprint"], after["encoder"])


def _move_memory(connection: Connection, collection_id: int, beside: int) -> None:
    """Attach the `query` keys of each document to the row beside that has the same id."""
    old, new = aliased(Document), aliased(Document)
    row = (
        select(new.row)
        .join(old, old.id == new.id)
        .where(new.collection_id == beside, old.row == Key.document_row)
        .scalar_subquery()
    )
    mine = (Key.collection_id == collection_id, Key.kind == KeyKind.QUERY)
    moved = {"document_row": row, "checksum": with_owner_changed(Key.checksum, row - Key.document_row)}
    connection.execute(update(Key).where(*mine).values(moved).execution_options(synchronize_session=False))


def set_vectors(connection: Connection, vectors: Iterable[tuple[int, Floats]]) -> None:
    """Replace the vectors of `query` keys; vectors: id of a key and vector."""
    table = Key.__table__
    rows: Sequence[dict[str, Any]] = [
        {"key": id, "blob": blob, "lower": crc([blob])} for id, blob in ((id, as_blob(one)) for id, one in vectors)
    ]
    if rows:
        checksum = with_lower_sum(table.c.checksum, bindparam("lower"))
        changed = update(Key).where(table.c.id == bindparam("key"))
        changed = changed.values(vector=bindparam("blob"), checksum=checksum)
        connection.execute(changed.execution_options(synchronize_session=None), rows)


def _retire_models(connection: Connection, collection_id: int, fingerprint: str, encoder: str) -> int:
    """Make version 0 the champion; return the champion before. There is no challenger until the next training run."""
    trained = select(Model.version, Model.lineage).where(Model.collection_id == collection_id, Model.version > 0)
    for version, lineage in connection.execute(trained).all():
        if "encoder" not in lineage:
            mine = {"collection_id": collection_id, "version": version}
            update_row(connection, "models", mine, {"lineage": lineage | {"encoder": fingerprint}})
    champion = champion_version(connection, collection_id)
    connection.execute(delete(Alias).where(Alias.collection_id == collection_id, Alias.name == "challenger"))
    if champion:
        point_alias(connection, collection_id, "champion", 0)
        reason = f"the collection was encoded again with {encoder}"
        insert_alias_change(connection, collection_id, "champion", champion, 0, reason, False)
    return champion
