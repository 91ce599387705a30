"""The encoder of everyday use: a converted model, documents in bulk by one runtime, queries one by one by another.

Documents are encoded by one thread of low priority, in batches of like length, so that searches go first; queries by
the thread that asks. Imports neither torch nor transformers.
"""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from index.encoding.chunking import PassageCutter
from index.encoding.conversion import FP32, INT8, TOKENIZER, padded, read_facts
from index.encoding.precision import Precision, Precisions, choose_precisions, processor_flags
from index.encoding.sessions import Session, Tokens, onnx_session, openvino_session
from index.records import Floats
from index.storage.priority import lower_priority

BATCH_TOKENS, BATCH_TEXTS = 768, 16
"""Most of a forward pass, texts of like length: what a larger one holds leaves the cache, and searches wait for it."""
MULTIPLE = 8
"""Lengths are rounded up to multiples of this many tokens, so that few shapes occur."""
SOUND_COSINE = 0.97
"""Between int8 and float32, the least over probes at which `auto` takes int8 for queries."""


class ConvertedEncoder:
    """A model that `conversion` made; safe to call from several threads.

    A query is always encoded alone: the same text has the same vector to the bit. Raises ImportError where a runtime is
    missing, DamagedFile and NotConvertible as `conversion.read_facts` does.
    """

    def __init__(self, folder: Path, fingerprint: str, precision: Precision = "auto", threads: int = 0) -> None:
        facts = read_facts(folder)
        flags = processor_flags()
        chosen = choose_precisions(precision, flags, facts["int8_cosine"] >= SOUND_COSINE)
        self.fingerprint = fingerprint
        self.dim = int(facts["dim"])
        self.precision = _described(chosen)
        self._pad_id = int(facts["pad_id"])
        # int8 has one scale per batch: alone, a text has the same vector always, and takes no longer
        self._batch_texts, self._multiple = (1, 1) if chosen.documents == "int8" else (BATCH_TEXTS, MULTIPLE)
        self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))  # never changed, so threads may share it
        self.cutter = PassageCutter(_TokenCounter(folder), int(facts["window"]))
        self._query_session = onnx_session(folder / (INT8 if chosen.queries == "int8" else FP32), threads=1)
        self._document_thread = ThreadPoolExecutor(1, "encode", initializer=lower_priority)
        if chosen.documents != "int8" and find_spec("openvino") is None:
            raise ImportError("No module named 'openvino'")  # now, while another runtime can still take its place
        opened = partial(_document_session, folder, chosen, threads or os.cpu_count() or 1)
        self._document_session = cache(opened)  # when documents come: a service that only answers has half the memory

    def encode(self, texts: Sequence[str]) -> Floats:
        """Return unit vectors (len(texts), D) of documents; callers at once take turns, a batch each."""
        vectors = np.empty((len(texts), self.dim), np.float32)
        rows = [one.ids for one in self._tokenizer.encode_batch(list(texts))]
        coming: deque[tuple[list[int], Future[Floats]]] = deque()
        for batch in batches([len(row) for row in rows], self._batch_texts):
            ids, mask = padded([rows[at] for at in batch], self._pad_id, self._multiple)
            coming.append((batch, self._document_thread.submit(self._encode_batch, ids, mask)))
            if len(coming) > 1:  # one is always waiting: the thread goes on while this one takes its vectors
                done, encoded = coming.popleft()
                vectors[done] = encoded.result()
        for done, encoded in coming:
            vectors[done] = encoded.result()
        return vectors

    def _encode_batch(self, ids: Tokens, mask: Tokens) -> Floats:
        return self._document_session()(ids, mask)  # opened on this thread: a runtime's threads inherit its priority

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Return unit vectors (len(texts), D) of queries."""
        vectors = np.empty((len(texts), self.dim), np.float32)
        for at, text in enumerate(texts):
            vectors[at] = self._query_session(*padded([self._tokenizer.encode(text).ids], self._pad_id))[0]
        return vectors


class _TokenCounter:
    """Counts a text's tokens, without the cutting and without special tokens."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        self._tokenizer.no_truncation()

    def __call__(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)


def batches(lengths: Sequence[int], texts: int) -> Iterator[list[int]]:
    """Yield which texts, of these many tokens, go through the model together: of like length, the longest first."""
    left = sorted(range(len(lengths)), key=lambda at: -lengths[at])
    while left:
        size = max(1, min(texts, BATCH_TOKENS // max(1, lengths[left[0]])))
        yield left[:size]
        left = left[size:]


def _document_session(folder: Path, chosen: Precisions, threads: int) -> Session:
    if chosen.documents == "int8":
        return onnx_session(folder / INT8, threads)
    return openvino_session(folder / FP32, threads, chosen.documents)


def _described(chosen: Precisions) -> str:
    runtime = "ONNX Runtime" if chosen.documents == "int8" else "OpenVINO"
    return f"documents {chosen.documents} ({runtime}), queries {chosen.queries} (ONNX Runtime)"
