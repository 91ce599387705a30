"""Converts a sentence-transformers model to ONNX once, in a folder that is named by the model's fingerprint.

The folder has the model in float32 and twice in int8, with signed and with unsigned weights, the tokenizer, and a
manifest with checksums and facts, which is written last. A damaged folder, or a folder of another format, is converted
again. A file lock keeps processes from converting the same model at the same time. The converted model is accepted only
if it gives the same vectors as sentence-transformers. Conversion needs torch; reading the folder needs neither torch
nor transformers.
"""

import fcntl
import logging
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import structlog
from tokenizers import Tokenizer

from index.encoding.reference_encoder import load_reference, window_of
from index.encoding.sessions import INPUTS, OUTPUT, Session, Tokens, onnx_runtime, onnx_session
from index.errors import DamagedFile, SearchError
from index.records import Floats
from index.storage.files import is_intact, read_manifest, sync_directory, write_manifest

log = structlog.get_logger()

FORMAT, SIGNED_ONLY = 2, 1
"""The format of the folder, and the earlier one without UINT8. That is used where no new folder can be written."""
FP32, INT8, UINT8, TOKENIZER = "fp32.onnx", "int8.onnx", "uint8.onnx", "tokenizer.json"
WHOLE = "whole"
"""The argument of the process that converts, if FP32 is to be checked too."""
TOLERANCE = 1e-3
"""The largest accepted difference between an entry of the converted float32 model's unit vector and the reference."""
LIBRARIES = ("torch", "transformers", "sentence-transformers", "onnx", "onnxscript", "onnxruntime")
"""Libraries that the conversion depends on. A failed conversion is repeated when one of their versions changes."""

PROBES = (
    "How do I delete a folder?",
    "copper price",
    "Ein Satz mit Umlauten: Größe, naïve, ﬁne, ＦＵＬＬ; 漢字 and 😀!",
    "  ",
    "MIXED Case\twith\nodd   spaces, numbers 3.14159 and under_scores",
    "what happens to a cat that sits on the mat when the dog comes in",
    "A longer text, so that other places of the window are seen. " * 6,
    "A text that is longer than any window, which has to be cut where the reference cuts it. " * 80,
)
"""Texts whose vectors are compared: of different lengths, with characters that tokenizers treat differently."""


class NotConvertible(SearchError):
    """The conversion failed, or the converted model gives other vectors than the original model."""


class Converted(NamedTuple):
    """The folder of a converted model, whose files but FP32 were checked, and its facts.

    again: checks FP32 too, converts the model anew if it differs from its manifest, and returns it.
    """

    folder: Path
    facts: dict[str, Any]
    again: Callable[[], "Converted"] | None = None


def converted_model(path: Path, fingerprint: str, cache: Path, whole: bool = False) -> Converted:
    """Return a converted model; converts the model if the folder is missing, damaged or of an earlier format.

    path: the folder of the model. whole: FP32 is checked too. Raises NotConvertible, also if an earlier conversion
    failed. Without a folder of an earlier format it raises OSError (the cache cannot be written) and ImportError (a
    library is missing).
    """
    folder = cache / fingerprint
    found = _complete(folder, whole)
    if _is_current(found):
        return found
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / f"{fingerprint}.lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be converting the same model
            other = _complete(folder, whole)
            return other if _is_current(other) else _written(path, fingerprint, folder)
    except (ImportError, OSError) as error:
        if found is None:
            raise
        log.warning("encoder_not_converted_again", why=f"{type(error).__name__}: {error}")
        return found


def converted_in_subprocess(
    path: Path, fingerprint: str, cache: Path, check: Callable[[], None], whole: bool = False
) -> Converted:
    """Return a converted model; converts it in a separate process, whose end frees the memory of torch.

    check: is called before the model is converted. whole: FP32 is checked too. Errors of that process are ignored;
    `converted_model` raises them.
    """
    found = _complete(cache / fingerprint, whole)
    if _is_current(found):
        return found
    check()
    log.info("encoder_converting", encoder=str(path), into=str(cache))
    model, into, source = path.absolute(), cache.absolute(), Path(__file__).parents[2]
    command = [sys.executable, "-m", "index.encoding.conversion", str(model), fingerprint, str(into), *[WHOLE] * whole]
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, cwd=source)
    return converted_model(path, fingerprint, cache, whole)


def float32_file(model: Converted) -> Path:
    """Return the file FP32 of a model after checking it. A model with a damaged one is converted again.

    It has two thirds of the bytes of a model, and searches need it only where there is no int8. So a start does not
    read it, and the caller that opens it calls this. Raises DamagedFile, and what `converted_model` raises.
    """
    path = model.folder / FP32
    if is_intact(path, model.facts["files"][FP32]):
        return path
    log.warning("converted_encoder_damaged", file=str(path))
    if model.again is None:
        raise DamagedFile(f"{path.name} differs from its manifest")
    return model.again().folder / FP32


def read_facts(folder: Path, whole: bool = True) -> dict[str, Any]:
    """Return the facts of a converted model after checking every file; without `whole` every file but FP32.

    Raises DamagedFile or NotConvertible.
    """
    facts = read_manifest(folder, later=() if whole else (FP32,))
    if facts.get("format") not in (FORMAT, SIGNED_ONLY):
        raise DamagedFile(f"{folder.name}: converted in format {facts.get('format')}, this version reads {FORMAT}")
    if "refused" in facts:
        raise NotConvertible(str(facts["refused"]))
    if facts["format"] == SIGNED_ONLY:
        facts["cosines"] = {INT8: facts["int8_cosine"]}
    return facts


def padded(rows: list[list[int]], pad_id: int, multiple: int = 1) -> tuple[Tokens, Tokens]:
    """Return ids and mask (B, T) of rows of ids; T is the length of the longest row, rounded up to a multiple."""
    width = -(-max(len(row) for row in rows) // multiple) * multiple
    ids = np.full((len(rows), width), pad_id, np.int64)
    mask = np.zeros((len(rows), width), np.int64)
    for at, row in enumerate(rows):
        ids[at, : len(row)] = row
        mask[at, : len(row)] = 1
    return ids, mask


def _complete(folder: Path, whole: bool) -> Converted | None:
    """Return the converted model of a folder, None if it is missing or damaged."""
    try:
        return Converted(folder, read_facts(folder, whole))
    except DamagedFile:
        return None
    except NotConvertible:
        if read_manifest(folder)["makers"] != _library_versions():
            return None
        raise


def _is_current(found: Converted | None) -> TypeGuard[Converted]:
    return found is not None and found.facts["format"] == FORMAT


def _written(path: Path, fingerprint: str, folder: Path) -> Converted:
    """Convert into a temporary folder and rename it, so that the final folder is complete when it exists."""
    partial = folder.with_name(f"{fingerprint}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # left by a killed process
    partial.mkdir()
    facts: dict[str, Any] = {"format": FORMAT, "fingerprint": fingerprint, "makers": _library_versions()}
    try:
        facts |= _convert(path, partial)
    except (ImportError, OSError):
        shutil.rmtree(partial, ignore_errors=True)
        raise
    except Exception as error:  # torch.export and the runtimes raise many types
        for left in partial.iterdir():
            left.unlink()
        write_manifest(partial, [], facts | {"refused": f"{type(error).__name__}: {str(error)[:300]}"})
    else:
        write_manifest(partial, [FP32, INT8, UINT8, TOKENIZER], facts)
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    sync_directory(folder.parent)
    return Converted(folder, read_facts(folder))


def _convert(path: Path, folder: Path) -> dict[str, Any]:
    """Write the four files of a model; return its dim, window, pad_id and least int8 cosines."""
    onnx_runtime()
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = load_reference(path)
    tokenizer = model.tokenizer.backend_tokenizer
    pad_id = int(model.tokenizer.pad_token_id)
    window = window_of(model)
    wanted = _reference_vectors(model)
    tokenizer.enable_truncation(window)
    tokenizer.no_padding()
    (folder / TOKENIZER).write_text(tokenizer.to_str(), encoding="utf-8")
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    with _silence():
        _export(model, folder / FP32, window)
        for name, weights in ((INT8, QuantType.QInt8), (UINT8, QuantType.QUInt8)):
            quantize_dynamic(folder / FP32, folder / name, weight_type=weights, per_channel=True)
    difference = float(np.abs(_probe(onnx_session(folder / FP32, 1), tokenizer, pad_id, size=4) - wanted).max())
    if not difference < TOLERANCE:
        raise NotConvertible(f"the converted model differs from sentence-transformers by {difference:.2g}")
    cosines = {}
    for name in (INT8, UINT8):
        vectors = _probe(onnx_session(folder / name, 1), tokenizer, pad_id, size=1)
        cosines[name] = round(float((vectors * wanted).sum(axis=1).min()), 4)
    return {"dim": wanted.shape[1], "window": window, "pad_id": pad_id, "cosines": cosines}


def _export(model: Any, path: Path, window: int) -> None:
    """Write the pipeline of a SentenceTransformer, including pooling, as ONNX with dynamic B and T."""
    import torch

    class Pipeline(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            features = {"input_ids": input_ids, "attention_mask": attention_mask}
            return torch.nn.functional.normalize(self.model.forward(features)["sentence_embedding"], dim=1)

    ids = torch.arange(1, 22).reshape(3, 7)
    mask = torch.ones_like(ids)
    mask[1, 5:] = 0
    shape = {0: torch.export.Dim("texts"), 1: torch.export.Dim("tokens", max=window)}
    with torch.inference_mode():
        torch.onnx.export(
            Pipeline().eval(),
            (ids, mask),
            path,
            input_names=INPUTS,
            output_names=[OUTPUT],
            dynamic_shapes=dict.fromkeys(INPUTS, shape),
            dynamo=True,
            external_data=False,
            verbose=False,
        )


def _reference_vectors(model: Any) -> Floats:
    vectors: Floats = model.encode(list(PROBES), normalize_embeddings=True, show_progress_bar=False).astype(np.float32)
    return vectors


def _probe(session: Session, tokenizer: Tokenizer, pad_id: int, size: int) -> Floats:
    """Return vectors of PROBES, in padded batches of `size` texts."""
    rows = [encoded.ids for encoded in tokenizer.encode_batch(list(PROBES))]
    batches = [rows[start : start + size] for start in range(0, len(rows), size)]
    return np.concatenate([session(*padded(batch, pad_id, multiple=16)) for batch in batches])


def _library_versions() -> dict[str, str]:
    return {name: version(name) for name in LIBRARIES}


@contextmanager
def _silence() -> Iterator[None]:
    """Suppress the warnings of exporters, which are meant for developers."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


if __name__ == "__main__":
    converted_model(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), whole=sys.argv[4:] == [WHOLE])
