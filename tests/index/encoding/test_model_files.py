"""Weights are searched in a fixed order, and the fingerprint depends on the files that determine vectors."""

import importlib.util
import shutil
from pathlib import Path

import huggingface_hub
import pytest

from index.encoding import model_files as weights_module
from index.encoding.encoder import load_encoder
from index.encoding.model_files import (
    DEFAULT_MODEL,
    DEFAULT_REPOSITORY,
    DEFAULT_REVISION,
    OFFLINE_PACKAGE,
    find_model,
    fingerprint_of,
    locate_model,
)
from index.errors import DamagedFile, ModelNotFound

needs_weights = pytest.mark.skipif(
    importlib.util.find_spec(OFFLINE_PACKAGE) is None, reason="the weights are not installed: pip extra `offline`"
)


class Hub:
    """Replaces the hub client: records requests, and returns the `cached` and `online` folders."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str | None, bool]] = []
        self.cached: Path | None = None
        self.online: Path | None = None

    def snapshot_download(self, repository: str, *, revision: str | None, local_files_only: bool) -> str:
        self.requests.append((repository, revision, local_files_only))
        found = self.cached if local_files_only else self.online
        if found is None:
            raise OSError("no network")
        return str(found)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    hub = Hub()
    monkeypatch.setattr(huggingface_hub, "snapshot_download", hub.snapshot_download)
    return hub


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights_module, "OFFLINE_PACKAGE", "a_package_that_is_not_installed")


# --- Where weights are found ---


def test_an_explicit_path_comes_first(tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / DEFAULT_MODEL).mkdir()
    assert locate_model(str(tmp_path / DEFAULT_MODEL)) == tmp_path / DEFAULT_MODEL
    assert locate_model(DEFAULT_MODEL) == Path(DEFAULT_MODEL)
    assert hub.requests == []


@needs_weights
@pytest.mark.parametrize("name", [DEFAULT_MODEL, DEFAULT_REPOSITORY])
def test_the_default_model_comes_from_the_offline_package_without_a_request_to_the_hub(name: str, hub: Hub) -> None:
    folder = locate_model(name)
    assert folder.parent.name == OFFLINE_PACKAGE
    assert (folder / "model.safetensors").is_file()
    assert hub.requests == []


@pytest.mark.usefixtures("no_package")
def test_without_the_package_the_local_cache_comes_before_the_hub(hub: Hub, tmp_path: Path) -> None:
    hub.cached = tmp_path
    assert locate_model("someone/model@abc") == tmp_path
    assert hub.requests == [("someone/model", "abc", True)]
    hub.cached, hub.online = None, tmp_path
    assert locate_model("someone/model") == tmp_path
    assert hub.requests[1:] == [("someone/model", None, True), ("someone/model", None, False)]


def test_a_name_without_an_owner_belongs_to_sentence_transformers(hub: Hub, tmp_path: Path) -> None:
    hub.cached = tmp_path
    locate_model("all-mpnet-base-v2")
    assert hub.requests == [("sentence-transformers/all-mpnet-base-v2", None, True)]


@pytest.mark.usefixtures("no_package")
def test_the_default_model_is_requested_at_a_pinned_revision(hub: Hub) -> None:
    with pytest.raises(ModelNotFound):
        locate_model(DEFAULT_MODEL)
    assert hub.requests == [(DEFAULT_REPOSITORY, DEFAULT_REVISION, True), (DEFAULT_REPOSITORY, DEFAULT_REVISION, False)]


@pytest.mark.usefixtures("no_package")
def test_default_weights_with_another_sha256_are_refused(hub: Hub, tmp_path: Path) -> None:
    hub.cached = tmp_path
    for write in (lambda: None, lambda: (tmp_path / "model.safetensors").write_bytes(b"something else")):
        write()
        with pytest.raises(DamagedFile, match="sha256"):
            locate_model(DEFAULT_MODEL)


@pytest.mark.usefixtures("no_package")
@pytest.mark.parametrize("cached", [True, False])
def test_an_encoder_is_not_made_from_default_weights_with_another_sha256(
    hub: Hub, tmp_path: Path, cached: bool
) -> None:
    hub.cached = tmp_path / "model"
    hub.cached.mkdir()
    (hub.cached / "config.json").write_text("{}")
    (hub.cached / "model.safetensors").write_bytes(b"something else")
    assert find_model(DEFAULT_MODEL) == hub.cached
    with pytest.raises(DamagedFile, match="sha256"):
        load_encoder(DEFAULT_MODEL, cache=tmp_path / "encoders" if cached else None)
    assert not (tmp_path / "encoders").exists()


def test_an_unknown_name_raises_an_error_that_names_the_setting(hub: Hub) -> None:
    with pytest.raises(ModelNotFound, match=r"'nobody/nothing'.*SOFTSEEK_ENCODER"):
        locate_model("nobody/nothing")
    assert len(hub.requests) == 2


def test_an_empty_name_is_not_a_folder(hub: Hub) -> None:
    with pytest.raises(ModelNotFound):
        locate_model("")
    assert hub is not None


# --- Fingerprints ---


def test_a_fingerprint_changes_only_with_files_that_determine_vectors(tmp_path: Path) -> None:
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "1_Pooling" / "config.json").write_bytes(b"{}")
    first = fingerprint_of(tmp_path)
    (tmp_path / "README.md").write_bytes(b"read me")
    (tmp_path / "data_config.json").write_bytes(b"what the model was trained on")
    assert fingerprint_of(tmp_path) == first
    for name in ("model.safetensors", "1_Pooling/config.json"):
        before = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(before + b" ")
        assert fingerprint_of(tmp_path) != first
        (tmp_path / name).write_bytes(before)
    assert fingerprint_of(shutil.copytree(tmp_path, tmp_path / "copy")) == first
