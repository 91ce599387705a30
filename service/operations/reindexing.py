"""Gives a collection with documents other kinds of keys or another language. Feedback, rules and models stay.

No other thread uses the collection meanwhile: the command line runs this in a process that owns the data directory and
serves no requests.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from index.errors import SearchError
from service.collections.repository import update_settings
from service.operations import reencoding_repository as repository
from service.operations.encoded_blocks import EncodedBlocks
from service.operations.rows_beside import reload, require_no_training, require_readable, write_beside
from service.runtime.collection import CollectionState
from service.runtime.collection_repository import bump_watermark, collection_row
from service.runtime.collection_settings import CollectionSettings
from service.runtime.runtime import Runtime


class OtherEncoder(SearchError):
    """The vectors of the collection are of another encoder than the runtime's."""


@dataclass(frozen=True)
class Reindexed:
    """The number of documents, what is indexed now, and the champion, which stays.

    train_again: whether the champion learned from another index than this.
    """

    documents: int
    language: str
    keys: list[str]
    champion: int
    train_again: bool


def reindex(
    runtime: Runtime,
    state: CollectionState,
    changes: Mapping[str, Any],
    advance: Callable[[int, int], None] = lambda done, total: None,
) -> Reindexed | None:
    """Change `language` and `keys` of a collection; return None if it has them already.

    New keys are encoded, and a text that has a vector keeps it. Other kinds of keys are made beside the old and
    switched in one transaction; a language alone builds the word index anew, which encodes nothing. Calls
    advance(done, total) with numbers of documents. Raises TrainingUnfinished, OtherEncoder and UnreadableRow.
    """
    settings = state.settings.changed(dict(changes))
    has_keys = settings.kinds == state.settings.kinds
    blocks = EncodedBlocks(runtime.settings.data, state.id, runtime.encoder, settings.kinds)
    if has_keys and settings.language == state.settings.language:
        if state.fingerprint == runtime.encoder.fingerprint:  # else they are of a reencoding that can go on
            blocks.delete()  # those of an attempt that was killed after its switch
        return None
    if state.fingerprint != runtime.encoder.fingerprint:
        raise OtherEncoder(
            f"{state.name} has the vectors of another encoder: set SOFTSEEK_ENCODER, or reencode it first"
        )
    with runtime.database.read() as connection:
        require_no_training(connection, state)
        total = repository.document_count(connection, state.id)
    beside = None
    if has_keys:
        require_readable(runtime, state)
    else:
        beside = _written(runtime, state, settings, lambda done: advance(done, total))
    with state.lock:
        with runtime.database.write() as connection:
            if beside is None:
                update_settings(connection, state.id, asdict(settings))
                bump_watermark(connection, state.id, documents=True)
            else:
                before = collection_row(connection, state.id)
                repository.switch_documents(connection, before, beside, {"settings": asdict(settings)})
            noted = repository.note_learned_index(connection, state.id, _index(state.settings), _index(settings))
        reload(runtime, state)
    blocks.delete()
    champion = state.serving.version
    return Reindexed(total, settings.language, settings.keys, champion, champion in noted)


def _index(settings: CollectionSettings) -> dict[str, Any]:
    """Return what decides the index of a collection, as the lineage of models has it."""
    return {"language": settings.language, "keys": sorted(set(settings.keys))}


def _written(
    runtime: Runtime, state: CollectionState, settings: CollectionSettings, advance: Callable[[int], None]
) -> int:
    """Write the documents with the kinds of keys of these settings beside; return the id of that collection."""
    with runtime.database.write() as connection:
        row = collection_row(connection, state.id)
        beside = repository.insert_beside(connection, row, row["encoder"], row["fingerprint"], row["dim"])
    write_beside(runtime, state, beside, settings.kinds, advance)
    return beside
