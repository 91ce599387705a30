"""Lowers the priority of background threads. On Linux each thread has a priority, which child threads inherit."""

import os
import sys
import threading

NICENESS = 10
"""Added to the niceness of the thread."""
MOST_NICENESS = 19


def lower_priority() -> None:
    """Lower the priority of the calling thread and of the threads that it starts; does nothing outside Linux.

    The niceness never decreases: only a privileged process may raise its priority.
    """
    if sys.platform == "linux":  # elsewhere this call would change the priority of the whole process
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, min(MOST_NICENESS, os.getpriority(os.PRIO_PROCESS, thread) + NICENESS))
