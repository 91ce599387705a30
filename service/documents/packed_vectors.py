"""The keys of encoded documents as bytes, for another process: arrays of numpy in one file, without pickle."""

import io
import zipfile
from collections.abc import Mapping

import numpy as np

from index.encoding.documents import EncodedDocument, document_value
from index.records import Key, KeyKind


def packed(documents: Mapping[int, EncodedDocument], dim: int) -> bytes:
    """Return the keys of documents, by a number of each. dim: of the vectors."""
    keys = [key for document in documents.values() for key in document.keys]
    body = io.BytesIO()
    np.savez(
        body,
        number=np.asarray(list(documents), np.int64),
        keys=np.asarray([len(document.keys) for document in documents.values()], np.int64),
        place=np.asarray([(key.kind, key.start, key.end) for key in keys], np.int64).reshape(len(keys), 3),
        vector=np.asarray([key.vector for key in keys], np.float32).reshape(len(keys), dim),
    )
    return body.getvalue()


def unpacked(body: bytes) -> dict[int, EncodedDocument]:
    """Return number -> document. Raises ValueError for bytes that `packed` did not make."""
    try:
        with np.load(io.BytesIO(body), allow_pickle=False) as file:
            number, count, place, vector = (file[name] for name in ("number", "keys", "place", "vector"))
    except (OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise ValueError("the bytes are no packed documents") from error
    if not len(place) == len(vector) == count.sum():
        raise ValueError("the bytes are no packed documents")
    keys = [Key(KeyKind(kind), one, start, end) for (kind, start, end), one in zip(place.tolist(), vector, strict=True)]
    ends = np.cumsum(count).tolist()
    documents = {}
    for one, end, size in zip(number.tolist(), ends, count.tolist(), strict=True):
        own = keys[end - size : end]
        documents[one] = EncodedDocument(own, document_value(own, vector.shape[1]))
    return documents
