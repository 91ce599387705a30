"""Encoders: the same text has the same unit vector, and weights are found in the promised order, or not at all."""

import importlib.util
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
from transformers import AutoTokenizer

from index import encoder as encoder_module
from index.encoder import (
    DEFAULT_MODEL,
    DEFAULT_REPOSITORY,
    DEFAULT_REVISION,
    HASHING_MODEL,
    OFFLINE_PACKAGE,
    HashingEncoder,
    SentenceTransformerEncoder,
    fingerprint_of,
    load_encoder,
    locate_model,
)
from index.errors import DamagedFile, ModelNotFound

TEXTS = ["a cat sat on the mat", "cats sit on mats", "the price of copper fell", "", "😀", "naïve Größe"]

needs_weights = pytest.mark.skipif(
    importlib.util.find_spec(OFFLINE_PACKAGE) is None, reason="the weights are not installed: pip extra `offline`"
)


class Hub:
    """Stands in for the hub client: remembers what it was asked, and has what it is told to have."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None, bool]] = []
        self.cached: Path | None = None
        self.online: Path | None = None

    def snapshot_download(self, repository: str, *, revision: str | None, local_files_only: bool) -> str:
        self.asked.append((repository, revision, local_files_only))
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
    monkeypatch.setattr(encoder_module, "OFFLINE_PACKAGE", "a_package_that_is_not_installed")


# --- The hashing encoder ---


def test_the_hashing_encoder_gives_unit_vectors_of_its_width() -> None:
    vectors = HashingEncoder(dim=32).encode(TEXTS)
    assert vectors.shape == (6, 32)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0)


def test_the_hashing_encoder_gives_the_same_vector_on_every_machine() -> None:
    one, other = HashingEncoder(dim=8), HashingEncoder(dim=8)
    assert np.array_equal(one.encode(TEXTS)[::-1], other.encode(TEXTS[::-1]))
    signs = np.sign(one.encode(["attention is all you need"])[0])
    assert signs.tolist() == [0, -1, 0, 1, 1, -1, 1, -1]  # Python's own hash() would differ in every process


def test_the_hashing_encoder_puts_texts_that_share_words_near_each_other() -> None:
    texts = ["delete the red folder", "deleting red folders", "copper prices rise again"]
    one, alike, other = HashingEncoder(dim=256).encode(texts)
    assert one @ alike > 0.4 > 0.2 > one @ other


def test_the_hashing_encoder_ignores_case_and_punctuation() -> None:
    a, b = HashingEncoder().encode(["The cat!", "the CAT"])
    assert np.array_equal(a, b)


def test_no_texts_are_encoded_to_no_vectors() -> None:
    assert HashingEncoder(dim=32).encode([]).shape == (0, 32)


def test_hashing_encoders_of_different_shapes_have_different_fingerprints() -> None:
    encoders = [HashingEncoder(), HashingEncoder(dim=32), HashingEncoder(window_words=128)]
    assert len({encoder.fingerprint for encoder in encoders}) == 3


def test_the_name_hashing_loads_the_hashing_encoder() -> None:
    assert isinstance(load_encoder(HASHING_MODEL), HashingEncoder)


# --- Where weights are found ---


def test_an_explicit_path_comes_first(tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / DEFAULT_MODEL).mkdir()
    assert locate_model(str(tmp_path / DEFAULT_MODEL)) == tmp_path / DEFAULT_MODEL
    assert locate_model(DEFAULT_MODEL) == Path(DEFAULT_MODEL)
    assert hub.asked == []


@needs_weights
@pytest.mark.parametrize("name", [DEFAULT_MODEL, DEFAULT_REPOSITORY])
def test_the_default_model_comes_from_the_offline_package_without_asking_the_hub(name: str, hub: Hub) -> None:
    folder = locate_model(name)
    assert folder.parent.name == OFFLINE_PACKAGE
    assert (folder / "model.safetensors").is_file()
    assert hub.asked == []


@pytest.mark.usefixtures("no_package")
def test_without_the_package_the_local_cache_is_asked_before_the_hub(hub: Hub, tmp_path: Path) -> None:
    hub.cached = tmp_path
    assert locate_model("someone/model@abc") == tmp_path
    assert hub.asked == [("someone/model", "abc", True)]
    hub.cached, hub.online = None, tmp_path
    assert locate_model("someone/model") == tmp_path
    assert hub.asked[1:] == [("someone/model", None, True), ("someone/model", None, False)]


def test_a_name_without_an_owner_is_looked_for_under_sentence_transformers(hub: Hub, tmp_path: Path) -> None:
    hub.cached = tmp_path
    locate_model("all-mpnet-base-v2")
    assert hub.asked == [("sentence-transformers/all-mpnet-base-v2", None, True)]


@pytest.mark.usefixtures("no_package")
def test_the_default_model_is_asked_of_the_hub_at_a_pinned_revision(hub: Hub) -> None:
    with pytest.raises(ModelNotFound):
        locate_model(DEFAULT_MODEL)
    assert hub.asked == [(DEFAULT_REPOSITORY, DEFAULT_REVISION, True), (DEFAULT_REPOSITORY, DEFAULT_REVISION, False)]


@pytest.mark.usefixtures("no_package")
def test_default_weights_with_another_sha256_are_refused(hub: Hub, tmp_path: Path) -> None:
    hub.cached = tmp_path
    for write in (lambda: None, lambda: (tmp_path / "model.safetensors").write_bytes(b"something else")):
        write()
        with pytest.raises(DamagedFile, match="sha256"):
            locate_model(DEFAULT_MODEL)


def test_a_name_that_nothing_has_is_an_error_that_says_what_to_do(hub: Hub) -> None:
    with pytest.raises(ModelNotFound, match=r"'nobody/nothing'.*SOFTSEEK_ENCODER"):
        locate_model("nobody/nothing")
    assert len(hub.asked) == 2


def test_an_empty_name_is_no_folder(hub: Hub) -> None:
    with pytest.raises(ModelNotFound):
        locate_model("")
    assert hub is not None


# --- Fingerprints ---


def test_a_fingerprint_changes_with_any_file_that_decides_vectors_and_with_no_other(tmp_path: Path) -> None:
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


# --- all-MiniLM-L6-v2 itself ---


@pytest.fixture(scope="module")
def minilm() -> SentenceTransformerEncoder:
    return SentenceTransformerEncoder(DEFAULT_MODEL)


@needs_weights
def test_minilm_gives_unit_vectors(minilm: SentenceTransformerEncoder) -> None:
    vectors = minilm.encode([*TEXTS, "long " * 1000])
    assert vectors.shape == (7, minilm.dim) == (7, 384)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-5)


@needs_weights
def test_minilm_gives_a_text_the_same_vector_alone_and_in_a_batch(minilm: SentenceTransformerEncoder) -> None:
    """As far as bfloat16 goes, where the processor has it: sums of other shapes are rounded otherwise."""
    many = [*TEXTS, *(f"filler number {number} " * (number % 9 + 1) for number in range(14))]
    together = minilm.encode(many)
    for position in (0, 3, 4, 19):
        alone = minilm.encode([many[position]])[0]
        assert float(alone @ together[position]) > 0.9998
        assert np.array_equal(alone, minilm.encode([many[position]])[0])


@needs_weights
def test_minilm_knows_what_texts_mean(minilm: SentenceTransformerEncoder) -> None:
    question, answer, other = minilm.encode(["How do I delete a folder?", "remove a directory", "the price of copper"])
    assert question @ answer > 0.5 > 0.3 > question @ other


@needs_weights
def test_minilm_may_be_shared_by_threads(minilm: SentenceTransformerEncoder) -> None:
    batches = [[f"{text} {number}" for text in TEXTS[:3]] for number in range(6)]
    alone = [minilm.encode(batch) for batch in batches]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(minilm.encode, batches))
    for one, other in zip(alone, together, strict=True):
        assert np.abs(one - other).max() < 1e-6


@needs_weights
def test_minilm_is_cut_to_what_it_reads_to_its_end(minilm: SentenceTransformerEncoder) -> None:
    tokenizer = AutoTokenizer.from_pretrained(locate_model(DEFAULT_MODEL))
    text, title = "Antidisestablishmentarianism, 漢字 and 😀! " * 200, "A title of some length; " * 60
    spans = minilm.cutter.passages(text, title)
    assert len(spans) > 10
    lengths = [len(tokenizer(span.encoded_text, truncation=False)["input_ids"]) for span in spans]
    assert 200 < max(lengths) <= 256


@needs_weights
def test_minilm_has_no_texts_too(minilm: SentenceTransformerEncoder) -> None:
    assert minilm.encode([]).shape == (0, 384)
