"""Makes the keys and the value of documents: cuts their texts, and encodes each distinct text once."""

from collections import ChainMap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import numpy as np

from index.encoding.chunking import Span
from index.encoding.encoder import Encoder
from index.records import Document, Floats, Key, KeyKind


class PassageProgress(Protocol):
    """Receives the progress of encoding documents. Calls come from several threads."""

    def plan_passages(self, documents: int, passages: int, kept: int = 0) -> None:
        """Add documents that were cut, and their number of passages. Passages include titles and sentences.

        passages: those to encode. kept: those whose stored vectors are taken.
        """
        ...

    def advance_passages(self, count: int) -> None:
        """Add the number of passages that were encoded since the last call."""
        ...


@dataclass(frozen=True)
class EncodedDocument:
    """A document's own keys, by kind and in reading order, and its value (D,): the normalised mean of its passages."""

    keys: list[Key]
    value: Floats


Version = tuple[Document, EncodedDocument]
"""A document with the vectors that were made of it."""
Plan = list[tuple[KeyKind, Span]]
"""The kinds and the places of the keys of a document, with the texts to encode."""


def words_of(document: Document) -> str:
    """Return the text that the BM25 index contains."""
    return f"{document.title or ''}\n{document.text}"


def document_value(keys: Sequence[Key], dim: int) -> Floats:
    """Return the value (D,) of a document with these keys: the unit mean of its passages, zeros without a passage."""
    passages = [key.vector for key in keys if key.kind is KeyKind.PASSAGE]
    mean = np.mean(passages, axis=0) if passages else np.zeros(dim, np.float32)
    length = float(np.linalg.norm(mean))
    return (mean / length if length else mean).astype(np.float32)


def encode_documents(
    encoder: Encoder,
    documents: Sequence[Document],
    kinds: Collection[KeyKind],
    progress: PassageProgress | None = None,
    stored: Mapping[str, Version] = MappingProxyType({}),
) -> list[EncodedDocument]:
    """Return keys and value of each document. A text that several documents share, such as a title, is encoded once.

    stored: id -> earlier version of the document, with vectors of this encoder. A text that is a text of the earlier
    version, to the character, is not encoded: it has the vector that it had.
    """
    planned: list[tuple[Plan, dict[str, Floats]]] = []
    distinct: set[str] = set()
    for document in documents:
        before = len(distinct)
        plan = _plan(encoder, document, kinds)
        known = _known_vectors(encoder, document, plan, kinds, stored.get(document.id))
        planned.append((plan, known))
        own = {span.encoded_text for _, span in plan}
        distinct |= own - known.keys()
        if progress:
            progress.plan_passages(1, len(distinct) - before, len(own & known.keys()))
    texts = sorted(distinct)
    encoded = encoder.encode(texts, progress.advance_passages) if progress else encoder.encode(texts)
    vectors = dict(zip(texts, encoded, strict=True))
    return [_encoded(plan, ChainMap(known, vectors), encoder.dim) for plan, known in planned]


def _known_vectors(
    encoder: Encoder, document: Document, plan: Plan, kinds: Collection[KeyKind], stored: Version | None
) -> dict[str, Floats]:
    """Return text -> vector of the earlier version of a document.

    The texts of stored keys are found by their places. A key at a place where this cutter cuts none has no known text.
    """
    if stored is None:
        return {}
    version, vectors = stored
    is_same = (version.title, version.text) == (document.title, document.text)
    at = {(key.kind, key.start, key.end): key.vector for key in vectors.keys}
    earlier = plan if is_same else _plan(encoder, version, kinds)
    places = [((kind, span.start, span.end), span.encoded_text) for kind, span in earlier]
    return {text: at[place] for place, text in places if place in at}


def _plan(encoder: Encoder, document: Document, kinds: Collection[KeyKind]) -> Plan:
    title = (document.title or "").strip()
    plan: Plan = []
    if title and KeyKind.TITLE in kinds:
        plan.append((KeyKind.TITLE, Span(0, len(document.title or ""), title)))
    if KeyKind.PASSAGE in kinds:
        plan += [(KeyKind.PASSAGE, span) for span in encoder.cutter.passages(document.text, title)]
    if KeyKind.SENTENCE in kinds:
        plan += [(KeyKind.SENTENCE, span) for span in encoder.cutter.sentences(document.text)]
    return plan


def _encoded(plan: Plan, vectors: Mapping[str, Floats], dim: int) -> EncodedDocument:
    keys = [Key(kind, vectors[span.encoded_text], span.start, span.end) for kind, span in plan]
    return EncodedDocument(keys, document_value(keys, dim))
