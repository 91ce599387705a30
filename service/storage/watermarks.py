"""A file with the watermark of each collection, beside the database: it tells a start that committed changes are gone.

A write-ahead log that was cut or damaged opens without an error, and its last commits are missing. Every visible change
counts in the watermark of its collection, so after its commit the watermark is also written here, without a sync: it
survives a killed process, and after a power cut it is at worst too low, which raises no false alarm.
"""

import os
from contextlib import suppress
from pathlib import Path

WATERMARKS = "watermarks"
"""The name of the file in the data directory: 8 bytes for each collection, at 8 times its number."""
WIDTH = 8


class Watermarks:
    """The file of the watermarks. It stays open until `close`."""

    def __init__(self, directory: Path) -> None:
        self._file = os.open(directory / WATERMARKS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def read(self, collection_id: int) -> int:
        """Return the last watermark that was written for a collection, 0 if there is none."""
        return int.from_bytes(os.pread(self._file, WIDTH, WIDTH * collection_id), "little")

    def greatest_id(self) -> int:
        """Return the greatest number of a collection with a watermark above 0, 0 if there is none."""
        return max(0, len(os.pread(self._file, os.fstat(self._file).st_size, 0).rstrip(b"\0")) - 1) // WIDTH

    def write(self, collection_id: int, watermark: int) -> None:
        """Write the watermark of a collection. A full disk is no error: the file is a check, and no data."""
        with suppress(OSError):
            os.pwrite(self._file, watermark.to_bytes(WIDTH, "little"), WIDTH * collection_id)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
