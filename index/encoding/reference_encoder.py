"""The reference encoder: sentence-transformers on torch, for any of its models."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from index.encoding.chunking import PassageCutter
from index.encoding.known_words import known_share, known_words
from index.encoding.model_files import DEFAULT_MODEL, fingerprint_of, locate_model
from index.encoding.precision import Precision, processor_flags, uses_bfloat16
from index.encoding.token_counting import TokenCounter
from index.records import EncodedQuery, Floats

BATCH_TEXTS = 16
"""Texts of similar length per forward pass. On a CPU, larger batches are not faster and take more memory."""
DEFAULT_WINDOW_TOKENS = 512


class SentenceTransformerEncoder:
    """Any sentence-transformers model, by name or path, on the CPU; safe to call from several threads.

    Weights are bfloat16 where `uses_bfloat16` says so; int8 counts as `auto`. Vectors are always float32.
    """

    def __init__(self, model: str = DEFAULT_MODEL, precision: Precision = "auto") -> None:
        path = locate_model(model)
        self._model = load_reference(path)
        self.precision = "fp32 (sentence-transformers)"
        if uses_bfloat16("auto" if precision == "int8" else precision, processor_flags()):
            self._model.bfloat16()  # nearly twice as fast; cosine to float32 above .999 (docs/performance/encoders.md)
            self.precision = "bf16 (sentence-transformers)"
        self._tokenizer_lock = threading.Lock()  # fast tokenizers raise "Already borrowed" when threads share one
        self.fingerprint = fingerprint_of(path)
        self.words = known_words(self._model.tokenizer.get_vocab())
        self.cutter = PassageCutter(_token_counter(path), window_of(self._model))
        self.dim = int(self._forward(["width"]).shape[1])

    def encode(self, texts: Sequence[str], encoded: Callable[[int], None] | None = None) -> Floats:
        """Return unit vectors (len(texts), D) of documents."""
        vectors = np.empty((len(texts), self.dim), np.float32)
        by_length = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        for start in range(0, len(texts), BATCH_TEXTS):
            batch = by_length[start : start + BATCH_TEXTS]
            vectors[batch] = self._forward([texts[i] for i in batch])
            if encoded:
                encoded(len(batch))
        return vectors

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Return unit vectors (len(texts), D) of queries."""
        vectors = np.empty((len(texts), self.dim), np.float32)
        for at, text in enumerate(texts):
            vectors[at] = self._forward([text])[0]
        return vectors

    def encode_query(self, text: str) -> EncodedQuery:
        """Return the unit vector (D,) of a query, and the share of its tokens that are known."""
        features = self._features([text])
        vector: Floats = self._vectors(features)[0]
        return EncodedQuery(vector, self._known_share(features))

    def known_share(self, text: str) -> float:
        """Return the share of the tokens of a text that are known."""
        return self._known_share(self._features([text]))

    def _known_share(self, features: dict[str, Any]) -> float:
        tokenizer = self._model.tokenizer
        ids = features["input_ids"][0].tolist()
        return known_share(ids, tokenizer.unk_token_id, tokenizer.num_special_tokens_to_add(pair=False))

    def _forward(self, texts: list[str]) -> Floats:
        return self._vectors(self._features(texts))

    def _features(self, texts: list[str]) -> dict[str, Any]:
        with self._tokenizer_lock:
            features: dict[str, Any] = self._model.preprocess(texts)
        return features

    def _vectors(self, features: dict[str, Any]) -> Floats:
        import torch

        with torch.inference_mode():
            vectors = self._model.forward(features)["sentence_embedding"]
            normal: Floats = torch.nn.functional.normalize(vectors.float(), dim=1).numpy()
        return normal


def load_reference(path: Path) -> Any:
    """Return the SentenceTransformer of a folder, in float32."""
    from sentence_transformers import SentenceTransformer  # slow to import, so only when a model is loaded

    return SentenceTransformer(str(path), device="cpu", local_files_only=True).float().eval()


def window_of(model: Any) -> int:
    """Return the longest input of a SentenceTransformer in tokens."""
    return int(model.max_seq_length or DEFAULT_WINDOW_TOKENS)


def _token_counter(folder: Path) -> Callable[[str], int]:
    """Return a function that counts the tokens of a text with its own tokenizer, which no encoding thread uses."""
    from tokenizers import Tokenizer

    if (folder / "tokenizer.json").is_file():
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    else:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(str(folder)).backend_tokenizer
    return TokenCounter(tokenizer)
