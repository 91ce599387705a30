"""Encodes pending documents and makes them searchable."""

from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from threading import Event
from typing import Any

import structlog
from sqlalchemy import Connection

from index.encoding.documents import EncodedDocument, PassageProgress, encode_documents, words_of
from index.generation.generation import IndexedDocument
from index.memory.confirmation import Confirmation
from index.records import Document as DocumentRecord
from index.storage.full_disk import is_full
from service.documents import repository
from service.documents.acceptance import Accepted, accept, summary
from service.documents.cluster_encoding import BULK, ClusterFailed, encoded_on_cluster
from service.documents.interruptions import noting_interruption
from service.documents.stored_versions_repository import stored_versions
from service.documents.words_first import publish_words, withdrawn_if_canceled
from service.http.answers import TaskType
from service.http.problems import INSUFFICIENT_STORAGE, Problem
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import bump_watermark, confirmations, require_collection
from service.runtime.jobs import Progress, Work
from service.runtime.runtime import Runtime

CHUNK = 128
"""Documents that are encoded, committed and published together. A small chunk is visible to searches soon."""
FIRST = 16
"""Documents of the first chunk, if there are over FEW: they are cut soon, so the encoder has work soon."""
FEW = 64
AHEAD = 2
"""Chunks in progress while another is published: one is cut and tokenised while the other is encoded."""

MOST_NEWER = 10
"""Newer versions of a document that a task makes searchable, one after the other, at most: it ends although a client
posts the document again and again."""

STORED = "the documents are stored; the disk is full, and the service makes them searchable once it has space"
log = structlog.get_logger()
KIND: TaskType = "documents"
"""The type of the task that makes documents searchable."""
Encoded = tuple[DocumentRecord, EncodedDocument]
Chunk = tuple[int, dict[int, Encoded]]
"""A number of sequences, and those of them that were still pending, with document and vectors."""


def start_batch(runtime: Runtime, state: CollectionState, items: Sequence[Any]) -> str:
    """Accept documents, and start the task that makes them searchable; both are durable together. Return its id."""
    tasks: list[str] = []
    accepted = accept(
        runtime, state, items, lambda connection: tasks.append(runtime.jobs.enqueued(connection, KIND, state.name))
    )
    (task_id,) = tasks
    note_cancel = partial(state.replacements.cancel, accepted.sequences)
    runtime.jobs.run(task_id, _work(runtime, state, accepted), note_cancel=note_cancel)
    return task_id


def start_indexing(runtime: Runtime, state: CollectionState, accepted: Accepted) -> str:
    """Start the task that makes accepted documents searchable; return its id."""
    note_cancel = partial(state.replacements.cancel, accepted.sequences)
    return runtime.jobs.start(KIND, state.name, _work(runtime, state, accepted), note_cancel)


def _work(runtime: Runtime, state: CollectionState, accepted: Accepted) -> Work:
    """Return the work that makes accepted documents searchable, many of them by words first."""

    def work(progress: Progress) -> dict[str, Any]:
        progress.expect(len(accepted.sequences))
        words_first = partial(publish_words, runtime, state, accepted.sequences, progress)
        with withdrawn_if_canceled(runtime, state, accepted.sequences):
            progress.check()  # a task that was canceled while it waited publishes nothing
            make_searchable(runtime, state, accepted.sequences, progress.advance, progress, words_first)
        return summary(accepted) | {"items": accepted.items} | progress.passage_counts

    return work


def resume_pending(runtime: Runtime) -> None:
    """Start indexing the documents that an earlier process accepted and did not make searchable."""
    for state in runtime.collections.values():
        resume_collection(runtime, state)


def resume_interrupted(runtime: Runtime) -> None:
    """Start indexing the documents that a lost database or a full disk kept from it.

    Raises the error that keeps them from it still: the next call tries again.
    """
    for state in list(runtime.collections.values()):
        if state.is_interrupted:
            state.is_interrupted = False  # before the start: the task may be interrupted at once
            try:
                resume_collection(runtime, state)
            except BaseException:
                state.is_interrupted = True
                raise


def resume_collection(runtime: Runtime, state: CollectionState) -> None:
    """Start indexing the accepted documents of a collection that no task indexes."""
    with runtime.database.read() as connection:
        sequences = repository.pending_sequences(connection, state.id)
    if sequences:
        start_indexing(runtime, state, Accepted(sequences, []))


def make_searchable(
    runtime: Runtime,
    state: CollectionState,
    sequences: Sequence[int],
    advance: Callable[[int], None] = lambda _: None,
    passages: PassageProgress | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Encode pending documents and publish them in chunks. Calls advance(count) after each chunk.

    Where a newer version replaced one of a few documents in the meantime, that version is made searchable too. Where
    there are many, the task that accepted the newer version makes it searchable.
    meanwhile: called once, while the first documents are encoded. Raises EncoderMismatch before any document is encoded
    and before this call, and Problem 507 where the disk is full: the documents stay pending, and housekeeping tries
    again.
    """
    try:
        with noting_interruption(state):
            replaced = _make_searchable(runtime, state, sequences, advance, passages, meanwhile)
            for _ in range(MOST_NEWER if len(sequences) <= FEW else 0):
                if not (sequences := _newer(runtime, state, sequences, replaced)):
                    break
                replaced = _make_searchable(runtime, state, sequences, lambda _: advance(0), None, _nothing)
    except Exception as error:
        if is_full(error):
            raise Problem(507, INSUFFICIENT_STORAGE, STORED) from error
        raise


def _make_searchable(
    runtime: Runtime,
    state: CollectionState,
    sequences: Sequence[int],
    advance: Callable[[int], None],
    passages: PassageProgress | None,
    meanwhile: Callable[[], None],
) -> list[str]:
    """Return the ids of the documents that were deleted or replaced while they were encoded.

    Documents whose texts have stored vectors come first, so that they wait for no encoder.
    """
    state.require_encoder(runtime.encoder)
    with runtime.database.read() as connection:
        known = set(repository.pending_with_stored_texts(connection, state.id, sequences))
    sequences = sorted(sequences, key=lambda sequence: sequence not in known)
    done = 0
    left_out: list[str] = []

    def publish(chunks: Generator[Chunk]) -> None:
        nonlocal done
        with closing(chunks):
            for count, encoded in chunks:
                with state.lock:
                    left_out.extend(_publish(runtime, state, encoded))
                done += count
                advance(count)

    publish(_encoded_here(runtime, state, passages, sequences[: len(known)], _nothing))
    if runtime.settings.ray_encoders and len(sequences) - done >= BULK:
        meanwhile()
        try:
            publish(_encoded_on_cluster(runtime, state, passages, sequences[done:], lambda: advance(0)))
        except ClusterFailed as error:
            log.warning("encoded_by_the_service", documents=len(sequences) - done, reason=str(error))
        meanwhile = _nothing
    publish(_encoded_here(runtime, state, passages, sequences[done:], meanwhile))
    state.replacements.forget(sequences)
    return left_out


def _newer(runtime: Runtime, state: CollectionState, sequences: Sequence[int], ids: Sequence[str]) -> list[int]:
    """Return the pending documents that replaced some of these. ids: of those that were replaced or deleted.

    The last come first: the task that accepted them may encode them now, beginning with the first.
    """
    newest = state.replacements.newest(sequences) - set(sequences)
    if not newest and not ids:
        return []
    with runtime.database.read() as connection:
        found = {*repository.still_pending(connection, list(newest))}
        found |= {*repository.pending_among(connection, state.id, ids).values()}
    return sorted(found, reverse=True)


def _nothing() -> None:
    """Do nothing."""


def _encoded_here(
    runtime: Runtime,
    state: CollectionState,
    passages: PassageProgress | None,
    sequences: Sequence[int],
    meanwhile: Callable[[], None],
) -> Generator[Chunk]:
    """Yield the number of documents of each chunk, and its vectors, made by the encoder of the service."""
    chunks = _chunks(sequences)
    turns: list[_Turn] = []
    for _ in chunks:
        turns.append(_Turn(passages, turns[-1].ended if turns else None))
    encode = partial(_encoded, runtime, state)
    with ThreadPoolExecutor(AHEAD, "encode-ahead") as ahead:
        coming = deque(map(partial(ahead.submit, encode), turns[:AHEAD], chunks[:AHEAD]))
        meanwhile()
        for at, chunk in enumerate(chunks):
            encoded = coming.popleft().result()
            following = slice(at + AHEAD, at + AHEAD + 1)
            coming.extend(map(partial(ahead.submit, encode), turns[following], chunks[following]))
            yield len(chunk), encoded


def _chunks(sequences: Sequence[int]) -> list[Sequence[int]]:
    """Return the sequences in chunks: FIRST of them if there are over FEW, then CHUNK at a time."""
    first = FIRST if len(sequences) > FEW else CHUNK
    bounds = [0, *range(first, len(sequences), CHUNK), len(sequences)]
    return [sequences[start:end] for start, end in pairwise(bounds) if start < end]


class _Turn:
    """The progress of a chunk. The chunk waits after its first batch until the chunk before it is encoded.

    So chunks end one after the other, and each is published while the next is encoded. Without the wait they take
    turns at the encoder and end together.
    """

    def __init__(self, progress: PassageProgress | None, before: Event | None) -> None:
        self._progress, self._before = progress, before
        self.ended = Event()

    def plan_passages(self, documents: int, passages: int, kept: int = 0) -> None:
        if self._progress is not None:
            self._progress.plan_passages(documents, passages, kept)

    def advance_passages(self, count: int) -> None:
        if self._progress is not None:
            self._progress.advance_passages(count)
        if self._before is not None:
            self._before.wait()


def _encoded_on_cluster(
    runtime: Runtime,
    state: CollectionState,
    passages: PassageProgress | None,
    sequences: Sequence[int],
    check: Callable[[], None],
) -> Generator[Chunk]:
    """Yield the same, made on the Ray cluster. Raises ClusterFailed."""
    kinds, table = state.settings.kinds, "pending_documents"
    made = encoded_on_cluster(runtime.settings, state.fingerprint, kinds, sequences, table, check)
    with closing(made) as blocks:
        for block, vectors in blocks:
            records = _records(runtime, list(vectors))
            if passages is not None:
                count = sum(len(one.keys) for one in vectors.values())
                passages.plan_passages(len(block), count)
                passages.advance_passages(count)
            yield len(block), {sequence: (record, vectors[sequence]) for sequence, record in records.items()}


def _encoded(runtime: Runtime, state: CollectionState, turn: _Turn, sequences: Sequence[int]) -> dict[int, Encoded]:
    """Return sequence -> document and vectors, for the documents that are still pending."""
    try:
        records = _records(runtime, sequences)
        with runtime.database.read() as connection:
            stored = stored_versions(connection, state.id, [record.id for record in records.values()])
        encoded = encode_documents(runtime.encoder, list(records.values()), state.settings.kinds, turn, stored)
    finally:
        turn.ended.set()
    return dict(zip(records, zip(records.values(), encoded, strict=True), strict=True))


def _records(runtime: Runtime, sequences: Sequence[int]) -> dict[int, DocumentRecord]:
    """Return sequence -> document, for the documents that are still pending."""
    with runtime.database.read() as connection:
        pending = repository.pending_documents(connection, sequences)
    return {row.sequence: DocumentRecord(id=row.id, **row.body) for row in pending}


def _publish(runtime: Runtime, state: CollectionState, encoded: Mapping[int, Encoded]) -> list[str]:
    """Move documents from pending to searchable: one transaction, then one generation.

    A document that was deleted or posted again during encoding is no longer pending, and is left out. Returns the ids
    of these. Raises Problem 404 if the collection was deleted.
    """
    with runtime.database.write() as connection:
        require_collection(connection, state.id)
        taken = repository.take_pending(connection, list(encoded))
        change = write_documents(connection, state, [encoded[sequence] for sequence in taken]) if taken else None
    if change is not None:
        change.publish(state)
    return [encoded[sequence][0].id for sequence in encoded.keys() - set(taken)]


@dataclass(frozen=True)
class Change:
    """Written documents, to publish after the commit: their new rows, the replaced rows, and the memory that moved."""

    watermark: int
    added: list[IndexedDocument]
    removed: list[int]
    moved: list[Confirmation]

    def publish(self, state: CollectionState) -> None:
        """Make the documents searchable. The caller holds the lock of the collection."""
        state.publish(self.watermark, self.added, self.removed, self.moved)


def write_documents(connection: Connection, state: CollectionState, documents: Sequence[Encoded]) -> Change:
    """Write documents with their vectors in place of the documents with the same ids; their memory stays.

    The caller holds the lock of the collection, commits, and publishes the change.
    """
    added, removed = _write_rows(connection, state, documents)
    watermark = bump_watermark(connection, state.id, documents=True)
    moved = confirmations(connection, state.id, rows=[document.row for document in added]) if removed else []
    return Change(watermark, added, removed, moved)


def _write_rows(
    connection: Connection, state: CollectionState, documents: Sequence[Encoded]
) -> tuple[list[IndexedDocument], list[int]]:
    """Write documents with their vectors; return them for the index, and the rows of the documents they replace."""
    records = [record for record, _ in documents]
    before = repository.places(connection, state.id, [record.id for record in records])
    replaced, created = {one.id: one.row for one in before}, {one.id: one.created_at for one in before}
    repository.delete_replaced(connection, list(replaced.values()))
    rows = repository.insert_documents(connection, state.id, records, created)
    moved = {replaced[record.id]: row for record, row in zip(records, rows, strict=True) if record.id in replaced}
    repository.move_memory(connection, moved)
    repository.insert_vectors(connection, state.id, rows, [vectors for _, vectors in documents])
    added = [
        IndexedDocument(
            row, words_of(record), vectors.keys, vectors.value, record.title or "", record.id, record.metadata
        )
        for row, (record, vectors) in zip(rows, documents, strict=True)
    ]
    return added, list(replaced.values())
