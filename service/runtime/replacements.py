"""Which pending document of a collection replaced which older pending documents with the same id, by sequence number.

The older ones were acknowledged too: the cancellation of the newest must not lose the document, and a request that
waits for an older one waits for the newest. Only the process that accepted them knows: a restart ends their tasks.
"""

import threading
from collections.abc import Collection, Iterable, Mapping

MOST_OLDER = 100
"""Older versions of a document that are known: the first and the latest. A client may post a document again and again
while it cannot be made searchable."""


class Replacements:
    """The replacements of pending documents that are not searchable yet."""

    def __init__(self) -> None:
        self._newest: dict[int, int] = {}
        self._older: dict[int, tuple[int, ...]] = {}
        self._canceled: set[int] = set()
        self._lock = threading.Lock()

    def note(self, newer: Mapping[int, int]) -> None:
        """Add replacements. newer: sequence number of a replaced document -> sequence number of the newer document."""
        with self._lock:
            for before, newest in newer.items():
                older = (*self._older.pop(before, ()), before)
                self._replace(older, newest)

    def undo(self, newer: Mapping[int, int]) -> None:
        """Remove replacements whose transaction was rolled back."""
        with self._lock:
            for before, newest in newer.items():
                older = tuple(one for one in self._older.pop(newest, ()) if one != before)
                self._newest.pop(before, None)
                if older:
                    self._replace(older, before)

    def newest(self, sequences: Iterable[int]) -> set[int]:
        """Return the sequence numbers of the newest versions of accepted documents."""
        with self._lock:
            return {self._newest.get(sequence, sequence) for sequence in sequences}

    def of_others(self, sequences: Collection[int]) -> set[int]:
        """Return the sequence numbers among these whose document has an older version that another request keeps."""
        own = set(sequences)
        with self._lock:
            given_up = own | self._canceled
            return {sequence for sequence in own if not given_up.issuperset(self._older.get(sequence, ()))}

    def cancel(self, sequences: Iterable[int]) -> None:
        """Note documents whose request is asked to stop. It withdraws them later, maybe after a newer request."""
        with self._lock:
            self._canceled.update(sequences)

    def forget(self, sequences: Iterable[int]) -> None:
        """Forget the replacements by documents that are not pending any more."""
        with self._lock:
            for sequence in sequences:
                self._canceled.discard(sequence)
                for older in self._older.pop(sequence, ()):
                    del self._newest[older]

    def withdraw(self, sequences: Iterable[int]) -> None:
        """Forget documents whose request was canceled: what replaced them does not stand for them any more."""
        sequences = list(sequences)
        self.forget(sequences)
        with self._lock:
            for sequence in sequences:
                newest = self._newest.pop(sequence, None)
                if newest is not None:
                    self._older[newest] = tuple(older for older in self._older[newest] if older != sequence)

    def _replace(self, older: tuple[int, ...], newest: int) -> None:
        """Keep what the newest version replaced, without versions between the first and the latest."""
        kept = older if len(older) <= MOST_OLDER else (older[0], *older[1 - MOST_OLDER :])
        for sequence in set(older) - set(kept):
            self._newest.pop(sequence, None)
        self._older[newest] = kept
        self._newest |= dict.fromkeys(kept, newest)
