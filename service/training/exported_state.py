"""All that the fit of a training run reads, in its staging folder: a machine without the database can fit from it."""

import json
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from index.encoding.encoder import load_encoder
from index.errors import DamagedFile
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.checkpoint import load_head
from index.storage.files import make_durable_directory, write_atomically
from service.runtime.collection_repository import require_collection
from service.runtime.model_repository import model_files
from service.storage.database import ENCODERS
from service.storage.opening import open_reader
from service.training.inputs import Inputs, LoadEncoder, load_inputs, read_inputs
from service.training.repository import lineages_against
from service.training.staging import CHAMPION, INPUTS, KNOWN_WORDS, LINEAGES

PARTS = (KNOWN_WORDS, INPUTS, CHAMPION, LINEAGES)
"""The files and folders of a staging folder that the fit reads."""


def encoder_loader(specification: Mapping[str, Any]) -> LoadEncoder:
    """Return the function that loads an encoder, by its name, as the service does."""
    cache = Path(specification["data"]) / ENCODERS
    return partial(load_encoder, precision=specification["encoder_precision"], cache=cache)


def export_state(specification: Mapping[str, Any]) -> Inputs:
    """Write the state of a run to its staging folder, and return its inputs. A resumed run has the same inputs.

    Raises Problem 404 if the collection was deleted.
    """
    staging, collection_id = Path(specification["staging"]), specification["collection_id"]
    database = open_reader(Path(specification["data"]), specification["database"])
    known, explored = _known_words(staging), specification["objective"] == "reinforce"
    load, learn_from = encoder_loader(specification), specification["learn_from"]
    inputs = load_inputs(staging / INPUTS, database, collection_id, load, known, learn_from, explored)
    with database.read() as connection:
        require_collection(connection, collection_id)
        version = specification["champion"]
        _write(staging / CHAMPION, model_files(connection, collection_id, version) if version else {})
        lineages = lineages_against(connection, collection_id, version)
    write_atomically(staging / LINEAGES, json.dumps(lineages).encode())
    return inputs


def read_exported(staging: Path) -> Inputs:
    """Return the inputs of an exported state. Raises DamagedFile."""
    return read_inputs(staging / INPUTS, _known_words(staging))


def exported_champion(staging: Path, initial: HeadConfig, version: int) -> AttentionHead:
    """Return the champion of a state. Raises DamagedFile.

    initial: the configuration of version 0, which has no files.
    """
    if version == 0:
        return AttentionHead(initial)
    try:
        return load_head(staging / CHAMPION)
    except DamagedFile as damage:
        raise DamagedFile(f"model {version}: {damage}") from damage


def exported_lineages(staging: Path) -> Sequence[Mapping[str, Any]]:
    """Return the lineages of the models that the gate has compared with the champion."""
    found: list[dict[str, Any]] = json.loads((staging / LINEAGES).read_bytes())
    return found


def files_of(staging: Path, parts: Sequence[str] = PARTS) -> dict[str, bytes]:
    """Return the files of some parts of a staging folder: path below it -> bytes."""
    paths = [path for part in parts for path in [staging / part, *(staging / part).rglob("*")] if path.is_file()]
    return {str(path.relative_to(staging)): path.read_bytes() for path in paths}


def write_files(staging: Path, files: Mapping[str, bytes]) -> None:
    """Write files below a folder, durably. Raises ValueError for a path that leads out of it."""
    for name, body in files.items():
        path = (staging / name).resolve()
        if not path.is_relative_to(staging.resolve()):
            raise ValueError(f"{name!r} is not a path below the folder")
        make_durable_directory(path.parent)
        write_atomically(path, body)


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    write_files(folder, files)


def _known_words(staging: Path) -> frozenset[str]:
    """Return the words that the encoder of the service knows."""
    return frozenset((staging / KNOWN_WORDS).read_text(encoding="utf-8").split())
