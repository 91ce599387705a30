"""The garbage collector of a process that serves.

A collection visits every object that can be part of a cycle, while all other threads wait. The libraries alone have
hundreds of thousands, which takes a fifth of a second, and none of them is ever garbage.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collections_paused() -> Iterator[None]:
    """Collect nothing until `leave_out_what_exists`: nearly nothing of libraries and indexes is garbage.

    At the end of the block the collector works as usual, whether the block failed or not.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.enable()


def leave_out_what_exists() -> None:
    """Collect again, but leave the objects that exist now out of it."""
    gc.collect()
    gc.freeze()
    gc.enable()
