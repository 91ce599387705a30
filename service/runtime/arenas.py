"""The limit on the arenas of glibc's allocator, for this process and its children, and the return of free memory.

By default each thread that starts may take an arena of its own, up to eight for each core. Memory that a thread frees
stays in its arena, also after the end of the thread. The service starts threads all the time: for requests, and for
each commit of the BM25 index. So many arenas grow, and most of their memory is free.
"""

import ctypes
import os

ARENAS = 4
"""With two, the threads of searches wait for each other (docs/experiments.md)."""
M_ARENA_MAX = -8
"""The number of the parameter in malloc.h."""
VARIABLE, TUNABLES = "MALLOC_ARENA_MAX", "GLIBC_TUNABLES"
"""The variables by which an operator limits the arenas of a process."""


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

    By itself glibc gives back the free end of an arena alone. The return takes some milliseconds, without the
    interpreter's lock.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        return False
    trim(0)
    return True
