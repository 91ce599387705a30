"""Gzip with a limit: a small body that decompresses to a very large one is refused.

Content is stored as it was sent, and decompressed each time it is read, so that it takes no more room than was sent.
"""

import gzip
import io
import zlib
from pathlib import Path
from typing import Any, BinaryIO

MAGIC = b"\x1f\x8b"
MAX_RATIO = 200
"""Decompressed bytes for each compressed byte. Text seldom has more than 20."""
FREE_BYTES = 64 * 1024 * 1024
"""Decompressed bytes that have no limit of ratio."""
BLOCK_BYTES = 1024 * 1024


class BadCompression(ValueError):
    """Content that is not gzip although it begins like it or is said to be."""


class CompressionBomb(ValueError):
    """Content that decompresses to more than the limit."""

    def __init__(self) -> None:
        super().__init__(f"the content decompresses to more than {MAX_RATIO} times its size")


class GzipCheck:
    """Follows gzip bytes as they arrive, and raises BadCompression or CompressionBomb. Keeps no content."""

    def __init__(self) -> None:
        self._decoder = zlib.decompressobj(wbits=31)
        self._read = 0
        self._made = 0

    def feed(self, block: bytes) -> None:
        """Take the next bytes."""
        self._read += len(block)
        while block:
            if self._decoder.eof:  # gzip may consist of several members, with zeros at the end
                block = block.lstrip(b"\0")
                self._decoder = zlib.decompressobj(wbits=31) if block else self._decoder
                continue
            try:
                self._made += len(self._decoder.decompress(block, BLOCK_BYTES))
            except zlib.error as error:
                raise BadCompression("the content is not valid gzip") from error
            require_ratio(self._read, self._made)
            block = self._decoder.unconsumed_tail or self._decoder.unused_data

    def end(self) -> None:
        """Raise BadCompression if the content is cut."""
        if self._read and not self._decoder.eof:
            raise BadCompression("the gzip content is cut")


def require_ratio(read: int, made: int) -> None:
    """Raise CompressionBomb if `read` compressed bytes made too many bytes."""
    if made > max(FREE_BYTES, MAX_RATIO * read):
        raise CompressionBomb()


def open_plain(path: Path) -> BinaryIO:
    """Open a file for reading; a file that begins like gzip is decompressed."""
    with path.open("rb") as file:
        compressed = file.read(2) == MAGIC
    return plain(path.open("rb"), compressed, path.stat().st_size)


def plain(file: BinaryIO, compressed: bool, size: int | None = None) -> BinaryIO:
    """Return a stream of the decompressed content. size: compressed bytes, where known; they bound the output.

    Reading raises CompressionBomb, and OSError, EOFError or zlib.error for content that is not gzip.
    """
    return io.BufferedReader(_Bounded(gzip.GzipFile(fileobj=file), file, size)) if compressed else file


class _Bounded(io.RawIOBase):
    """Decompressed bytes, within the limit."""

    def __init__(self, content: gzip.GzipFile, file: BinaryIO, size: int | None) -> None:
        self._content = content
        self._file = file
        self._size = size
        self._made = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self._content.read(len(buffer))
        self._made += len(block)
        if self._size is not None:
            require_ratio(self._size, self._made)
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        if not self.closed:
            self._content.close()
            self._file.close()
        super().close()
