"""Frames: records of JSON and arrays, one after another, that another process reads.

A frame is the length of all that follows (8 bytes), the length of its JSON (8 bytes), the JSON, and the bytes of the
arrays. Both processes run on one machine, so numbers have the byte order of the machine.
"""

import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

LENGTHS = struct.Struct("=QQ")
Arrays = Mapping[str, NDArray[Any]]


def frame(head: Mapping[str, Any], arrays: Arrays | None = None) -> bytes:
    """Return a frame of a JSON object and arrays of numbers or bytes by name."""
    contiguous = {name: np.ascontiguousarray(array) for name, array in (arrays or {}).items()}
    described = [[name, array.dtype.str, array.shape] for name, array in contiguous.items()]
    text = orjson.dumps([head, described])
    parts = [text, *(array.tobytes() for array in contiguous.values())]
    return LENGTHS.pack(LENGTHS.size + sum(map(len, parts)), len(text)) + b"".join(parts)


def frames(data: bytes) -> Iterator[tuple[dict[str, Any], dict[str, NDArray[Any]]]]:
    """Yield the head and the arrays of each frame of a whole number of frames. The arrays are read-only."""
    start = 0
    while start < len(data):
        length, text_length = LENGTHS.unpack_from(data, start)
        at = start + LENGTHS.size
        head, described = orjson.loads(data[at : at + text_length])
        at += text_length
        arrays = {}
        for name, kind, shape in described:
            dtype = np.dtype(kind)
            count = int(np.prod(shape, dtype=np.int64))
            arrays[name] = np.frombuffer(data, dtype, count, at).reshape(shape)
            at += count * dtype.itemsize
        yield head, arrays
        start += length
