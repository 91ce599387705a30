"""The logged lists of the times in which an application sent events."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

SILENCE = 20
"""Actions that are expected in a run of lists without any, if it is left out: by chance it has none once in e^20."""
LEAST_SILENCE = 1_000
"""Lists of the shortest run that is left out: the first lists tell little of how often an action is."""
MOST_SILENCE = 20_000
"""Lists of the longest run that is kept in memory until it is known whether an action ends it."""
List = TypeVar("List")


def observed(lists: Iterable[List], is_acted: Callable[[List], bool]) -> Iterator[List]:
    """Yield lists in their order, without those of the times from which no action can come.

    Searches are logged from the first day on. But an application sends events later, or fails to for a week, and a
    crawler never clicks. Such lists have no clicks for another reason than their documents and positions, and change
    the rates of both: after a silent beginning the examination curve is flat. Left out are lists before the first
    action, and long runs without any. is_acted: whether there is an action on a list, on a document that exists.
    """
    waiting: list[List] = []
    seen, acted, is_silent = 0, 0, True
    for one in lists:
        if is_acted(one):
            seen, acted, is_silent = seen + len(waiting) + 1, acted + 1, False
            yield from waiting
            yield one
            waiting.clear()
        elif not is_silent:
            waiting.append(one)
            is_silent = len(waiting) > min(MOST_SILENCE, max(LEAST_SILENCE, SILENCE * seen / acted))
            if is_silent:
                waiting.clear()
    yield from waiting
