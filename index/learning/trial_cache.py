"""The journal of a run: every trial that was finished, on disk, so that a run which was killed goes on where it was.

A trial is a pure function of the run's inputs, its recipe and its fold, and these are its name. A run that finds a
trial here gets the bits that it would have computed. Files are written whole or not at all, and checked when read.
"""

import hashlib
import json
from collections.abc import Callable, Generator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors.numpy import load

from index.learning.config import Step
from index.learning.trainer import Trial
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.checkpoint import head_bytes
from index.storage.files import write_atomically


class Journal:
    """Finished trials of one run in a folder; None keeps nothing."""

    def __init__(self, directory: Path | None, inputs: str = "") -> None:
        self._directory = directory
        self._inputs = inputs
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)

    def trial(
        self, name: str, config: HeadConfig, work: Callable[[], Generator[Step, None, Trial]]
    ) -> Generator[Step, None, Trial]:
        """Return the trial of this name: as it was written down, or by working it out and writing it down."""
        found = self._read(name, config)
        if found is not None:
            yield Step("resumed", 1, 1, {"trial": name})
            return found
        trial = yield from work()
        self._write(name, trial)
        return trial

    def _read(self, name: str, config: HeadConfig) -> Trial | None:
        """Return the trial as it was written down; None where it was not, or a byte of it is another by now."""
        if self._directory is None:
            return None
        record = self._path(name)
        try:
            told = json.loads(record.read_bytes())
            tensors = record.with_suffix(".safetensors").read_bytes()
            epochs, measured = told["epochs"], told["measured"]
            if told["sha256"] != _checksum(epochs, measured, tensors):
                return None
            head = AttentionHead(config, load(tensors))
        except (OSError, ValueError, KeyError, TypeError, RuntimeError):
            return None
        return Trial(head, epochs, measured)

    def _write(self, name: str, trial: Trial) -> None:
        if self._directory is None:
            return
        record, tensors = self._path(name), head_bytes(trial.head)
        checksum = _checksum(trial.epochs, trial.measured, tensors)
        told = {"epochs": trial.epochs, "measured": trial.measured, "sha256": checksum}
        write_atomically(record.with_suffix(".safetensors"), tensors)
        write_atomically(record, json.dumps(told).encode())

    def _path(self, name: str) -> Path:
        assert self._directory is not None
        return self._directory / f"{hashlib.sha256(f'{self._inputs} {name}'.encode()).hexdigest()[:32]}.json"


def _checksum(epochs: int, measured: dict[str, float], tensors: bytes) -> str:
    return fingerprint(epochs, json.dumps(measured), tensors)


def fingerprint(*parts: Any) -> str:
    """Return a checksum of a run's inputs: bytes as they are, dataclasses by their fields, the rest by its repr."""
    digest = hashlib.sha256()
    for part in parts:
        data = (
            part if isinstance(part, bytes) else repr(asdict(part) if hasattr(part, "__dataclass_fields__") else part)
        )
        digest.update(data if isinstance(data, bytes) else data.encode("utf-8", "replace"))
        digest.update(b"\0")
    return digest.hexdigest()
