"""Which pending document of a collection replaced which older pending document with the same id, by sequence number.

The older one was acknowledged too: the cancellation of the newer one must not lose the document, and a request that
waits for the older one waits for the newer one. Only the process that accepted them knows: a restart ends their tasks.
"""

import threading
from collections.abc import Collection, Iterable, Mapping


class Replacements:
    """The replacements of pending documents that are not searchable yet."""

    def __init__(self) -> None:
        self._newer: dict[int, int] = {}
        self._older: dict[int, int] = {}
        self._lock = threading.Lock()

    def note(self, newer: Mapping[int, int]) -> None:
        """Add replacements: sequence number of the older document -> that of the newer one."""
        with self._lock:
            for older, newest in newer.items():
                self._newer[older], self._older[newest] = newest, older

    def undo(self, newer: Mapping[int, int]) -> None:
        """Remove replacements whose transaction was rolled back."""
        with self._lock:
            for older, newest in newer.items():
                self._newer.pop(older, None)
                self._older.pop(newest, None)

    def newest(self, sequences: Iterable[int]) -> set[int]:
        """Return the sequence numbers of the newest versions of accepted documents."""
        with self._lock:
            return {self._last(self._newer, sequence) for sequence in sequences}

    def of_others(self, sequences: Collection[int]) -> set[int]:
        """Return the sequence numbers among these whose document had an older version that is not among them."""
        own = set(sequences)
        with self._lock:
            return {sequence for sequence in own if self._last(self._older, sequence) not in own}

    def forget(self, sequences: Iterable[int]) -> None:
        """Forget the replacements by documents that are not pending any more, unless a newer one replaced these."""
        with self._lock:
            for newest in sequences:
                while newest not in self._newer and newest in self._older:
                    older = self._older.pop(newest)
                    del self._newer[older]
                    newest = older

    @staticmethod
    def _last(following: Mapping[int, int], sequence: int) -> int:
        while sequence in following:
            sequence = following[sequence]
        return sequence
