"""Makes the rows of a collection with other keys beside the old rows, for a switch in one transaction.

No other thread uses the collection meanwhile: the command line runs this in a process that owns the data directory and
serves no requests.
"""

import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from typing import Any

import structlog
from sqlalchemy import Connection, Row

from index.encoding.documents import Version, encode_documents
from index.errors import SearchError
from index.records import Document, KeyKind
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
from service.documents.stored_versions_repository import stored_versions
from service.operations import reencoding_repository as repository
from service.operations.encoded_blocks import EncodedBlocks
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import collection_row
from service.runtime.runtime import Runtime
from service.storage.unreadable_rows import UnreadableRow, reading

CHUNK = BLOCK
"""Documents that are encoded and committed together, here or by a cluster."""
log = structlog.get_logger()
Advance = Callable[[int], None]
"""Called with the number of documents that are done."""


class TrainingUnfinished(SearchError):
    """A training run of the collection has not ended: it would make a model of the old vectors."""


def require_no_training(connection: Connection, state: CollectionState) -> None:
    """Raise TrainingUnfinished if a training run of the collection has not ended."""
    if repository.is_training(connection, state.id):
        raise TrainingUnfinished(f"a training run of {state.name!r} has not ended; cancel it first")


def write_beside(
    runtime: Runtime, state: CollectionState, beside: int, kinds: Collection[KeyKind], advance: Advance
) -> None:
    """Write every document with keys of these kinds to the collection beside, in the order of arrival.

    A text with a stored vector of the same encoder keeps it, and what is new then is encoded here, not on a cluster. A
    document that differs from its checksum is encoded too, and stays known as damaged. Raises UnreadableRow.
    """
    encoder, keeps = runtime.encoder, state.fingerprint == runtime.encoder.fingerprint
    blocks = EncodedBlocks(runtime.settings.data, state.id, encoder, kinds)
    if runtime.settings.ray_encoders and not keeps:
        _encode_on_cluster(runtime, state, blocks, kinds, advance)
    done = 0
    for found, records in _stored(runtime, state):
        encoded = blocks.read(records)
        if encoded is None:
            kept = _kept(runtime, state, records) if keeps else {}
            encoded = encode_documents(encoder, records, kinds, stored=kept)
            blocks.write(records, encoded)
        with runtime.database.write() as connection:
            rows = insert_documents(connection, beside, records, {one.id: one.created_at for one in found})
            insert_vectors(connection, beside, rows, encoded)
            if damaged := damaged_rows(found):
                mark_damaged(connection, [rows[at] for at in damaged])
        done += len(found)
        advance(done)


def _encode_on_cluster(
    runtime: Runtime, state: CollectionState, blocks: EncodedBlocks, kinds: Collection[KeyKind], advance: Advance
) -> None:
    """Have the Ray cluster make the vectors that no file has, if they are many. What it does not make is left."""
    wanted = [[one.row for one in found] for found, records in _stored(runtime, state) if not blocks.has(records)]
    rows, done = [row for block in wanted for row in block], 0
    if len(rows) < BULK:
        return
    fingerprint = runtime.encoder.fingerprint
    made = encoded_on_cluster(runtime.settings, fingerprint, kinds, rows, "documents", lambda: None)
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


def require_readable(runtime: Runtime, state: CollectionState) -> None:
    """Raise UnreadableRow if a document cannot be read: an index of the documents could not be built then."""
    for _ in _stored(runtime, state):
        pass


def _stored(runtime: Runtime, state: CollectionState) -> Iterator[tuple[Sequence[Row[Any]], list[Document]]]:
    """Yield the rows of all documents, CHUNK at a time in their order, and the documents. Raises UnreadableRow."""
    row = 0
    while True:
        with runtime.database.read() as connection, reading("documents"):
            found = documents_after(connection, state.id, row, CHUNK)
        if not found:
            return
        if not all(isinstance(text, str) for one in found for text in (one.title or "", one.text)):
            raise UnreadableRow("documents")
        yield found, [record_of(one) for one in found]
        row = found[-1].row


def _kept(runtime: Runtime, state: CollectionState, records: Sequence[Document]) -> dict[str, Version]:
    """Return id -> document with its stored vectors, of the documents that are sound."""
    with runtime.database.read() as connection:
        return stored_versions(connection, state.id, [record.id for record in records])


def reload(runtime: Runtime, state: CollectionState) -> None:
    """Replace the state of the collection by a state with the new rows; its index is built again."""
    state.store.close()
    shutil.rmtree(state.directory, ignore_errors=True)
    with runtime.database.read() as connection:
        row: Any = collection_row(connection, state.id)
    state.mark(row["watermark"])  # changes that are missing stay missing
    runtime.open_collection(row, has_index=False)
