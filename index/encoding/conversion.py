"""Converts a sentence-transformers model once, as a whole, and keeps the result in a folder named by its fingerprint.

The folder has the model in float32 and in int8 (ONNX), the tokenizer, and a manifest with checksums and facts that is
written last. What is damaged or of another format is made anew; processes wait for each other on a lock. A converted
model is kept only if it gives the vectors that sentence-transformers gives. Knows torch; whoever reads the folder
needs neither torch nor transformers.
"""

import fcntl
import logging
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import structlog
from tokenizers import Tokenizer

from index.encoding.reference_encoder import load_reference, window_of
from index.encoding.sessions import INPUTS, OUTPUT, Session, Tokens, onnx_session
from index.errors import DamagedFile, SearchError
from index.records import Floats
from index.storage.files import read_manifest, sync_directory, write_manifest

log = structlog.get_logger()

FORMAT = 1
FP32, INT8, TOKENIZER = "fp32.onnx", "int8.onnx", "tokenizer.json"
TOLERANCE = 1e-3
"""Largest difference of an entry of a unit vector in float32 at which two runtimes give the same vector."""
MAKERS = ("torch", "transformers", "sentence-transformers", "onnx", "onnxscript", "onnxruntime")
"""Libraries that decide whether a model converts: one that did not is tried again when they change."""

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
"""Texts whose vectors are compared: of many lengths, with what tokenizers treat differently."""


class NotConvertible(SearchError):
    """The converted model does not give the vectors of the one that it was made from."""


def converted_model(path: Path, fingerprint: str, cache: Path) -> Path:
    """Return the folder of a model's converted files, which are made there unless they lie there whole.

    path: the model's own files. Raises NotConvertible, OSError (the cache cannot be written), ImportError (a library
    is missing), and whatever a library raises that cannot convert the model. A refusal is remembered.
    """
    folder = cache / fingerprint
    if _is_whole(folder):
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{fingerprint}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be making the same
        if not _is_whole(folder):
            _make(path, fingerprint, folder)
    return folder


def convert_apart(path: Path, fingerprint: str, cache: Path) -> None:
    """Make a model's converted files in a process of its own, unless they lie there: what torch takes goes with it.

    Whatever goes wrong there `converted_model` will meet again, and raise, here.
    """
    try:
        if _is_whole(cache / fingerprint):
            return
    except NotConvertible:
        return
    log.info("encoder_converting", encoder=str(path), into=str(cache))
    model, into, source = path.absolute(), cache.absolute(), Path(__file__).parents[2]
    command = [sys.executable, "-m", "index.encoding.conversion", str(model), fingerprint, str(into)]
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, cwd=source)


def read_facts(folder: Path) -> dict[str, Any]:
    """Return a converted model's facts after checking every file. Raises DamagedFile, NotConvertible (remembered)."""
    facts = read_manifest(folder)
    if facts.get("format") != FORMAT:
        raise DamagedFile(f"{folder.name}: converted in format {facts.get('format')}, this version reads {FORMAT}")
    if "refused" in facts:
        raise NotConvertible(str(facts["refused"]))
    return facts


def padded(rows: list[list[int]], pad_id: int, multiple: int = 1) -> tuple[Tokens, Tokens]:
    """Return ids and mask (B, T) of rows of ids, T being the longest, rounded up to a multiple."""
    width = -(-max(len(row) for row in rows) // multiple) * multiple
    ids = np.full((len(rows), width), pad_id, np.int64)
    mask = np.zeros((len(rows), width), np.int64)
    for at, row in enumerate(rows):
        ids[at, : len(row)] = row
        mask[at, : len(row)] = 1
    return ids, mask


def _is_whole(folder: Path) -> bool:
    try:
        read_facts(folder)
    except DamagedFile:
        return False
    except NotConvertible:
        if read_manifest(folder)["makers"] != _makers():
            return False
        raise
    return True


def _make(path: Path, fingerprint: str, folder: Path) -> None:
    """Convert into a folder aside and rename it, so that a folder is whole or not there."""
    aside = folder.with_name(f"{fingerprint}.partial")
    shutil.rmtree(aside, ignore_errors=True)  # of a process that was killed
    aside.mkdir()
    facts: dict[str, Any] = {"format": FORMAT, "fingerprint": fingerprint, "makers": _makers()}
    try:
        facts |= _convert(path, aside)
    except (ImportError, OSError):
        shutil.rmtree(aside, ignore_errors=True)
        raise
    except Exception as error:  # torch.export and the runtimes raise dozens of kinds: none of them converts this model
        for left in aside.iterdir():
            left.unlink()
        write_manifest(aside, [], facts | {"refused": f"{type(error).__name__}: {str(error)[:300]}"})
    else:
        write_manifest(aside, [FP32, INT8, TOKENIZER], facts)
    shutil.rmtree(folder, ignore_errors=True)
    aside.rename(folder)
    sync_directory(folder.parent)
    read_facts(folder)


def _convert(path: Path, folder: Path) -> dict[str, Any]:
    """Write the three files of a model; return its width, window and the like."""
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
        quantize_dynamic(folder / FP32, folder / INT8, weight_type=QuantType.QInt8, per_channel=True)
    difference = float(np.abs(_probe(onnx_session(folder / FP32, 1), tokenizer, pad_id, size=4) - wanted).max())
    if not difference < TOLERANCE:
        raise NotConvertible(f"the converted model differs from sentence-transformers by {difference:.2g}")
    cosines = (_probe(onnx_session(folder / INT8, 1), tokenizer, pad_id, size=1) * wanted).sum(axis=1)
    return {"dim": wanted.shape[1], "window": window, "pad_id": pad_id, "int8_cosine": round(float(cosines.min()), 4)}


def _export(model: Any, path: Path, window: int) -> None:
    """Write the whole pipeline of a SentenceTransformer, pooling included, as ONNX with free B and T."""
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
    """Return vectors of the probes, padded in batches of a size."""
    rows = [one.ids for one in tokenizer.encode_batch(list(PROBES))]
    batches = [rows[start : start + size] for start in range(0, len(rows), size)]
    return np.concatenate([session(*padded(batch, pad_id, multiple=16)) for batch in batches])


def _makers() -> dict[str, str]:
    return {name: version(name) for name in MAKERS}


@contextmanager
def _silence() -> Iterator[None]:
    """Keep exporters' advice to their developers out of a service's log."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


if __name__ == "__main__":
    converted_model(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
