"""The priors of documents: the choices of people on any query, beyond the evidence for the query.

A prior is a learned bias of one document in the softmax, the part `prior` of its logit. A document that was neither
chosen nor shown has the prior 0. Documents are named by hashes of their ids, so that a prior stays with a document that
is replaced.
Source: Craswell, Robertson, Zaragoza, Taylor 2005 (evidence that does not depend on the query).

Letters: B queries, N candidates, P documents with a prior.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from index.generation.columns import HASH_BYTES, ID_BYTES, ID_ORDER
from index.records import Floats

Hashes = NDArray[np.uint64]
PARAMETERS = {"priors.documents": np.uint64, "priors.values": np.float32}
"""The arrays of priors among the parameters of a head: name -> dtype."""


@dataclass(frozen=True, eq=False)
class Priors:
    """The priors, values (P,), of the documents with these hashes, documents (P,), ascending."""

    documents: Hashes
    values: Floats

    def __len__(self) -> int:
        return len(self.values)

    def __call__(self, id_order: NDArray[np.bytes_]) -> Floats:
        """Return the priors of documents, given as `index.generation.columns.id_order` of any shape; 0 if unknown."""
        if not len(self):
            return np.zeros(id_order.shape, np.float32)
        return self.of(document_hashes(id_order))

    def of(self, documents: Hashes) -> Floats:
        """Return the priors of documents, given as hashes of any shape; 0 if unknown."""
        if not len(self):
            return np.zeros(documents.shape, np.float32)
        at = np.minimum(np.searchsorted(self.documents, documents), len(self) - 1)
        found: Floats = np.where(self.documents[at] == documents, self.values[at], np.float32(0))
        return found

    def parameters(self) -> dict[str, NDArray[np.generic]]:
        """Return the arrays by the names of a head's parameters."""
        return dict(zip(PARAMETERS, (self.documents, self.values), strict=True))


def no_priors(count: int = 0) -> Priors:
    """Return this many priors of 0."""
    return Priors(np.arange(count, dtype=np.uint64), np.zeros(count, np.float32))


def document_hashes(id_order: NDArray[np.bytes_]) -> Hashes:
    """Return the hashes of the ids of documents, from the bytes that order them, in the same shape."""
    ids = np.ascontiguousarray(id_order, ID_ORDER)
    each = ids.view(np.uint8).reshape(*ids.shape, ID_BYTES + HASH_BYTES)[..., ID_BYTES:]
    hashes: Hashes = np.ascontiguousarray(each).view(">u8")[..., 0].astype(np.uint64)
    return hashes
