"""Background threads lower their own priority and no other."""

import os
import sys
import threading

import pytest

from index.storage.priority import MOST_NICENESS, NICENESS, lower_priority

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own")


def niceness_after(calls: int) -> int:
    """Return the niceness of a new thread after this many calls of `lower_priority`."""
    found: list[int] = []

    def work() -> None:
        for _ in range(calls):
            lower_priority()
        found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return found[0]


def test_a_thread_lowers_its_own_priority_and_no_other() -> None:
    before = niceness_after(0)
    assert niceness_after(1) == min(MOST_NICENESS, before + NICENESS)
    assert niceness_after(0) == before


def test_a_low_priority_is_never_raised() -> None:
    assert niceness_after(2) >= niceness_after(1)
    assert niceness_after(4) == MOST_NICENESS
