"""The hashing encoder: needs no model files, for tests and trials."""

import hashlib
import re
from collections.abc import Callable, Sequence

import numpy as np

from index.encoding.chunking import PassageCutter
from index.records import EncodedQuery, Floats


class HashingEncoder:
    """Signed feature hashing of words and character trigrams (Weinberger et al. 2009): deterministic, no weights.

    Texts that share words or parts of words have similar vectors.
    """

    def __init__(self, dim: int = 64, window_words: int = 64) -> None:
        self.dim = dim
        self.fingerprint = f"hashing-{dim}-{window_words}"
        self.precision = "fp32 (hashing)"
        self.words: frozenset[str] = frozenset()
        self.cutter = PassageCutter(lambda text: len(text.split()), window_words)

    def encode(self, texts: Sequence[str], encoded: Callable[[int], None] | None = None) -> Floats:
        vectors = np.empty((len(texts), self.dim), np.float32)
        for at, text in enumerate(texts):
            vectors[at] = self._vector(text)
            if encoded:
                encoded(1)
        return vectors

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        return self.encode(texts)

    def encode_query(self, text: str) -> EncodedQuery:
        return EncodedQuery(self.encode_queries([text])[0])

    def known_share(self, text: str) -> float:
        """Return 1: every token has a vector."""
        return 1.0

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
