"""Encodes a collection again with the encoder of the runtime, beside the old keys, and switches in one transaction.

No other thread uses the collection meanwhile: the command line runs this in a process that owns the data directory and
serves no requests.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import Row

from index.encoding.documents import encode_documents
from index.errors import SearchError
from index.records import Document, Floats
from service.documents.cluster_encoding import BLOCK, BULK, ClusterFailed, encoded_on_cluster
from service.documents.repository import (
    damaged_rows,
    documents_after,
    documents_of_rows,
    insert_documents,
    insert_vectors,
    mark_damaged,
    record_of,
)
from service.operations import reencoding_repository as repository
from service.operations.encoded_blocks import EncodedBlocks, delete_encoded_blocks
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import collection_row
from service.runtime.runtime import Runtime

CHUNK = BLOCK
"""Documents that are encoded and committed together, here or by a cluster."""
log = structlog.get_logger()


class TrainingUnfinished(SearchError):
    """A training run of the collection has not ended: it would make a model of the old vectors."""


@dataclass(frozen=True)
class Reencoded:
    """What was encoded and deleted, and the version that was the champion before; 0 is the untrained model."""

    documents: int
    queries: int
    champion_before: int
    anonymous_queries_deleted: int
    """Past queries of anonymous memory: their texts are not stored."""


def reencode(
    runtime: Runtime, state: CollectionState, advance: Callable[[int, int], None] = lambda done, total: None
) -> Reencoded | None:
    """Encode documents and past queries again; return None if the collection has this encoder already.

    Calls advance(done, total) with numbers of documents. A document that differs from its checksum is encoded too, and
    stays known as damaged. Documents that wait to be encoded stay pending. Raises
    TrainingUnfinished.
    """
    if state.fingerprint == runtime.encoder.fingerprint:
        return None
    with runtime.database.write() as connection:
        if repository.is_training(connection, state.id):
            raise TrainingUnfinished(f"a training run of {state.name!r} has not ended; cancel it first")
        before = collection_row(connection, state.id)
        total = repository.document_count(connection, state.id)
        encoder = runtime.encoder
        beside = repository.insert_beside(
            connection, before, runtime.settings.encoder, encoder.fingerprint, encoder.dim
        )
    _encode_documents(runtime, state, beside, lambda done: advance(done, total))
    with runtime.database.read() as connection:
        memory = repository.memory_texts(connection, state.id)
        rules = repository.rule_texts(connection, state.id)
    vectors = _query_vectors(runtime, sorted(set(memory.values())))
    rule_vectors = _query_vectors(runtime, sorted(set(rules.values())))
    with state.lock:
        with runtime.database.write() as connection:
            near = {id: rule_vectors[text] for id, text in rules.items()}
            repository.set_rule_vectors(connection, state.id, near)
            champion, anonymous = repository.switch(connection, before, beside, memory, vectors)
        _reload(runtime, state)
    delete_encoded_blocks(runtime.settings.data)
    return Reencoded(total, len(vectors), champion, anonymous)


def reencode_empty(runtime: Runtime) -> list[str]:
    """Give the encoder of the runtime to all collections that have nothing to encode; return their names."""
    names = []
    for state in list(runtime.collections.values()):
        with runtime.database.read() as connection:
            is_empty = repository.is_empty(connection, state.id)
        if is_empty and reencode(runtime, state) is not None:
            names.append(state.name)
    return sorted(names)


def _encode_documents(runtime: Runtime, state: CollectionState, beside: int, advance: Callable[[int], None]) -> None:
    """Write every document with its new vectors to the collection beside, in the order of arrival."""
    encoder, kinds = runtime.encoder, state.settings.kinds
    blocks = EncodedBlocks(runtime.settings.data, encoder, kinds)
    if runtime.settings.ray_encoders:
        _encode_on_cluster(runtime, state, blocks, advance)
    done = 0
    for found, records in _stored(runtime, state):
        encoded = blocks.read(records)
        if encoded is None:
            encoded = encode_documents(encoder, records, kinds)
            blocks.write(records, encoded)
        with runtime.database.write() as connection:
            rows = insert_documents(connection, beside, records, {one.id: one.created_at for one in found})
            insert_vectors(connection, beside, rows, encoded)
            if damaged := damaged_rows(found):
                mark_damaged(connection, [rows[at] for at in damaged])
        done += len(found)
        advance(done)


def _encode_on_cluster(
    runtime: Runtime, state: CollectionState, blocks: EncodedBlocks, advance: Callable[[int], None]
) -> None:
    """Have the Ray cluster make the vectors that no file has, if they are many. What it does not make is left."""
    wanted = [[one.row for one in found] for found, records in _stored(runtime, state) if not blocks.has(records)]
    rows, done = [row for block in wanted for row in block], 0
    if len(rows) < BULK:
        return
    fingerprint = runtime.encoder.fingerprint
    made = encoded_on_cluster(runtime.settings, fingerprint, state.settings.kinds, rows, "documents", lambda: None)
    try:
        with closing(made):
            for block, vectors in made:
                with runtime.database.read() as connection:
                    records = [record_of(one) for one in documents_of_rows(connection, block)]
                blocks.write(records, [vectors[row] for row in block])
                done += len(block)
                advance(done)
    except ClusterFailed as error:
        log.warning("encoded_by_the_service", documents=len(rows) - done, reason=str(error))


def _stored(runtime: Runtime, state: CollectionState) -> Iterator[tuple[Sequence[Row[Any]], list[Document]]]:
    """Yield the rows of all documents, CHUNK at a time in their order, and the documents."""
    row = 0
    while True:
        with runtime.database.read() as connection:
            found = documents_after(connection, state.id, row, CHUNK)
        if not found:
            return
        yield found, [record_of(one) for one in found]
        row = found[-1].row


def _query_vectors(runtime: Runtime, texts: list[str]) -> dict[str, Floats]:
    """Return text -> vector."""
    vectors: dict[str, Floats] = {}
    for start in range(0, len(texts), CHUNK):
        part = texts[start : start + CHUNK]
        vectors |= dict(zip(part, runtime.encoder.encode_queries(part), strict=True))
    return vectors


def _reload(runtime: Runtime, state: CollectionState) -> None:
    """Replace the state of the collection by a state with the new rows; its index is built again."""
    state.store.close()
    shutil.rmtree(state.directory, ignore_errors=True)
    with runtime.database.read() as connection:
        row: Any = collection_row(connection, state.id)
    runtime.open_collection(row)
