"""Bounds of JSON that are checked on its bytes, before a parser makes objects of them.

A parser holds the interpreter while it works, and a validator makes an error of every wrong value. Eight million bytes
may contain four million values, so both may stop all other requests for seconds. The check counts the values block by
block, refuses a body at the first value over the bound, and lets other threads run meanwhile. The parser itself refuses
more than 1,024 levels of nesting.
"""

from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from starlette.exceptions import HTTPException

MAX_VALUES = 150_000
"""Values of a body: members of objects and entries of arrays."""
BLOCK_BYTES = 64 * 1024
"""Bytes that are checked at once."""
QUOTE, BACKSLASH, COMMA, ARRAY, OBJECT = b'"\\,[{'

GZIP_MAGIC = b"\x1f\x8b"
"""The first bytes of gzip."""

Bytes = NDArray[np.uint8]


class TooComplex(HTTPException):
    """A body with too many values. Starlette's class, because FastAPI hides other errors."""

    def __init__(self) -> None:
        super().__init__(422, f"the body has more than {MAX_VALUES} values")


class Compressed(HTTPException):
    """A body of gzip, which only imports may have."""

    def __init__(self) -> None:
        super().__init__(415, "the body is gzip, which only imports may be")


class _Structure:
    """The number of values of JSON that was read so far: its commas and openings outside of strings, and 1."""

    def __init__(self) -> None:
        self.values = 1
        self._in_string = False
        self._escaped = False
        """Whether a backslash at the end of the last block escapes the first byte of the next block."""

    def read(self, block: Bytes) -> None:
        """Count the next bytes."""
        quotes = self._quotes(block)
        marks = np.flatnonzero((block == COMMA) | (block == ARRAY) | (block == OBJECT))
        self.values += int(((np.searchsorted(quotes, marks) + self._in_string) % 2 == 0).sum())
        if len(quotes) % 2:
            self._in_string = not self._in_string

    def _quotes(self, block: Bytes) -> NDArray[np.int64]:
        """Return the positions of the quotes that begin or end a string."""
        quotes = np.flatnonzero(block == QUOTE)
        slashes = np.flatnonzero(block == BACKSLASH)
        if not len(slashes) and not self._escaped:
            return quotes
        # a run of backslashes escapes the byte behind it if their number is odd
        begins = np.flatnonzero(np.diff(slashes, prepend=-2) > 1)
        starts = slashes[begins]
        lengths = np.diff(begins, append=len(slashes))
        if self._escaped and len(starts) and starts[0] == 0:
            starts, lengths = np.concatenate(([1], starts[1:])), np.concatenate((lengths[:1] - 1, lengths[1:]))
        ends = (starts + lengths)[lengths % 2 == 1]
        if self._escaped and block[0] != BACKSLASH:
            ends = np.concatenate(([0], ends))
        self._escaped = bool(len(ends)) and int(ends[-1]) == len(block)
        is_escaped = np.zeros(len(block) + 1, np.bool_)
        is_escaped[ends] = True
        return quotes[~is_escaped[quotes]]


def require_simple(body: bytes) -> None:
    """Raise TooComplex if JSON has more than MAX_VALUES values.

    The count of a body that is not JSON is right up to the first error. A parser reads no further.
    """
    if len(body) < MAX_VALUES or sum(map(body.count, (b",", b"[", b"{"))) < MAX_VALUES:
        return
    structure = _Structure()
    content = np.frombuffer(body, np.uint8)
    for start in range(0, len(content), BLOCK_BYTES):
        structure.read(content[start : start + BLOCK_BYTES])
        if structure.values > MAX_VALUES:
            raise TooComplex


def parse(body: bytes) -> Any:
    """Return JSON as objects. Raises TooComplex, Compressed for gzip, and orjson.JSONDecodeError."""
    require_simple(body)
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        if body.startswith(GZIP_MAGIC):
            raise Compressed from None
        raise
