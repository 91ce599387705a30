"""The vectors of documents that `reencode` or `reindex` has made, in files: a second attempt does not make them again.

A file is named after what its vectors depend on, the release, the encoder and the texts, so that it is found only for
these. It lies in a folder of its collection, encoder and kinds of keys, which is deleted after the switch to these:
other attempts that were interrupted keep theirs. The next server on the data directory deletes all.
"""

import hashlib
import shutil
from collections.abc import Collection, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson

from index.encoding.documents import EncodedDocument
from index.encoding.encoder import Encoder
from index.records import Document, KeyKind
from index.storage.files import make_durable_directory, write_atomically
from service.documents.packed_vectors import packed, unpacked

FOLDER = "reencoding"


class EncodedBlocks:
    """The files of a collection and an encoder. A block is a number of documents that are encoded together."""

    def __init__(self, data: Path, collection_id: int, encoder: Encoder, kinds: Collection[KeyKind]) -> None:
        self._dim = encoder.dim
        self._maker: list[Any] = [version("softseek"), encoder.fingerprint, encoder.precision, sorted(map(int, kinds))]
        self._folder = data / FOLDER / f"{collection_id}-{_digest(self._maker)[:16]}"

    def has(self, documents: Sequence[Document]) -> bool:
        """Return whether there is a file for these documents."""
        return self._path(documents).is_file()

    def read(self, documents: Sequence[Document]) -> list[EncodedDocument] | None:
        """Return the vectors of these documents in their order; None without a whole file."""
        try:
            found = unpacked(self._path(documents).read_bytes())
        except (OSError, ValueError):
            return None
        return list(found.values()) if len(found) == len(documents) else None

    def write(self, documents: Sequence[Document], encoded: Sequence[EncodedDocument]) -> None:
        """Store the vectors of these documents; durably on return."""
        make_durable_directory(self._folder)
        write_atomically(self._path(documents), packed(dict(enumerate(encoded)), self._dim))

    def _path(self, documents: Sequence[Document]) -> Path:
        texts = [[document.title, document.text] for document in documents]
        return self._folder / f"{_digest([self._maker, texts])}.npz"

    def delete(self) -> None:
        """Delete these files, and the folder of all if it is empty then."""
        shutil.rmtree(self._folder, ignore_errors=True)
        with suppress(OSError):  # the files of other attempts stay
            self._folder.parent.rmdir()


def _digest(value: Any) -> str:
    return hashlib.sha256(orjson.dumps(value)).hexdigest()


def delete_encoded_blocks(data: Path) -> None:
    """Delete all files, of all collections."""
    shutil.rmtree(data / FOLDER, ignore_errors=True)
