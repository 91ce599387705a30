"""Notes collections whose accepted documents a lost database or a full disk kept from being made searchable.

Housekeeping starts their indexing again. Other errors repeat with the same documents: those wait for the next start.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from index.storage.full_disk import is_full
from service.runtime.collection import CollectionState
from service.storage.database import DatabaseUnreachable


@contextmanager
def noting_interruption(state: CollectionState) -> Iterator[None]:
    """Note the collection if the work of the context breaks off for want of the database or of space."""
    try:
        yield
    except Exception as error:
        if isinstance(error, DatabaseUnreachable) or is_full(error):
            state.is_interrupted = True
        raise
