"""The files of a model: a head as a safetensors file and a JSON manifest with its sha256; never a pickle.

A damaged safetensors file often loads without an error, so its checksum is compared before the library opens it.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from index.errors import DamagedFile
from index.ranking.attention import EVIDENCE, AttentionHead, HeadConfig, initial_parameters
from index.ranking.priors import PARAMETERS
from index.records import Floats
from index.storage.files import MANIFEST, check_files, manifest_of, read_files, sync_directory, write_atomically

WEIGHTS = "head.safetensors"
FORMAT = 8
"""Version of the tensor layout. Version 1 has five parts of evidence, one form of attention and a scalar null slot;
version 2 has no corrected and no completed words; version 3 has no balance of words and meaning; version 4 has no
context; version 5 has no rank of values; version 6 has no priors; version 7 has no priors of fields."""
LACKED = {"balance": (4, (len(HeadConfig.balance),)), "context": (5, ())}
"""Parameter -> the first format that has it, and its shape. It is 0 in models of older formats."""
EVIDENCE_OF_FORMAT = {
    1: ("title", "passage", "sentence", "words", "memory"),
    2: ("title", "passage", "sentence", "words", "coverage", "proximity", "phrase", "memory"),
}
"""Format -> its parts of the evidence."""
LIKE_WORDS = ("corrected", "completed")
"""Parts that older formats lack, with the weight of exact words there: they are 0 for the queries that those saw."""


def head_files(head: AttentionHead, lineage: dict[str, Any]) -> dict[str, bytes]:
    """Return the files of a head: name -> bytes. The manifest is the last."""
    weights = {WEIGHTS: head_bytes(head)}
    facts = {"format": FORMAT, "config": asdict(head.config), "lineage": lineage}
    return weights | {MANIFEST: manifest_of(weights, facts)}


def save_head(directory: Path, head: AttentionHead, lineage: dict[str, Any]) -> None:
    """Write a head to a new directory. The manifest is written last: a directory with a manifest is complete.

    Raises FileExistsError if the directory exists.
    """
    directory.mkdir(parents=True)
    for name, body in head_files(head, lineage).items():
        write_atomically(directory / name, body)
    sync_directory(directory.parent)


def load_head(directory: Path) -> AttentionHead:
    """Return a head that `save_head` wrote. Raises DamagedFile as `head_of_files` does."""
    return head_of_files(read_files(directory))


def head_of_files(files: Mapping[str, bytes]) -> AttentionHead:
    """Return the head of its files, name -> bytes.

    Raises DamagedFile if a checksum differs or the manifest does not describe a head.
    """
    manifest = check_files(files)
    try:
        config, tensors = manifest["config"], load(files[WEIGHTS])
        version = manifest.get("format", 1)
        if version in EVIDENCE_OF_FORMAT:
            config, tensors = _with_all_evidence(config, tensors, EVIDENCE_OF_FORMAT[version])
        if version == 1:
            config, tensors = _from_format_1(config, tensors)
        elif version not in range(2, FORMAT + 1):
            raise ValueError(f"unknown format {version}")
        lacked = {name: shape for name, (first, shape) in LACKED.items() if version < first}
        tensors = {name: np.zeros(shape, np.float32) for name, shape in lacked.items()} | tensors
        if any(value.dtype != PARAMETERS.get(name, np.float32) for name, value in tensors.items()):
            raise ValueError("a tensor has another type of numbers")
        for value in tensors.values():
            value.flags.writeable = False  # concurrent searches share the tensors
        return AttentionHead(HeadConfig(**{key: _tuple(value) for key, value in config.items()}), tensors)
    except (LookupError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
        raise DamagedFile("the manifest does not describe a head") from error


def head_bytes(head: AttentionHead) -> bytes:
    """Return the tensors of a head in the safetensors format. The same head gives the same bytes."""
    return save({name: np.asarray(value, order="C") for name, value in sorted(head.parameters_by_name().items())})


def _with_all_evidence(
    config: dict[str, Any], tensors: dict[str, Floats], names: tuple[str, ...]
) -> tuple[dict[str, Any], dict[str, Floats]]:
    """Return a head whose parts of the evidence are `names` as a head with all parts, which ranks the same."""
    part_indices = [EVIDENCE.index(name) for name in names]
    words = EVIDENCE.index("words")

    def widened(values: Any) -> Floats:
        given = np.asarray(values, np.float32)
        if given.shape[-1] != len(names):
            raise ValueError("the head has another number of parts")
        wide = np.zeros((*given.shape[:-1], len(EVIDENCE)), np.float32)
        wide[..., part_indices] = given
        wide[..., [EVIDENCE.index(name) for name in LIKE_WORDS]] = wide[..., [words]]
        return wide

    wide = {name: widened(tensors[name]) for name in ("beta", "kind_gate") if name in tensors}
    return config | {"beta": widened(config["beta"]).tolist()}, tensors | wide


def _from_format_1(config: dict[str, Any], tensors: dict[str, Floats]) -> tuple[dict[str, Any], dict[str, Floats]]:
    """Return a head of format 1, with all parts of the evidence, in the current format: the same ranking."""
    temperature = np.exp(tensors["log_inverse_temperature"])
    null = [float(temperature * tensors.pop("null_evidence")), 1.0, 0.0]
    config = config | {"null": null}
    del config["null_evidence"]
    initial = initial_parameters(HeadConfig(**{key: _tuple(value) for key, value in config.items()}))
    moved = {"score.up": tensors.pop("up"), "score.down": tensors.pop("down")}
    names = ("beta", "log_inverse_temperature", "log_memory_gain", "log_memory_sharpness")
    return config, initial | tensors | {name: tensors[name] for name in names} | moved


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
