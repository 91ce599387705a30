"""SQL of health checks, housekeeping and idempotent answers. The caller commits."""

from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select

from service.storage.checksums import readable, texts_as_stored
from service.storage.database import now
from service.storage.tables import COLLECTIONS, DOCUMENTS, MODELS
from service.storage.tables_of_administration import IDEMPOTENT_ANSWERS


def document_count(connection: Connection, collection_id: int) -> int:
    """Return the number of searchable documents of a collection."""
    wanted = select(func.count()).select_from(DOCUMENTS).where(DOCUMENTS.c.collection_id == collection_id)
    return int(connection.execute(wanted).scalar_one())


def collection_names(connection: Connection) -> dict[int, str]:
    """Return number -> name of every collection; bytes that are no UTF-8 become question marks."""
    with texts_as_stored(connection):
        found = connection.execute(select(COLLECTIONS.c.id, COLLECTIONS.c.name)).all()
    return {number: readable(name) for number, name in found}


def model_versions(connection: Connection, collection_id: int) -> list[int]:
    """Return the versions of a collection's models."""
    return list(connection.execute(select(MODELS.c.version).where(MODELS.c.collection_id == collection_id)).scalars())


def find_answer(connection: Connection, key: str, since: str) -> Row[Any] | None:
    """Return the answer that was stored for an Idempotency-Key at `since` or later, or None."""
    wanted = select(IDEMPOTENT_ANSWERS)
    fresh = (IDEMPOTENT_ANSWERS.c.key == key, IDEMPOTENT_ANSWERS.c.created_at >= since)
    return connection.execute(wanted.where(*fresh)).one_or_none()


def replace_answer(connection: Connection, key: str, values: dict[str, Any]) -> None:
    """Store the answer of an Idempotency-Key in place of its previous answer."""
    connection.execute(delete(IDEMPOTENT_ANSWERS).where(IDEMPOTENT_ANSWERS.c.key == key))
    connection.execute(insert(IDEMPOTENT_ANSWERS).values(key=key, created_at=now(), **values))


def delete_answers(connection: Connection, before: str) -> None:
    """Delete the answers that were stored before a time."""
    connection.execute(delete(IDEMPOTENT_ANSWERS).where(IDEMPOTENT_ANSWERS.c.created_at < before))
