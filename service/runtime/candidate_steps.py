"""The number of candidates of a page: the same for many pages, so that these are of one ranking."""

STEP = 4
MOST = 10_000
"""The last position that a page may have."""


def stepped(candidates: int, end: int) -> int:
    """Return the least of 1, 4, 16 ... times as many candidates that is `end` at least; at most MOST."""
    while candidates < end:
        candidates *= STEP
    return min(candidates, MOST)
