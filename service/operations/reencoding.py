"""Encodes a collection again with the encoder of the runtime, beside the old keys, and switches in one transaction.

No other thread uses the collection meanwhile: the command line runs this in a process that owns the data directory and
serves no requests.
"""

from collections.abc import Callable
from dataclasses import dataclass

from index.records import Floats
from service.operations import reencoding_repository as repository
from service.operations.encoded_blocks import EncodedBlocks
from service.operations.rows_beside import CHUNK, reload, require_no_training, write_beside
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import collection_row
from service.runtime.runtime import Runtime


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
    TrainingUnfinished and UnreadableRow.
    """
    blocks = EncodedBlocks(runtime.settings.data, state.id, runtime.encoder, state.settings.kinds)
    if state.fingerprint == runtime.encoder.fingerprint:
        blocks.delete()  # those of an attempt that was killed after its switch
        return None
    with runtime.database.write() as connection:
        require_no_training(connection, state)
        before = collection_row(connection, state.id)
        total = repository.document_count(connection, state.id)
        encoder = runtime.encoder
        beside = repository.insert_beside(
            connection, before, runtime.settings.encoder, encoder.fingerprint, encoder.dim
        )
    write_beside(runtime, state, beside, state.settings.kinds, lambda done: advance(done, total))
    with runtime.database.read() as connection:
        memory = repository.memory_texts(connection, state.id)
        rules = repository.rule_texts(connection, state.id)
    vectors = _query_vectors(runtime, sorted(set(memory.values())))
    rule_vectors = _query_vectors(runtime, sorted(set(rules.values())))
    with state.lock:
        with runtime.database.write() as connection:
            near = {id: rule_vectors[text] for id, text in rules.items()}
            repository.set_rule_vectors(connection, state.id, near)
            champion, anonymous = repository.switch_encoder(connection, before, beside, memory, vectors)
        reload(runtime, state)
    blocks.delete()
    return Reencoded(total, len(vectors), champion, anonymous)


def retired_champion(runtime: Runtime, state: CollectionState) -> int:
    """Return the champion before the last switch to another encoder; 0 if none, or if the alias moved since."""
    with runtime.database.read() as connection:
        return repository.retired_champion(connection, state.id)


def reencode_empty(runtime: Runtime) -> list[str]:
    """Give the encoder of the runtime to all collections that have nothing to encode; return their names."""
    names = []
    for state in list(runtime.collections.values()):
        with runtime.database.read() as connection:
            is_empty = repository.is_empty(connection, state.id)
        if is_empty and reencode(runtime, state) is not None:
            names.append(state.name)
    return sorted(names)


def _query_vectors(runtime: Runtime, texts: list[str]) -> dict[str, Floats]:
    """Return text -> vector."""
    vectors: dict[str, Floats] = {}
    for start in range(0, len(texts), CHUNK):
        part = texts[start : start + CHUNK]
        vectors |= dict(zip(part, runtime.encoder.encode_queries(part), strict=True))
    return vectors
