"""Conversion between vectors and BLOBs of little-endian float32."""

import numpy as np

from index.records import Floats
from service.storage.unreadable_rows import UnreadableRow


def as_vector(blob: bytes) -> Floats:
    """Return the vector (D,) of a BLOB. It shares the memory of the BLOB and is read-only.

    Raises UnreadableRow for a BLOB that is no sequence of float32.
    """
    try:
        return np.frombuffer(blob, "<f4")
    except (TypeError, ValueError) as error:
        raise UnreadableRow from error


def as_blob(vector: Floats) -> bytes:
    """Return the BLOB of a vector (D,)."""
    return vector.astype("<f4").tobytes()
