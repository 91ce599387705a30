"""The documents that users acted on in their sessions, in the order of time: the contexts of later searches."""

from bisect import bisect_left
from collections import defaultdict

from index.ranking.context import MOST_DOCUMENTS


class SessionLog:
    """Positive actions by session. Actions are added in the order of their timestamps."""

    def __init__(self) -> None:
        self._actions: dict[str, list[tuple[str, str, int]]] = defaultdict(list)

    def add(self, session_id: str, timestamp: str, query_key: str, row: int, grade: float) -> None:
        """Add an action with a grade. A negative grade takes back the session's actions on the document."""
        actions = self._actions[session_id]
        if grade > 0:
            actions.append((timestamp, query_key, row))
        else:
            actions[:] = [one for one in actions if one[2] != row]

    def documents(self, session_id: str) -> tuple[int, ...]:
        """Return the rows of all documents of a session in the order of its last actions on them, the newest last."""
        newest = dict.fromkeys(row for _, _, row in reversed(self._actions.get(session_id, [])))
        return tuple(reversed(newest))

    def before(self, session_id: str | None, timestamp: str, query_key: str) -> tuple[int, ...]:
        """Return the rows of the documents of a session before a time, the newest MOST_DOCUMENTS, the newest last.

        Actions on lists of the same query are left out: an example must not see its own feedback.
        """
        actions = self._actions.get(session_id or "", [])
        newest: dict[int, None] = {}
        for at in range(bisect_left(actions, (timestamp,)) - 1, -1, -1):
            _, key, row = actions[at]
            if key != query_key:
                newest[row] = None
            if len(newest) == MOST_DOCUMENTS:
                break
        return tuple(reversed(newest))
