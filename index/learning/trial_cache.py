"""The trial cache of a run: all finished trials on disk, so that a run that was killed resumes without repeating them.

A trial is a pure function of the run's inputs, its recipe and its fold, which make its file name. A cached trial has
the same bits as a new computation. Files are written atomically and checked when they are read.
"""

import hashlib
import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from index.learning.config import Step
from index.learning.trainer import Trial
from index.ranking.attention import AttentionHead, HeadConfig
from index.records import Floats
from index.storage.files import write_atomically

FACTS = ("epochs", "measured", "history", "clicks")
"""The fields of a trial in its record. A second file has the heads after its epochs, or its head without training."""


class TrialCache:
    """The finished trials of a run in a folder; without a folder nothing is stored."""

    def __init__(self, directory: Path | None, inputs: str = "") -> None:
        self._directory = directory
        self._inputs = inputs
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)

    def trial(
        self, name: str, config: HeadConfig, work: Callable[[], Generator[Step, None, Trial]]
    ) -> Generator[Step, None, Trial]:
        """Return the trial with this name from the cache, or compute it with `work` and store it."""
        found = self._read(name, config)
        if found is not None:
            yield Step("resumed", 1, 1, {"trial": name})
            return found
        trial = yield from work()
        self._write(name, trial)
        return trial

    def _read(self, name: str, config: HeadConfig) -> Trial | None:
        """Return the stored trial, or None if it is missing or damaged."""
        if self._directory is None:
            return None
        path = self._path(name)
        try:
            record = json.loads(path.read_bytes())
            tensors = path.with_suffix(".safetensors").read_bytes()
            facts = {name: record[name] for name in FACTS}
            if record["sha256"] != _checksum(facts, tensors):
                return None
            heads = _heads(config, tensors)
        except (OSError, ValueError, KeyError, TypeError, RuntimeError):
            return None
        history, clicks = tuple(facts["history"]), tuple(facts["clicks"])
        trial = Trial(heads[0], facts["epochs"], facts["measured"], history, clicks, tuple(heads) if history else ())
        return trial.after(trial.epochs)

    def _write(self, name: str, trial: Trial) -> None:
        if self._directory is None:
            return
        path, tensors = self._path(name), _tensors(trial.heads or (trial.head,))
        facts = {"epochs": trial.epochs, "measured": trial.measured}
        facts |= {"history": list(trial.history), "clicks": list(trial.clicks)}
        record = facts | {"sha256": _checksum(facts, tensors)}
        write_atomically(path.with_suffix(".safetensors"), tensors)
        write_atomically(path, json.dumps(record).encode())

    def _path(self, name: str) -> Path:
        assert self._directory is not None
        return self._directory / f"{hashlib.sha256(f'{self._inputs} {name}'.encode()).hexdigest()[:32]}.json"


def _tensors(heads: Sequence[AttentionHead]) -> bytes:
    """Return the tensors of heads in the safetensors format, each with the number of its head before its name."""
    named = (
        (f"{at}.{name}", value) for at, head in enumerate(heads) for name, value in head.parameters_by_name().items()
    )
    return save({name: np.asarray(value, order="C") for name, value in named})


def _heads(config: HeadConfig, tensors: bytes) -> list[AttentionHead]:
    parts: dict[int, dict[str, Floats]] = {}
    for name, value in load(tensors).items():
        at, _, parameter = name.partition(".")
        parts.setdefault(int(at), {})[parameter] = value
    return [AttentionHead(config, parts[at]) for at in sorted(parts)]


def _checksum(facts: dict[str, Any], tensors: bytes) -> str:
    return fingerprint(json.dumps(facts), tensors)


def fingerprint(*parts: Any) -> str:
    """Return a checksum of a run's inputs: bytes directly, dataclasses by their fields, other objects by repr."""
    digest = hashlib.sha256()
    for part in parts:
        if not isinstance(part, bytes):
            fields = asdict(part) if hasattr(part, "__dataclass_fields__") else part
            part = repr(fields).encode("utf-8", "replace")
        digest.update(part)
        digest.update(b"\0")
    return digest.hexdigest()
