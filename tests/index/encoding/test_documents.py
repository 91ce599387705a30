"""Every key is the vector of its text, and each distinct text is encoded once."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np
import pytest

from index.encoding.documents import EncodedDocument, encode_documents, words_of
from index.encoding.encoder import Encoder
from index.encoding.hashing_encoder import HashingEncoder
from index.records import OWN_KINDS, Document, Floats, KeyKind

TITLED = Document("1", "The cat sat. The dog ran.", title="Animals")
PLAIN = Document("2", "Copper fell. " * 60)
EMPTY = Document("3", "")


class CountingEncoder(HashingEncoder):
    """Records the texts that it encodes."""

    def __init__(self) -> None:
        super().__init__(dim=32)
        self.texts: list[str] = []

    def encode(self, texts: Sequence[str], encoded: Callable[[int], None] | None = None) -> Floats:
        self.texts += texts
        return super().encode(texts, encoded)


def kinds_of(document: Document, *kinds: KeyKind) -> list[KeyKind]:
    return [key.kind for key in encode_documents(HashingEncoder(), [document], kinds)[0].keys]


def test_a_document_has_keys_of_the_requested_kinds_only() -> None:
    assert kinds_of(TITLED, *OWN_KINDS) == [KeyKind.TITLE, KeyKind.PASSAGE, KeyKind.SENTENCE]
    assert kinds_of(TITLED, KeyKind.PASSAGE) == [KeyKind.PASSAGE]
    assert kinds_of(TITLED, KeyKind.TITLE, KeyKind.PASSAGE) == [KeyKind.TITLE, KeyKind.PASSAGE]
    assert kinds_of(TITLED) == []


def test_a_document_without_a_title_has_no_title_key() -> None:
    assert KeyKind.TITLE not in kinds_of(PLAIN, *OWN_KINDS)
    assert KeyKind.TITLE not in kinds_of(Document("4", "text", title="  "), *OWN_KINDS)


def test_an_empty_document_has_no_keys_and_a_value_of_zero() -> None:
    encoded = encode_documents(HashingEncoder(dim=8), [EMPTY], OWN_KINDS)[0]
    assert encoded.keys == []
    assert encoded.value.tolist() == [0.0] * 8


def test_every_key_is_the_vector_of_its_span() -> None:
    encoder = HashingEncoder(dim=32)
    for document in (TITLED, PLAIN):
        keys = encode_documents(encoder, [document], OWN_KINDS)[0].keys
        assert len(keys) > 2
        for key in keys:
            query_key = document.title if key.kind is KeyKind.TITLE else document.text
            text = (query_key or "")[key.start : key.end]
            read = f"{document.title}\n{text}" if key.kind is KeyKind.PASSAGE and document.title else text
            assert np.array_equal(key.vector, encoder.encode([read])[0])


def test_keys_of_a_kind_are_in_reading_order() -> None:
    keys = encode_documents(HashingEncoder(), [PLAIN], OWN_KINDS)[0].keys
    starts = [key.start for key in keys if key.kind is KeyKind.PASSAGE]
    assert len(starts) > 1
    assert starts == sorted(starts)


def test_the_value_is_the_unit_mean_of_the_passages() -> None:
    varied = Document("5", " ".join(f"word{number}" for number in range(150)))
    encoded = encode_documents(HashingEncoder(dim=32), [varied], OWN_KINDS)[0]
    passages = [key.vector for key in encoded.keys if key.kind is KeyKind.PASSAGE]
    mean = sum(passages) / len(passages)
    assert np.linalg.norm(mean) < 0.99
    assert encoded.value == pytest.approx(mean / np.linalg.norm(mean), abs=1e-6)
    assert encoded.value.dtype == np.float32


def test_a_document_has_the_same_vectors_alone_and_among_others() -> None:
    together = encode_documents(HashingEncoder(), [PLAIN, EMPTY, TITLED], OWN_KINDS)[2]
    alone = encode_documents(HashingEncoder(), [TITLED], OWN_KINDS)[0]
    assert len(together.keys) == len(alone.keys)
    for one, other in zip(together.keys, alone.keys, strict=True):
        assert np.array_equal(one.vector, other.vector)
        assert (one.kind, one.start, one.end) == (other.kind, other.start, other.end)


def test_a_text_that_occurs_twice_is_encoded_once() -> None:
    encoder = CountingEncoder()
    documents = [Document(str(number), f"Text {number}.", title="Shared title") for number in range(5)]
    encoded = encode_documents(encoder, documents, [KeyKind.TITLE])
    assert encoder.texts == ["Shared title"]
    assert all(np.array_equal(one.keys[0].vector, encoded[0].keys[0].vector) for one in encoded)


def test_no_documents_give_no_vectors() -> None:
    assert encode_documents(HashingEncoder(), [], OWN_KINDS) == []


def test_the_words_of_a_document_are_its_title_and_text() -> None:
    assert words_of(TITLED) == "Animals\nThe cat sat. The dog ran."
    assert words_of(PLAIN).strip() == PLAIN.text.strip()


class Counts:
    """Records the progress of encoding."""

    def __init__(self) -> None:
        self.planned: list[tuple[int, int]] = []
        self.kept: list[int] = []
        self.done: list[int] = []

    def plan_passages(self, documents: int, passages: int, kept: int = 0) -> None:
        self.planned.append((documents, passages))
        self.kept.append(kept)

    def advance_passages(self, count: int) -> None:
        self.done.append(count)


def test_the_progress_counts_distinct_passages_also_inside_a_document() -> None:
    counts = Counts()
    encode_documents(HashingEncoder(), [PLAIN, PLAIN, TITLED, EMPTY], {KeyKind.PASSAGE}, counts)
    passages = len(encode_documents(HashingEncoder(), [PLAIN], {KeyKind.PASSAGE})[0].keys)
    assert passages > 1
    assert [documents for documents, _ in counts.planned] == [1, 1, 1, 1]
    assert [planned for _, planned in counts.planned][1:] == [0, 1, 0]
    assert sum(planned for _, planned in counts.planned) == sum(counts.done)
    assert len(counts.done) > 1


def encoded_again(
    document: Document, earlier: Document, kinds: Collection[KeyKind] = OWN_KINDS, made_by: Encoder | None = None
) -> tuple[list[str], EncodedDocument]:
    """Return the texts that are encoded where an earlier version is stored, and the keys of the document."""
    stored = encode_documents(made_by or HashingEncoder(dim=32), [earlier], kinds)[0]
    encoder, counts = CountingEncoder(), Counts()
    (encoded,) = encode_documents(encoder, [document], OWN_KINDS, counts, {document.id: (earlier, stored)})
    assert counts.planned == [(1, len(encoder.texts))]
    assert counts.kept == [len({key.vector.tobytes() for key in encoded.keys}) - len(encoder.texts)]
    return encoder.texts, encoded


def test_a_document_with_the_same_texts_has_the_stored_vectors() -> None:
    texts, encoded = encoded_again(replace(TITLED, metadata={"price": 3}), TITLED)
    fresh = encode_documents(HashingEncoder(dim=32), [TITLED], OWN_KINDS)[0]
    assert texts == []
    assert [key.vector.tolist() for key in encoded.keys] == [key.vector.tolist() for key in fresh.keys]
    assert encoded.value.tolist() == fresh.value.tolist()


def test_only_texts_that_no_stored_key_has_are_encoded() -> None:
    assert encoded_again(replace(TITLED, title="Pets"), TITLED)[0] == ["Pets", "Pets\nThe cat sat. The dog ran."]
    assert encoded_again(TITLED, TITLED, {KeyKind.TITLE, KeyKind.PASSAGE})[0] == ["The cat sat. The dog ran."]


def test_keys_of_another_cutter_have_no_known_texts() -> None:
    varied = Document("5", " ".join(f"word{number}" for number in range(150)))
    texts, _ = encoded_again(varied, varied, {KeyKind.PASSAGE}, HashingEncoder(dim=32, window_words=50))
    fresh = encode_documents(HashingEncoder(dim=32), [varied], OWN_KINDS)[0]
    assert len(texts) == len(fresh.keys)
