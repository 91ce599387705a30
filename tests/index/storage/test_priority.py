"""The priority of threads that work behind searches: lower than it was, whatever it was, and the thread's own."""

import os
import sys
import threading

import pytest

from index.storage.priority import MOST, NICENESS, lower_priority

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own")


def niceness_after(calls: int) -> int:
    """Return the niceness of a new thread that lowered its priority so many times."""
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
    assert niceness_after(1) == min(MOST, before + NICENESS)
    assert niceness_after(0) == before


def test_what_is_low_already_is_never_raised() -> None:
    assert niceness_after(2) >= niceness_after(1)
    assert niceness_after(4) == MOST
