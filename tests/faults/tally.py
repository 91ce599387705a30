"""The counts of the fault tests: points tried, losses, and losses that nothing reported. `make soak` prints them."""

import os
from collections import defaultdict
from dataclasses import dataclass

SOAK = bool(os.environ.get("SOAK"))
"""Whether the long run is asked for, by `make soak`."""


@dataclass
class Count:
    """What a test of faults has tried."""

    tried: int = 0
    lost: int = 0
    undetected: int = 0


COUNTS: dict[str, Count] = defaultdict(Count)
"""Kind of fault -> its count, of this process."""


def tell(kind: str, loss: str | None, undetected: bool = True) -> str | None:
    """Count a point, and return its loss."""
    count = COUNTS[kind]
    count.tried += 1
    count.lost += loss is not None
    count.undetected += loss is not None and undetected
    return loss
