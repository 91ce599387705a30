"""The limit on the arenas of glibc's allocator, for this process and its children, and the return of free memory.

By default each thread that starts may take an arena of its own, up to eight for each core. Memory that a thread frees
stays in its arena, also after the end of the thread. The service starts threads all the time: for requests, and for
each commit of the BM25 index. So many arenas grow, and most of their memory is free.
"""

import ctypes
import os
import re
import threading
from contextlib import suppress

ARENAS = 4
"""With two, the threads of searches wait for each other (docs/experiments.md)."""
M_ARENA_MAX = -8
"""The number of the parameter in malloc.h."""
VARIABLE, TUNABLES = "MALLOC_ARENA_MAX", "GLIBC_TUNABLES"
"""The variables by which an operator limits the arenas of a process."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""The numbers of two more parameters: the largest free end that an arena keeps, and the least block with a map of its
own."""
LARGEST_MAPPED = 32 << 20
"""The most that glibc raises M_MMAP_THRESHOLD to by itself. It raises M_TRIM_THRESHOLD to twice as much."""
LEAST_TRIM = 128 << 10
"""M_TRIM_THRESHOLD before glibc raises it. A free of at least half as much looks at the end of its arena."""
THRESHOLDS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")
THRESHOLD_TUNABLES = ("glibc.malloc.trim_threshold", "glibc.malloc.mmap_threshold")
MOST_ARENAS = 64
"""Arenas whose ends are given back, at most, where an operator allows more."""


def limit_arenas() -> bool:
    """Limit the arenas of this process and of the processes that it starts; return whether the limit is set.

    It does nothing where the environment has a limit, or the C library has no such parameter.
    """
    if VARIABLE in os.environ or "glibc.malloc.arena_max" in os.environ.get(TUNABLES, ""):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or not mallopt(M_ARENA_MAX, ARENAS):
        return False
    os.environ[VARIABLE] = str(ARENAS)
    return True


def give_back_free_memory() -> bool:
    """Return the free pages of all arenas to the system; return whether the C library can.

    By itself glibc gives back the free end of an arena alone, and only a large one. The return takes some milliseconds,
    without the interpreter's lock.
    """
    library = ctypes.CDLL(None)
    trim = getattr(library, "malloc_trim", None)
    if trim is None:
        return False
    if not _has_thresholds():
        with suppress(RuntimeError):  # no thread can be started now
            _give_back_ends(library)
    trim(0)
    return True


def _has_thresholds() -> bool:
    """Return whether the environment has a threshold of the allocator, which stays as it is."""
    tunables = os.environ.get(TUNABLES, "")
    return any(name in os.environ for name in THRESHOLDS) or any(name in tunables for name in THRESHOLD_TUNABLES)


def _arenas() -> int:
    """Return the number of arenas whose ends are given back: the limit of the operator, MOST_ARENAS at most."""
    tunable = re.search(r"glibc\.malloc\.arena_max=(\d+)", os.environ.get(TUNABLES, ""))
    limit = tunable[1] if tunable else os.environ.get(VARIABLE, "")
    return min(int(limit) or MOST_ARENAS, MOST_ARENAS) if limit.isdecimal() else ARENAS


def _give_back_ends(library: ctypes.CDLL) -> None:
    """Return the free ends of the arenas, which `malloc_trim` leaves to all arenas but the first.

    glibc returns an end when a block is freed in its arena while the end exceeds M_TRIM_THRESHOLD. With each larger map
    that is freed, such as those of a model that is loaded, it raises this threshold, to 64 MiB at most. So the
    threshold is low for a moment, in which threads free a block in each arena. Threads that are started one after the
    other take one arena after the other, as long as none of them has ended.

    M_MMAP_THRESHOLD, which glibc raises no more once a threshold is set, gets the value that it rises to: large arrays
    of searches would otherwise be mapped, and cleared, each time.
    """
    allocate, free = library.malloc, library.free
    allocate.argtypes, allocate.restype, free.argtypes = [ctypes.c_size_t], ctypes.c_void_p, [ctypes.c_void_p]
    ended = threading.Event()
    freed = threading.Semaphore(0)

    def free_a_block() -> None:
        free(allocate(LEAST_TRIM))
        freed.release()
        ended.wait()

    threads = [threading.Thread(target=free_a_block, name="give-back", daemon=True) for _ in range(_arenas())]
    library.mallopt(M_MMAP_THRESHOLD, LARGEST_MAPPED)
    library.mallopt(M_TRIM_THRESHOLD, LEAST_TRIM)
    try:
        for thread in threads:
            thread.start()
        for _ in threads:
            freed.acquire()
    finally:
        ended.set()
        library.mallopt(M_TRIM_THRESHOLD, 2 * LARGEST_MAPPED)
