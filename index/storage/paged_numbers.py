"""A persistent array of whole numbers: a changed array shares all pages that the change does not concern."""

from collections.abc import Iterable, Mapping

import numpy as np

from index.records import Ints

PAGE_BITS = 12
PAGE = 1 << PAGE_BITS
"""Numbers of a page. A change copies the pages that it concerns."""

NO_NUMBERS: Ints = np.zeros(PAGE, np.int64)


class PagedNumbers:
    """An immutable array of int64 in pages, initially 0. An array that is being read never changes."""

    def __init__(self, pages: tuple[Ints, ...] = ()) -> None:
        self._pages = pages

    @classmethod
    def of(cls, numbers: Ints) -> "PagedNumbers":
        """Return an array of these numbers (n,)."""
        padded = np.zeros(-(-len(numbers) // PAGE) * PAGE, np.int64)
        padded[: len(numbers)] = numbers
        return cls(tuple(padded[first : first + PAGE] for first in range(0, len(padded), PAGE)))

    def take(self, positions: Iterable[int]) -> Ints:
        """Return the numbers at these positions, 0 beyond the last page."""
        pages, end = self._pages, len(self._pages) << PAGE_BITS
        found = (pages[at >> PAGE_BITS].item(at & (PAGE - 1)) if at < end else 0 for at in positions)
        return np.fromiter(found, np.int64)

    def all(self, count: int) -> Ints:
        """Return a copy of the first numbers (count,)."""
        return np.concatenate([np.empty(0, np.int64), *self._pages])[:count]

    def differing(self, other: "PagedNumbers") -> Ints:
        """Return the positions (n,), ascending, where the numbers differ. Shared pages are not read."""
        found = []
        for number in range(max(len(self._pages), len(other._pages))):
            mine, others = (
                pages[number] if number < len(pages) else NO_NUMBERS for pages in (self._pages, other._pages)
            )
            if mine is not others:
                found.append(np.flatnonzero(mine != others) + (number << PAGE_BITS))
        return np.concatenate([np.empty(0, np.int64), *found])

    def changed(self, values: Mapping[int, int]) -> "PagedNumbers":
        """Return an array with these numbers, position -> number. It grows as far as necessary."""
        pages, copied = list(self._pages), set[int]()
        for at, value in values.items():
            number = at >> PAGE_BITS
            while number >= len(pages):
                copied.add(len(pages))
                pages.append(np.zeros(PAGE, np.int64))
            if number not in copied:
                copied.add(number)
                pages[number] = pages[number].copy()
            pages[number][at & (PAGE - 1)] = value
        return PagedNumbers(tuple(pages))
