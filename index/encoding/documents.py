"""Makes the keys and the value of documents: cuts their texts, and encodes each distinct text once."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from index.encoding.chunking import Span
from index.encoding.encoder import Encoder
from index.records import Document, Floats, Key, KeyKind


class PassageProgress(Protocol):
    """Receives the progress of encoding documents. Calls come from several threads."""

    def plan_passages(self, documents: int, passages: int) -> None:
        """Add documents that were cut, and their number of passages. Passages include titles and sentences."""
        ...

    def advance_passages(self, count: int) -> None:
        """Add the number of passages that were encoded since the last call."""
        ...


@dataclass(frozen=True)
class EncodedDocument:
    """A document's own keys, by kind and in reading order, and its value (D,): the normalised mean of its passages."""

    keys: list[Key]
    value: Floats


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
) -> list[EncodedDocument]:
    """Return keys and value of each document. A text that several documents share, such as a title, is encoded once."""
    planned = []
    distinct: set[str] = set()
    for document in documents:
        before = len(distinct)
        planned.append(_plan(encoder, document, kinds))
        distinct.update(span.encoded_text for _, span in planned[-1])
        if progress:
            progress.plan_passages(1, len(distinct) - before)
    texts = sorted(distinct)
    encoded = encoder.encode(texts, progress.advance_passages) if progress else encoder.encode(texts)
    vectors = dict(zip(texts, encoded, strict=True))
    return [_encoded(plan, vectors, encoder.dim) for plan in planned]


def _plan(encoder: Encoder, document: Document, kinds: Collection[KeyKind]) -> list[tuple[KeyKind, Span]]:
    title = (document.title or "").strip()
    plan: list[tuple[KeyKind, Span]] = []
    if title and KeyKind.TITLE in kinds:
        plan.append((KeyKind.TITLE, Span(0, len(document.title or ""), title)))
    if KeyKind.PASSAGE in kinds:
        plan += [(KeyKind.PASSAGE, span) for span in encoder.cutter.passages(document.text, title)]
    if KeyKind.SENTENCE in kinds:
        plan += [(KeyKind.SENTENCE, span) for span in encoder.cutter.sentences(document.text)]
    return plan


def _encoded(plan: list[tuple[KeyKind, Span]], vectors: dict[str, Floats], dim: int) -> EncodedDocument:
    keys = [Key(kind, vectors[span.encoded_text], span.start, span.end) for kind, span in plan]
    return EncodedDocument(keys, document_value(keys, dim))
