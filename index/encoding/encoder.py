"""The encoder contract, and the choice of an encoder by its setting. Encoders see texts, never ids or documents.

Three encoders implement the contract: `ConvertedEncoder` for normal use, `SentenceTransformerEncoder` for models that
cannot be converted, and `HashingEncoder`, which needs no weights, for tests.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import structlog

from index.encoding.chunking import PassageCutter
from index.encoding.conversion import converted_in_subprocess
from index.encoding.converted_encoder import ConvertedEncoder
from index.encoding.hashing_encoder import HashingEncoder
from index.encoding.model_files import check_weights, find_model, fingerprint_of, known_files
from index.encoding.precision import Precision
from index.encoding.reference_encoder import SentenceTransformerEncoder
from index.errors import DamagedFile, ModelNotFound
from index.records import EncodedQuery, Floats

HASHING_MODEL = "hashing"
MODEL_FILES = ("modules.json", "config.json", "adapter_config.json")
"""A model of sentence-transformers has the first file or the first two, and a model of transformers the second. An
adapter to another model has the third; sentence-transformers loads it where the package `peft` is installed.
"""

log = structlog.get_logger()


class Encoder(Protocol):
    """Turns texts into unit vectors without NaN; the same text gives the same vector. Safe in several threads."""

    dim: int
    """D, the width of the vectors."""
    fingerprint: str
    """Identifies the model files, not the precision. A collection stores it and refuses any other encoder."""
    precision: str
    """Number formats and runtimes, as text for people."""
    cutter: PassageCutter
    """Cuts documents into passages that fit the window of this encoder."""
    words: frozenset[str]
    """The words that the encoder knows as wholes (`index.encoding.known_words`): they are not corrected in queries."""

    def encode(self, texts: Sequence[str], encoded: Callable[[int], None] | None = None) -> Floats:
        """Return unit vectors (len(texts), D), float32, of documents, in batches, at a lower priority than queries.

        encoded: is called with the number of texts after each batch.
        """
        ...

    def encode_queries(self, texts: Sequence[str]) -> Floats:
        """Return unit vectors (len(texts), D), float32, of queries. Each query is encoded on its own."""
        ...

    def encode_query(self, text: str) -> EncodedQuery:
        """Return the vector that `encode_queries` returns of a text, and the share of its tokens that are known."""
        ...

    def known_share(self, text: str) -> float:
        """Return the share of the tokens of a text that are known, in [0, 1], without encoding it."""
        ...


def load_encoder(model: str, precision: Precision = "auto", cache: Path | None = None) -> Encoder:
    """Return the encoder for a model name: `hashing`, or any model that sentence-transformers loads.

    cache: folder of converted models; None converts nothing. sentence-transformers runs a model that cannot be
    converted, and the log contains the reason. The weights are read, and checked, only if the model is not converted
    already. Raises ModelNotFound, also for a folder without a model, and DamagedFile (weights).
    """
    if model == HASHING_MODEL:
        return HashingEncoder()
    path = find_model(model)
    if not any((path / name).is_file() for name in MODEL_FILES):
        raise ModelNotFound(f"{path} has no model: it has none of the files {', '.join(MODEL_FILES)}")
    failed = ""
    if cache is not None:
        fingerprint = fingerprint_of(path, known_files(model))
        check = partial(_check_files, model, path, fingerprint)
        again = partial(converted_in_subprocess, path, fingerprint, cache, check, whole=True)
        try:
            converted = converted_in_subprocess(path, fingerprint, cache, check)
            return ConvertedEncoder(converted._replace(again=again), fingerprint, precision)
        except Exception as error:  # conversion raises many types; the slower encoder still works
            failed = f"{type(error).__name__}: {error}"
    check_weights(model, path)
    if failed:
        log.warning("encoder_not_converted", encoder=model, why=failed)
    return SentenceTransformerEncoder(str(path), precision)


def _check_files(model: str, path: Path, fingerprint: str) -> None:
    """Raise DamagedFile if the files of a model are not those of this fingerprint."""
    check_weights(model, path)
    if fingerprint_of(path, known_files(model)) != fingerprint:
        raise DamagedFile(f"{path} has other files than at the start")
