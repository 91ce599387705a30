"""Arrays that grow at their end without being copied each time."""

from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", bound=np.generic)

LEAST_ROWS = 256


class GrowableArray(Generic[Number]):
    """Rows that others are appended to: whoever was given the first `used` of them sees these and no more."""

    def __init__(self, rows: NDArray[Number]) -> None:
        self.rows = rows
        self.used = len(rows)

    @property
    def seen(self) -> NDArray[Number]:
        """The rows that are used."""
        return self.rows[: self.used]

    @classmethod
    def with_capacity(cls, rows: NDArray[Number], total: int = 0) -> "GrowableArray[Number]":
        """Return a room with a copy of these rows and space for as many more, or for twice `total` in all."""
        room = cls(np.empty((max(LEAST_ROWS, 2 * len(rows), 2 * total), *rows.shape[1:]), rows.dtype))
        room.rows[: len(rows)] = rows
        room.used = len(rows)
        return room

    def extended(self, seen: int, added: Any) -> "GrowableArray[Number]":
        """Return a room with the first `seen` rows and these: this one, where nobody else wrote beyond them."""
        total = seen + len(added)
        room = self
        if self.used != seen or total > len(self.rows):
            room = GrowableArray.with_capacity(self.rows[:seen], total)
        if len(added):
            room.rows[seen:total] = added
        room.used = total
        return room
