"""Makes documents searchable by words while their vectors are still being made.

A document without vectors is searchable and still pending: it has a row of `documents` and a row of
`pending_documents`. Its vectors replace it by a new row, as a newer version of the document would.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from index.encoding.documents import words_of
from index.errors import Canceled
from index.generation.generation import IndexedDocument
from index.records import Document as DocumentRecord
from service.documents import repository
from service.documents.interruptions import noting_interruption
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import bump_watermark
from service.runtime.jobs import Progress
from service.runtime.runtime import Runtime

CHUNK = 1000
"""Documents that are committed and published together."""
MANY = 128
"""Fewer documents, if they are short, are encoded in about a second; they are published with their vectors alone."""
LONG_CHARACTERS = 100_000
"""Documents with more characters together take longer than a second to encode."""


def publish_words(runtime: Runtime, state: CollectionState, sequences: Sequence[int], progress: Progress) -> None:
    """Publish pending documents that no searchable document has the id of, without vectors, if there are many.

    A pending document that changes a searchable one waits for its vectors: the searchable one keeps its own until then.
    Raises Canceled.
    """
    with runtime.database.read() as connection:
        if len(sequences) <= MANY and repository.pending_characters(connection, sequences) <= LONG_CHARACTERS:
            return
    for start in range(0, len(sequences), CHUNK):
        progress.check()
        with state.lock:
            _publish(runtime, state, sequences[start : start + CHUNK])


def _publish(runtime: Runtime, state: CollectionState, sequences: Sequence[int]) -> None:
    with runtime.database.write() as connection:
        new = repository.new_pending_documents(connection, state.id, sequences)
        if not new:
            return
        records = [DocumentRecord(id=row.id, **row.body) for row in new]
        rows = repository.insert_documents(connection, state.id, records, {})
        watermark = bump_watermark(connection, state.id, documents=True)
    added = [
        IndexedDocument(row, words_of(record), (), title=record.title or "", id=record.id, metadata=record.metadata)
        for row, record in zip(rows, records, strict=True)
    ]
    state.publish(watermark, added, [])


@contextmanager
def withdrawn_if_canceled(runtime: Runtime, state: CollectionState, sequences: Sequence[int]) -> Iterator[None]:
    """Withdraw the documents that are still pending if the work is canceled.

    A document of which another request had stored an older version is made searchable instead: that version was
    acknowledged, and its text is replaced. If the service is closing, all stay pending for the next start. They also
    stay pending if the work is interrupted, which is noted.
    """
    try:
        with noting_interruption(state):
            yield
    except Canceled:
        if not runtime.closing:
            state.replacements.cancel(sequences)  # also what was accepted after the request to stop
            kept = state.replacements.of_others(sequences)
            _withdraw(runtime, state, [sequence for sequence in sequences if sequence not in kept])
            _finish(runtime, state, sorted(kept))
        raise


def _finish(runtime: Runtime, state: CollectionState, sequences: Sequence[int]) -> None:
    """Make documents searchable, unless the service closes: then the next start does it."""
    from service.documents.indexing import make_searchable  # imported here, because it imports this module

    def stop_at_the_end(_: int) -> None:
        if runtime.closing:
            raise Canceled("the service closes")

    if sequences:
        make_searchable(runtime, state, sequences, stop_at_the_end)


def _withdraw(runtime: Runtime, state: CollectionState, sequences: Sequence[int]) -> None:
    """Delete documents that are still pending, and those of them that are searchable without vectors."""
    with state.lock:
        with runtime.database.write() as connection:
            ids = repository.ids_without_vectors(connection, state.id, sequences)
            rows, memory, _ = repository.delete_documents(connection, state.id, ids)
            repository.delete_pending(connection, sequences)
            watermark = bump_watermark(connection, state.id, documents=True)
        state.replacements.withdraw(sequences)
        state.publish(watermark, [], rows, [], memory)
