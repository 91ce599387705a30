"""The files of a collection's models: each version has a folder of its own."""

import os
from pathlib import Path

from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.checkpoint import load_head
from service.storage.database import new_id


def models_directory(data: Path, collection_id: int) -> Path:
    """Return the folder of a collection's models."""
    return data / "models" / str(collection_id)


def model_directory(data: Path, collection_id: int, version: int) -> Path:
    """Return the folder of a version's files."""
    return models_directory(data, collection_id) / f"{version:06d}"


def set_aside(folder: Path) -> None:
    """Rename a folder of a version that the database does not know, if there is one.

    It is of a process that ended before it committed the row, or of a newer state of the database.
    """
    if folder.exists():
        os.replace(folder, folder.with_name(f"{folder.name}-unknown-{new_id()}"))


def load_version(collection_id: int, initial: HeadConfig, version: int, data: Path) -> AttentionHead:
    """Return the head of a version. Raises DamagedFile.

    Version 0 is the untrained head of the configuration `initial`: exactly the zero-shot hybrid search. A trained
    version keeps the configuration that it was trained with.
    """
    return AttentionHead(initial) if version == 0 else load_head(model_directory(data, collection_id, version))
