"""The files of a collection's models: each version has a folder of its own."""

from pathlib import Path

from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.checkpoint import load_head


def models_directory(data: Path, collection_id: int) -> Path:
    """Return the folder of a collection's models."""
    return data / "models" / str(collection_id)


def model_directory(data: Path, collection_id: int, version: int) -> Path:
    """Return the folder of a version's files."""
    return models_directory(data, collection_id) / f"{version:06d}"


def load_version(collection_id: int, initial: HeadConfig, version: int, data: Path) -> AttentionHead:
    """Return the head of a version. Raises DamagedFile.

    Version 0 is the untrained head of the configuration `initial`: exactly the zero-shot hybrid search. A trained
    version keeps the configuration that it was trained with.
    """
    return AttentionHead(initial) if version == 0 else load_head(model_directory(data, collection_id, version))
