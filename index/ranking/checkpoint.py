"""Model files: a head as safetensors beside a JSON manifest with its sha256; never a pickle.

A damaged safetensors file often loads silently wrong, so the checksum is compared before the library opens it.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from index.errors import DamagedFile
from index.ranking.attention import EVIDENCE, AttentionHead, HeadConfig, initial_parameters
from index.records import Floats
from index.storage.files import read_manifest, sync_directory, write_atomically, write_manifest

WEIGHTS = "head.safetensors"
FORMAT = 2
"""Of the tensors; 1 had five parts of evidence, one form of attention and a null slot of one number."""
EVIDENCE_OF_FORMAT_1 = ("title", "passage", "sentence", "words", "memory")


def save_head(directory: Path, head: AttentionHead, lineage: dict[str, Any]) -> None:
    """Write a head and its manifest into a new directory; it is complete once the manifest is there."""
    directory.mkdir(parents=True)
    write_atomically(directory / WEIGHTS, head_bytes(head))
    write_manifest(directory, [WEIGHTS], {"format": FORMAT, "config": asdict(head.config), "lineage": lineage})
    sync_directory(directory.parent)


def load_head(directory: Path) -> AttentionHead:
    """Return the head; raises DamagedFile when a byte differs from the manifest or the manifest makes no sense."""
    manifest = read_manifest(directory)
    try:
        config, tensors = manifest["config"], load((directory / WEIGHTS).read_bytes())
        written = manifest.get("format", 1)
        if written == 1:
            config, tensors = _from_format_1(config, tensors)
        elif written != FORMAT:
            raise ValueError(f"format {written} is not known here")
        if any(value.dtype != np.float32 for value in tensors.values()):
            raise ValueError("the numbers of a head are float32")
        for value in tensors.values():
            value.flags.writeable = False  # searches share them
        return AttentionHead(HeadConfig(**{key: _tuple(value) for key, value in config.items()}), tensors)
    except (LookupError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
        raise DamagedFile(f"{directory.name}: the manifest does not describe a head") from error


def head_bytes(head: AttentionHead) -> bytes:
    """Return a head's tensors as safetensors: same head, same bytes."""
    return save({name: np.asarray(one, order="C") for name, one in sorted(head.parameters_by_name().items())})


def _from_format_1(config: dict[str, Any], tensors: dict[str, Floats]) -> tuple[dict[str, Any], dict[str, Floats]]:
    """Return what a head of format 1 is in format 2: the same ranking, the new parts of the evidence at weight 0."""
    place = [EVIDENCE.index(name) for name in EVIDENCE_OF_FORMAT_1]

    def widened(values: Floats) -> Floats:
        wide = np.zeros(len(EVIDENCE), np.float32)
        for at, value in zip(place, values, strict=True):
            wide[at] = value
        return wide

    temperature = np.exp(tensors["log_inverse_temperature"])
    null = [float(temperature * tensors.pop("null_evidence")), 1.0, 0.0]
    config = config | {"beta": widened(config["beta"]).tolist(), "null": null}
    del config["null_evidence"]
    initial = initial_parameters(HeadConfig(**{key: _tuple(value) for key, value in config.items()}))
    moved = {"score.up": tensors.pop("up"), "score.down": tensors.pop("down"), "beta": widened(tensors.pop("beta"))}
    kept = {name: tensors[name] for name in ("log_inverse_temperature", "log_memory_gain", "log_memory_sharpness")}
    return config, initial | tensors | kept | moved


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
