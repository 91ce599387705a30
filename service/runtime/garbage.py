"""The garbage collector of a process that serves.

A collection visits every object that can be part of a cycle, while all other threads wait. The libraries alone have
hundreds of thousands, which takes a fifth of a second, and none of them is ever garbage.
"""

import gc


def pause_collections() -> None:
    """Collect nothing while libraries are imported and indexes are loaded: nearly nothing of them is garbage."""
    gc.disable()


def leave_out_what_exists() -> None:
    """Collect again, but leave the objects that exist now out of it."""
    gc.collect()
    gc.freeze()
    gc.enable()
