"""SQL of the searchable versions of documents with their vectors, which a newer version may take."""

from collections.abc import Sequence

from sqlalchemy import Connection, select

from index.encoding.documents import EncodedDocument, Version
from index.records import Document, Key, KeyKind
from service.documents.repository import is_sound, rows_by_id, stored_bodies
from service.storage.checksums import texts_as_stored
from service.storage.tables import KEYS, VALUES
from service.storage.vector_codec import as_vector


def stored_versions(connection: Connection, collection_id: int, ids: Sequence[str]) -> dict[str, Version]:
    """Return id -> searchable document with its own keys and value.

    A document without stored vectors is left out, and so is a document that is damaged or has a damaged vector.
    """
    rows = rows_by_id(connection, collection_id, ids)
    vectors = _stored_vectors(connection, list(rows.values()))
    bodies = stored_bodies(connection, collection_id, [id for id, row in rows.items() if row in vectors])
    return {id: (Document(id, **body), vectors[rows[id]]) for id, body in bodies.items() if body is not None}


def _stored_vectors(connection: Connection, rows: Sequence[int]) -> dict[int, EncodedDocument]:
    """Return row -> own keys and value of the documents that have a value, and no damaged vector."""
    if not rows:
        return {}
    own = select(KEYS).where(KEYS.c.document_row.in_(rows), KEYS.c.kind != KeyKind.QUERY).order_by(KEYS.c.id)
    with texts_as_stored(connection):
        values = connection.execute(select(VALUES).where(VALUES.c.document_row.in_(rows))).mappings().all()
        keys = connection.execute(own).mappings().all()
    damaged = {key["document_row"] for key in keys if not is_sound("keys", key)}
    sound = {
        value["document_row"]: EncodedDocument([], as_vector(value["vector"]))
        for value in values
        if value["document_row"] not in damaged and is_sound("values", value)
    }
    for key in keys:
        if key["document_row"] in sound:
            place = KeyKind(key["kind"]), as_vector(key["vector"]), key["span_start"], key["span_end"]
            sound[key["document_row"]].keys.append(Key(*place))
    return sound
