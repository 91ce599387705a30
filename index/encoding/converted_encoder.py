"""The encoder for normal use: a converted model. One runtime encodes documents in batches, another single queries.

One thread of low priority encodes documents, in batches of the same padded length, so that searches go first. The
calling thread encodes queries. Imports neither torch nor transformers.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

import numpy as np
import structlog
from tokenizers import Tokenizer

from index.encoding.chunking import PassageCutter
from index.encoding.conversion import INT8, TOKENIZER, UINT8, Converted, float32_file, padded
from index.encoding.known_words import UNKNOWN, known_share, known_words
from index.encoding.precision import (
    Precision,
    Precisions,
    choose_precisions,
    cores,
    has_unsigned_weights,
    processor_flags,
)
from index.encoding.sessions import Session, Tokens, onnx_session, openvino_session
from index.encoding.token_counting import TokenCounter
from index.records import EncodedQuery, Floats
from index.storage.priority import lower_priority

log = structlog.get_logger()

BATCH_TOKENS, BATCH_TEXTS = 768, 16
"""The most tokens and texts of a forward pass. A larger pass does not fit the processor's cache and delays searches."""
MULTIPLE = 8
"""Lengths are rounded up to a multiple of this many tokens, so that few shapes occur."""
SOUND_COSINE = 0.97
"""The least cosine between int8 and float32 vectors, over all probes, at which `auto` uses int8 for queries."""


class ConvertedEncoder:
    """An encoder that runs a converted model; safe to call from several threads.

    Each query is encoded on its own, so the same text has the same vector to the bit. A document shares a forward pass
    only with texts of its own padded length: a kernel may sum in another order for another length, so its vector would
    depend on the texts beside it (docs/experiments.md). Raises ImportError if a runtime is missing.
    """

    def __init__(self, model: Converted, fingerprint: str, precision: Precision = "auto") -> None:
        folder, facts = model.folder, model.facts
        flags = processor_flags()
        fitting = UINT8 if has_unsigned_weights(flags) else INT8
        cosines: dict[str, float] = facts["cosines"]
        chosen = choose_precisions(precision, flags, cosines.get(fitting, 0.0) >= SOUND_COSINE)
        int8 = fitting if fitting in cosines else INT8  # for the setting `int8` and a conversion of an earlier version
        self.fingerprint = fingerprint
        self.dim = int(facts["dim"])
        self.precision = _described(chosen)
        self._pad_id = int(facts["pad_id"])
        # int8 has one scale per batch: a text on its own always has the same vector, and is as fast
        self._batch_texts, self._multiple = (1, 1) if chosen.documents == "int8" else (BATCH_TEXTS, MULTIPLE)
        self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))  # immutable, so threads may share it
        unknown = (self._tokenizer.token_to_id(token) for token in UNKNOWN)
        self._unknown = next((token for token in unknown if token is not None), None)
        self._special = self._tokenizer.num_special_tokens_to_add(False)
        self.words = known_words(self._tokenizer.get_vocab(with_added_tokens=False))
        self.cutter = PassageCutter(TokenCounter(Tokenizer.from_file(str(folder / TOKENIZER))), int(facts["window"]))
        self._query_session = onnx_session(_file_of(model, chosen.queries, int8), threads=1)
        self._document_thread = ThreadPoolExecutor(1, "encode", initializer=lower_priority)
        if chosen.documents != "int8" and find_spec("openvino") is None:
            raise ImportError("No module named 'openvino'")  # raised here, so that the caller can use another encoder
        # opened for the first document: a process that only encodes queries needs half the memory
        document_file = partial(_file_of, model, chosen.documents, int8)
        self._document_session = cache(partial(_document_session, document_file, chosen, cores()))

    def encode(self, texts: Sequence[str], encoded: Callable[[int], None] | None = None) -> Floats:
        """Return unit vectors (len(texts), D) of documents. Concurrent callers take turns after each batch."""
        vectors = np.empty((len(texts), self.dim), np.float32)
        rows = [tokens.ids for tokens in self._tokenizer.encode_batch(list(texts))]
        pending: deque[tuple[list[int], Future[Floats]]] = deque()

        def take() -> None:
            done, batch_vectors = pending.popleft()
            vectors[done] = batch_vectors.result()
            if encoded:
                encoded(len(done))

        for batch in batches([len(row) for row in rows], self._batch_texts, self._multiple):
            ids, mask = padded([rows[at] for at in batch], self._pad_id, self._multiple)
            pending.append((batch, self._document_thread.submit(self._encode_batch, ids, mask)))
            if len(pending) > 1:  # the next batch is queued already, so the document thread never waits
                take()
        while pending:
            take()
        return vectors

    def _encode_batch(self, ids: Tokens, mask: Tokens) -> Floats:
        return self._document_session()(ids, mask)  # opened on this thread: its threads inherit the priority

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Return unit vectors (len(texts), D) of queries."""
        vectors = np.empty((len(texts), self.dim), np.float32)
        for at, text in enumerate(texts):
            vectors[at] = self.encode_query(text).vector
        return vectors

    def encode_query(self, text: str) -> EncodedQuery:
        """Return the unit vector (D,) of a query, and the share of its tokens that are known."""
        ids = self._tokenizer.encode(text).ids
        # a copy: the result of the runtime lies in its own pool, and vectors that are kept there make the pool grow
        vector: Floats = self._query_session(*padded([ids], self._pad_id))[0].copy()
        return EncodedQuery(vector, known_share(ids, self._unknown, self._special))

    def known_share(self, text: str) -> float:
        """Return the share of the tokens of a text that are known."""
        return known_share(self._tokenizer.encode(text).ids, self._unknown, self._special)


def batches(lengths: Sequence[int], texts: int, multiple: int) -> Iterator[list[int]]:
    """Yield batches of text numbers, for texts of these lengths in tokens, the longest texts first.

    The texts of a batch have the same length, rounded up to a multiple. The last texts of a length are divided into
    powers of two: kernels are made for each shape that did not come lately.
    """
    longest_first = sorted(range(len(lengths)), key=lambda at: -lengths[at])
    for length, same in groupby(longest_first, key=lambda at: -(-lengths[at] // multiple) * multiple):
        left = list(same)
        size = max(1, min(texts, BATCH_TOKENS // max(1, length)))
        while left:
            count = min(size, 1 << (len(left).bit_length() - 1))
            yield left[:count]
            left = left[count:]


def _file_of(model: Converted, precision: str, int8: str) -> Path:
    """Return the checked file of a precision. int8: the name of the file in int8. Raises DamagedFile."""
    return model.folder / int8 if precision == "int8" else float32_file(model)


def _document_session(document_file: Callable[[], Path], chosen: Precisions, threads: int) -> Session:
    """Return the session for documents: OpenVINO, or ONNX Runtime in float32 where OpenVINO cannot compile the model.

    OpenVINO fails where the processor has an instruction set that its kernels may not use (ONEDNN_MAX_CPU_ISA).
    """
    model = document_file()
    if chosen.documents == "int8":
        return onnx_session(model, threads)
    try:
        return openvino_session(model, threads, chosen.documents)
    except RuntimeError as error:
        log.warning(
            "openvino_cannot_compile", precision=chosen.documents, runtime="ONNX Runtime", reason=str(error)[:300]
        )
        return onnx_session(model, threads)


def _described(chosen: Precisions) -> str:
    runtime = "ONNX Runtime" if chosen.documents == "int8" else "OpenVINO"
    return f"documents {chosen.documents} ({runtime}), queries {chosen.queries} (ONNX Runtime)"
