"""Model files: a head as safetensors beside a JSON manifest with its sha256; never a pickle.

A damaged safetensors file often loads silently wrong, so the checksum is compared before the library opens it.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors.torch import load, save

from index.attention import AttentionHead, HeadConfig
from index.errors import DamagedFile
from index.files import read_manifest, sync_directory, write_atomically, write_manifest

WEIGHTS = "head.safetensors"


def save_head(directory: Path, head: AttentionHead, lineage: dict[str, Any]) -> None:
    """Write a head and its manifest into a new directory; it is complete once the manifest is there."""
    directory.mkdir(parents=True)
    tensors = {name: tensor.detach().contiguous() for name, tensor in head.state_dict().items()}
    write_atomically(directory / WEIGHTS, save(tensors))
    write_manifest(directory, [WEIGHTS], {"config": asdict(head.config), "lineage": lineage})
    sync_directory(directory.parent)


def load_head(directory: Path) -> AttentionHead:
    """Return the head; raises DamagedFile when a byte differs from the manifest or the manifest makes no sense."""
    manifest = read_manifest(directory)
    try:
        config = manifest["config"] | {"beta": tuple(manifest["config"]["beta"])}
        head = AttentionHead(HeadConfig(**config))
        head.load_state_dict(load((directory / WEIGHTS).read_bytes()))
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise DamagedFile(f"{directory.name}: the manifest does not describe a head") from error
    return head.eval().requires_grad_(False)
