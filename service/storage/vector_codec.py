"""Conversion between vectors and BLOBs of little-endian float32."""

import numpy as np

from index.records import Floats


def as_vector(blob: bytes) -> Floats:
    """Return the vector (D,) of a BLOB. It shares the memory of the BLOB and is read-only."""
    return np.frombuffer(blob, "<f4")


def as_blob(vector: Floats) -> bytes:
    """Return the BLOB of a vector (D,)."""
    return vector.astype("<f4").tobytes()
