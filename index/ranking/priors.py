"""The priors of documents: the choices of people on any query, beyond the evidence for the query.

A prior is a learned bias of one document in the softmax, the part `prior` of its logit. It is the sum of a bias of the
document itself, 0 if it was neither chosen nor shown, and of the effects of its metadata (`field_priors`), which new
documents have too. Documents are named by hashes of their ids, so that a bias stays with a document that is replaced.
Source: Craswell, Robertson, Zaragoza, Taylor 2005 (evidence that does not depend on the query).

Letters: B queries, N candidates, P documents with a prior.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from index.generation.columns import HASH_BYTES, ID_BYTES, ID_ORDER
from index.generation.document_fields import FieldPairs
from index.ranking.field_priors import PARAMETERS as OF_FIELDS
from index.ranking.field_priors import FieldPriors, no_field_priors, places
from index.records import Floats

Hashes = NDArray[np.uint64]
PREFIX = "priors."
"""Prefix of the names of the parameters of priors."""
OF_DOCUMENTS = {"priors.documents": np.uint64, "priors.values": np.float32}
PARAMETERS = OF_DOCUMENTS | OF_FIELDS
"""The arrays of priors among the parameters of a head: name -> dtype."""
LARGEST = 2.0
"""Largest absolute value of a prior: feedback on other queries multiplies a weight by e^2 = 7.4 at most."""

MOST = 1e4
"""Sums of effects beyond it are as good as infinite."""


@dataclass(frozen=True, eq=False)
class Priors:
    """The priors, values (P,), of the documents with these hashes, documents (P,), ascending; and those of fields."""

    documents: Hashes
    values: Floats
    fields: FieldPriors = field(default_factory=no_field_priors)

    def __len__(self) -> int:
        return len(self.values)

    def __bool__(self) -> bool:
        return bool(len(self.values) or self.fields)

    def __call__(self, id_order: NDArray[np.bytes_], fields: FieldPairs | None = None) -> Floats:
        """Return the priors of documents, given as `index.generation.columns.id_order` of any shape.

        fields: their metadata, whose owners are places in the flat `id_order`; needed for priors of fields.
        """
        own = self.of(document_hashes(id_order)) if len(self) else np.zeros(id_order.shape, np.float32)
        if not self.fields:
            return own
        assert fields is not None, "priors of fields need the metadata: assemble the candidates with_fields=True"
        return self.with_fields(own, fields)

    def of(self, documents: Hashes) -> Floats:
        """Return the priors of documents, given as hashes of any shape, without those of fields; 0 if unknown."""
        found, at = places(self.documents, documents.ravel())
        own = np.zeros(documents.size, np.float32)
        own[found] = self.values[at]
        return own.reshape(documents.shape)

    def with_fields(self, own: Floats, fields: FieldPairs) -> Floats:
        """Return priors of documents, of any shape, with those of their fields: at most LARGEST in size."""
        return bounded(own + self.fields.of_owners(fields, own.size).reshape(own.shape))

    def parameters(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by the names of a head's parameters: none without priors."""
        given = self._arrays()
        of_documents = OF_DOCUMENTS if len(self) else ()
        of_fields = OF_FIELDS if self.fields else ()
        return {name: given[name] for name in (*of_documents, *of_fields)}

    def _arrays(self) -> dict[str, NDArray[Any]]:
        own: dict[str, NDArray[Any]] = dict(zip(OF_DOCUMENTS, (self.documents, self.values), strict=True))
        return own | self.fields.parameters()

    @classmethod
    def of_parameters(cls, parameters: Mapping[str, Any]) -> "Priors":
        """Return the priors among the parameters of a head."""
        if not any(name in parameters for name in PARAMETERS):
            return no_priors()
        given = no_priors()._arrays() | {name: parameters[name] for name in PARAMETERS if name in parameters}
        documents, values = (given[name] for name in OF_DOCUMENTS)
        return cls(documents, values, FieldPriors.of_parameters(given))


def bounded(priors: Floats) -> Floats:
    """Return priors, of any shape, of at most LARGEST in size, in the same order: p / (1 + (p / LARGEST)^4)^(1/4).

    Half of LARGEST loses 1.5 %. A cut would make the best values of a steep field equal.
    """
    finite = np.clip(priors, -MOST, MOST)  # its fourth power is finite in float32
    square = np.square(finite / LARGEST)
    found: Floats = finite / np.sqrt(np.sqrt(1 + square * square))
    return found.astype(np.float32)


def no_priors(count: int = 0, categories: int = 0, numbers: int = 0) -> Priors:
    """Return this many priors of 0, of documents, of categories and of fields with numbers."""
    documents = np.arange(count, dtype=np.uint64)
    return Priors(documents, np.zeros(count, np.float32), no_field_priors(categories, numbers))


def document_hashes(id_order: NDArray[np.bytes_]) -> Hashes:
    """Return the hashes of the ids of documents, from the bytes that order them, in the same shape."""
    ids = np.ascontiguousarray(id_order, ID_ORDER)
    each = ids.view(np.uint8).reshape(*ids.shape, ID_BYTES + HASH_BYTES)[..., ID_BYTES:]
    hashes: Hashes = np.ascontiguousarray(each).view(">u8")[..., 0].astype(np.uint64)
    return hashes
