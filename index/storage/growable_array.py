"""Arrays that grow at their end, mostly without a copy."""

from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", bound=np.generic)

LEAST_ROWS = 256


class GrowableArray(Generic[Number]):
    """An array with spare capacity. Readers keep a view of its first rows; later appends are invisible to them."""

    def __init__(self, rows: NDArray[Number]) -> None:
        self.rows = rows
        self.used = len(rows)

    @property
    def view(self) -> NDArray[Number]:
        """The rows in use."""
        return self.rows[: self.used]

    @classmethod
    def with_capacity(cls, rows: NDArray[Number], total: int = 0) -> "GrowableArray[Number]":
        """Return a growable array with a copy of these rows and capacity for max(2 * len(rows), 2 * total)."""
        array = cls(np.empty((max(LEAST_ROWS, 2 * len(rows), 2 * total), *rows.shape[1:]), rows.dtype))
        array.rows[: len(rows)] = rows
        array.used = len(rows)
        return array

    def extended(self, used: int, added: Any) -> "GrowableArray[Number]":
        """Return a growable array with the first `used` rows of this one and the rows `added`.

        It is this array if `used` rows are in use and the capacity suffices, and a copy otherwise.
        """
        total = used + len(added)
        array = self
        if self.used != used or total > len(self.rows):
            array = GrowableArray.with_capacity(self.rows[:used], total)
        if len(added):
            array.rows[used:total] = added
        array.used = total
        return array
