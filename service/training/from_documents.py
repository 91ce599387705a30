"""Tells whether a run that makes a model from the documents of a collection is due.

Everything is derived from the records of runs and models, so that a restart changes nothing.
"""

from sqlalchemy import Connection

from service.runtime.collection import CollectionState
from service.runtime.model_repository import champion_version
from service.runtime.runtime import Runtime
from service.training import repository

MIN_DOCUMENTS = 200
"""Documents of a collection whose first model of its own is made without a request."""
GROWTH = 2
"""How many times as many documents as at the last run start the next."""


def why_due(runtime: Runtime, state: CollectionState, connection: Connection) -> str | None:
    """Return why a run on the documents starts by itself, as a part of a sentence; None if it is not due.

    Documents that are still on their way are waited for.
    """
    if not state.settings.train_from_documents or state.fingerprint != runtime.encoder.fingerprint:
        return None
    if state.generation.count < MIN_DOCUMENTS or state.without_vectors or not _may_serve(state, connection):
        return None
    if repository.is_processing(connection, state.id):
        return None
    before = repository.documents_at_runs(connection, state.id)
    if state.generation.count < max([MIN_DOCUMENTS, *(GROWTH * count for count in before)]):
        return None  # without counting rows
    documents, pending = repository.document_counts(connection, state.id)
    if pending or documents < max([MIN_DOCUMENTS, *(GROWTH * count for count in before)]):
        return None
    if before:
        return f"the collection has {documents} documents, and had {max(before)} at its last run on documents"
    return f"the collection has {documents} documents and no model of its own"


def _may_serve(state: CollectionState, connection: Connection) -> bool:
    """Return whether a model of the documents may take the place of the champion.

    It may where no labelled model serves: after version 0, and after a model of the documents. An owner who went back
    to version 0 is not overruled.
    """
    champion = champion_version(connection, state.id)
    if champion == 0:
        return not repository.has_moved_champion(connection, state.id)
    return repository.model_kind(connection, state.id, champion) == "documents"
