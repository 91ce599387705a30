"""What a click is worth in memory, by the position at which it happened.

Sees positions and an examination curve. A click far down a list is rarer evidence than a click at the top, because
fewer searchers look there (the position-based model; Craswell et al. 2008). Counted by inverse examination, the clicks
on a document do not depend on where it was shown (Joachims et al. 2017). The curve is frozen with a model: a new click
changes no worth of other clicks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from index.records import Floats

EXAMINATION_DECAY = 0.7
"""eta of the assumed examination probability position^-eta (Joachims 2017)."""
POSITIONS = 100
"""Length of an examination curve; positions further down count as the last."""
ASSUMED_CURVE: Floats = (np.arange(1, POSITIONS + 1) ** -EXAMINATION_DECAY).astype(np.float32)
"""The examination curve of a log with too few clicks: curve[p - 1] is the examination probability of position p."""
ASSUMED_CURVE.setflags(write=False)
MOST_WORTH = 2.0
"""The most that a click is worth, in clicks at an average position. It is below the grade of a purchase."""
LIST = 10
"""Positions whose clicks are worth 1 on average, if their documents are equally attractive."""
STEPS = 60
"""Bisections for the scale of the worth: a double has no more bits."""


@dataclass(frozen=True)
class ClickWorth:
    """The factor on the grade of a positive event at each position, at most MOST_WORTH.

    by_position[p - 1] is the factor of position p; positions further down have the last factor.
    """

    by_position: tuple[float, ...]

    @classmethod
    def of(cls, curve: Floats | Sequence[float]) -> "ClickWorth":
        """Return min(MOST_WORTH, k / curve): k makes the mean over the clicks on the first LIST positions 1.

        curve (n,) in [0, 1], non-increasing: the examination probability of each position; its scale does not matter.
        Raises ValueError for a curve without positions, with another number than that, or with 0 at the first position:
        the worth of a click would be no number, and the memory of its query with it.
        """
        examined = np.asarray(curve, np.float64)
        if not len(examined) or not examined[0] > 0 or not ((examined >= 0) & (examined <= 1)).all():
            raise ValueError("an examination curve has probabilities, the first of them above 0")
        examined = examined / examined[0]  # so that the bisection and the limit 1e-9 do not depend on the scale
        first = examined[:LIST]
        low, high = 0.0, MOST_WORTH
        for _ in range(STEPS):
            middle = (low + high) / 2
            if np.minimum(MOST_WORTH * first, middle).sum() < first.sum():
                low = middle
            else:
                high = middle
        return cls(tuple(np.minimum(MOST_WORTH, high / np.maximum(examined, 1e-9)).tolist()))

    def at(self, position: int | None) -> float:
        """Return the factor of a 1-based position; 1 if it is unknown."""
        return 1.0 if position is None else self.by_position[min(position, len(self.by_position)) - 1]


ASSUMED_WORTH = ClickWorth.of(ASSUMED_CURVE)
"""The worth of clicks before any training."""
