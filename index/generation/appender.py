"""The appendable storage of a store's writer: the files of keys and values, and the growable columns.

Searches never read it directly.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from index.encoding.documents import document_value
from index.generation.columns import ColumnBuffers, Columns, id_order
from index.generation.document_fields import pairs_of
from index.generation.generation import Generation, IndexedDocument
from index.records import Floats, Mask
from index.storage.checksum_guard import checksums
from index.storage.vector_file import VectorFile
from index.words.query_words import Words


@dataclass(frozen=True)
class Block:
    """n documents to append: their columns, key vectors (k, D), values (n, V), and alive (n,)."""

    columns: Columns
    vectors: Floats
    values: Floats
    alive: Mask

    @classmethod
    def of(
        cls, documents: Sequence[IndexedDocument], tokens: Sequence[Words], title_words: Sequence[int], dim: int
    ) -> "Block":
        """Return the block of these documents.

        tokens: the word numbers of each document; title_words: the number of them that are of its title.
        """
        keys = [key for document in documents for key in document.keys]
        vectors = np.asarray([key.vector for key in keys], np.float32).reshape(len(keys), dim)
        values = np.asarray([_value(document, dim) for document in documents], np.float32).reshape(len(documents), dim)
        pairs = [pairs_of(document.metadata) for document in documents]
        columns = Columns(
            rows=np.asarray([document.row for document in documents], np.int64),
            value_checksums=checksums(values),
            first_key=np.cumsum([0, *(len(document.keys) for document in documents)]),
            key_kind=np.asarray([int(key.kind) for key in keys], np.int64),
            key_start=np.asarray([key.start for key in keys], np.int64),
            key_end=np.asarray([key.end for key in keys], np.int64),
            key_checksums=checksums(vectors),
            first_token=np.cumsum([0, *map(len, tokens)]),
            tokens=np.concatenate([np.empty(0, np.uint32), *tokens]),
            title_words=np.asarray(title_words, np.int64),
            id_order=id_order(document.id for document in documents),
            first_field=np.cumsum([0, *(len(keys) for keys, _ in pairs)]),
            field_keys=np.concatenate([np.empty(0, np.uint64), *(keys for keys, _ in pairs)]),
            field_numbers=np.concatenate([np.empty(0, np.float64), *(numbers for _, numbers in pairs)]),
        )
        return cls(columns, vectors, values, np.ones(len(documents), np.bool_))


def _value(document: IndexedDocument, dim: int) -> Floats:
    return document_value(document.keys, dim) if document.value is None else document.value


class Appender:
    """Two files of vectors, one row per key and one row per document, and the buffers of the columns."""

    def __init__(self, keys: VectorFile, values: VectorFile, columns: ColumnBuffers) -> None:
        self.keys, self.values, self._columns = keys, values, columns

    @classmethod
    def create(cls, keys: Path, values: Path, dim: int) -> "Appender":
        """Return an appender to new, empty files."""
        return cls(VectorFile(keys, dim), VectorFile(values, dim), ColumnBuffers(Columns.empty()))

    @property
    def paths(self) -> tuple[Path, Path]:
        """The files of the keys and of the values."""
        return self.keys.path, self.values.path

    def append(self, state: Generation, block: Block) -> Generation:
        """Return the generation with the documents of a block after its own. Its vectors must be in these files."""
        return replace(
            state,
            keys=self.keys.extended(len(state.keys), block.vectors),
            values=self.values.extended(len(state.rows), block.values),
            columns=self._columns.extended(state.columns, block.columns),
            alive=np.append(state.alive, block.alive),
            files=self.paths,
        )

    def sync(self, state: Generation) -> None:
        """Make the vectors of a generation durable."""
        self.keys.sync(len(state.keys))
        self.values.sync(len(state.rows))

    def remove_files(self) -> None:
        """Unlink the files. Generations that map the files stay readable."""
        for path in self.paths:
            path.unlink(missing_ok=True)
