"""Compares the stored documents of a collection with its index: both were written from the same texts and vectors.

A byte that flips in the database differs from the index, and the index has checksums. An index that was rebuilt after
the flip agrees with it, so the comparison finds damage from the time since the index was last built from the database.
"""

import numpy as np
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from index.generation.generation import Generation, IndexedDocument
from index.records import Floats
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import PART_SIZE, document_rows, indexed_documents


def differing_documents(connection: Connection, state: CollectionState) -> list[str]:
    """Return the ids of the stored documents whose words or vectors differ from the index. Raises DamagedKeys.

    A document that cannot be read any more is named by its row.
    """
    rows = document_rows(connection, state.id)
    parts = (rows[start : start + PART_SIZE] for start in range(0, len(rows), PART_SIZE))
    return [id for part in parts for id in _differing(connection, state, part)]


def _differing(connection: Connection, state: CollectionState, rows: list[int]) -> list[str]:
    try:
        documents = indexed_documents(connection, state.id, rows)
    except (SQLAlchemyError, ValueError):  # a text that is no UTF-8, an unknown kind of key, a vector of another length
        if len(rows) == 1:
            return [f"row {rows[0]}"]
        return [id for row in rows for id in _differing(connection, state, [row])]
    return [document.id for document in documents if not _is_indexed_as_stored(state.generation, document)]


def _is_indexed_as_stored(generation: Generation, document: IndexedDocument) -> bool:
    (doc_index,) = generation.doc_indices(np.asarray([document.row], np.int64)).tolist()
    if doc_index < 0:
        return False
    columns, at = generation.columns, np.asarray([doc_index])
    words = columns.tokens[columns.first_token[doc_index] : columns.first_token[doc_index + 1]]
    if not np.array_equal(words, generation.words.number(document.words)):
        return False
    keys = generation.key_vectors(columns.key_positions(at))
    stored = [key.vector for key in document.keys]
    if len(keys) != len(stored) or any(map(_differ, keys, stored)):
        return False
    return document.value is None or not _differ(generation.value_vectors(at)[0], document.value)


def _differ(vector: Floats, stored: Floats) -> bool:
    return vector.tobytes() != stored.tobytes()
