"""Turns texts into unit vectors. Sees texts, never ids or documents.

One contract, three encoders: a converted model for use, sentence-transformers for models that do not convert, and a
hashing encoder that needs no weights, for tests.
"""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import structlog

from index.encoding.chunking import PassageCutter
from index.encoding.conversion import convert_apart, converted_model
from index.encoding.converted_encoder import ConvertedEncoder
from index.encoding.model_files import fingerprint_of, locate_model
from index.encoding.precision import Precision
from index.encoding.reference_encoder import SentenceTransformerEncoder
from index.records import Floats

HASHING_MODEL = "hashing"

log = structlog.get_logger()


class Encoder(Protocol):
    """What every encoder promises: same text, same vector; unit length; NaN-free; calls from several threads."""

    dim: int
    """D, the width of a vector."""
    fingerprint: str
    """Of the files that decide the vectors: collections remember it and refuse another. Precision is not part of it."""
    precision: str
    """What it computes with, for people."""
    cutter: PassageCutter
    """Cuts documents to what this encoder reads to its end."""

    def encode(self, texts: Sequence[str]) -> Floats:
        """Return unit vectors (len(texts), D), float32, of documents: in bulk, and behind queries."""
        ...

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Return unit vectors (len(texts), D), float32, of queries: at once, and each as if it were alone."""
        ...


class HashingEncoder:
    """Signed feature hashing of words and character trigrams (Weinberger et al. 2009): deterministic, no weights.

    Texts that share words or parts of words are near each other, which is all that tests need.
    """

    def __init__(self, dim: int = 64, window_words: int = 64) -> None:
        self.dim = dim
        self.fingerprint = f"hashing-{dim}-{window_words}"
        self.precision = "fp32 (hashing)"
        self.cutter = PassageCutter(lambda text: len(text.split()), window_words)

    def encode(self, texts: Sequence[str]) -> Floats:
        return np.stack([self._vector(text) for text in texts]) if texts else np.empty((0, self.dim), np.float32)

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        return self.encode(texts)

    def _vector(self, text: str) -> Floats:
        vector = np.zeros(self.dim, np.float32)
        for word in re.findall(r"\w+", text.lower()):
            padded = f"^{word}$"
            for feature in [word, *(padded[i : i + 3] for i in range(len(padded) - 2))]:
                digest = hashlib.blake2b(feature.encode("utf-8", "replace"), digest_size=8).digest()
                number = int.from_bytes(digest, "little")
                vector[number % self.dim] += 1.0 if number >> 63 else -1.0
        if not vector.any():
            vector[0] = 1.0
        normal: Floats = vector / np.linalg.norm(vector)
        return normal


def load_encoder(model: str, precision: Precision = "auto", cache: Path | None = None) -> Encoder:
    """Return the encoder that a setting names: `hashing`, or anything that sentence-transformers loads.

    cache: where converted models are kept; without it nothing is converted. A model that cannot be converted is run by
    sentence-transformers, and the log says why. Raises ModelNotFound and DamagedFile (weights).
    """
    if model == HASHING_MODEL:
        return HashingEncoder()
    path = locate_model(model)
    if cache is not None:
        fingerprint = fingerprint_of(path)
        convert_apart(path, fingerprint, cache)
        try:
            return ConvertedEncoder(converted_model(path, fingerprint, cache), fingerprint, precision)
        except Exception as error:  # of whatever kind: a slower encoder is better than none
            log.warning("encoder_not_converted", encoder=model, why=f"{type(error).__name__}: {error}")
    return SentenceTransformerEncoder(str(path), precision)
