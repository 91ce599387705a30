"""Threads that work behind searches: the priority is the thread's own, and inherited by what it starts."""

import os
import sys
import threading

NICENESS = 10
"""Added to that of the thread, where threads have one of their own (Linux)."""
MOST = 19


def lower_priority() -> None:
    """Let the calling thread, and the threads that it will start, work where nothing else wants the processor.

    Never asks for a higher priority than there is, which only a privileged process may have.
    """
    if sys.platform == "linux":  # elsewhere this would be the priority of the whole process
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, min(MOST, os.getpriority(os.PRIO_PROCESS, thread) + NICENESS))
