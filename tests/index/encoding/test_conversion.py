"""A model is converted once and atomically, again when damaged, and rejected when it gives other vectors."""

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import structlog
from safetensors.numpy import load_file, save_file

from index.encoding import conversion, converted_encoder, model_files
from index.encoding import encoder as encoder_module
from index.encoding.conversion import (
    FP32,
    INT8,
    TOKENIZER,
    UINT8,
    Converted,
    NotConvertible,
    converted_in_subprocess,
    converted_model,
    float32_file,
    read_facts,
)
from index.encoding.converted_encoder import ConvertedEncoder
from index.encoding.encoder import load_encoder
from index.encoding.model_files import DEFAULT_MODEL, OFFLINE_PACKAGE, fingerprint_of, locate_model
from index.encoding.reference_encoder import SentenceTransformerEncoder
from index.encoding.sessions import Session, onnx_session
from index.errors import DamagedFile
from index.storage import files
from index.storage.files import sha256_file

needs_weights = pytest.mark.skipif(
    importlib.util.find_spec(OFFLINE_PACKAGE) is None, reason="the weights are not installed: pip extra `offline`"
)
NAME = "0123abcd"
TEXTS = ["one text", "", "Another text, ÄÖÜ!", "long " * 300]


class Converter:
    """Replaces the conversion: writes four small files, or raises `failure`."""

    def __init__(self) -> None:
        self.count = 0
        self.failure: Exception | None = None

    def convert(self, path: Path, folder: Path) -> dict[str, Any]:
        self.count += 1
        for name in (FP32, INT8, UINT8, TOKENIZER):
            (folder / name).write_text(f"{name} of {path.name}")
        if self.failure:
            raise self.failure
        return {"dim": 3}


@pytest.fixture
def converter(monkeypatch: pytest.MonkeyPatch) -> Converter:
    converter = Converter()
    monkeypatch.setattr(conversion, "_convert", converter.convert)
    return converter


@pytest.fixture
def convert(tmp_path: Path) -> Callable[[], Path]:
    return lambda: converted_model(Path("model"), NAME, tmp_path / "encoders").folder


# --- The folder ---


def test_a_model_is_converted_once(converter: Converter, convert: Callable[[], Path]) -> None:
    folder = convert()
    assert convert() == folder
    assert converter.count == 1
    assert read_facts(folder)["dim"] == 3
    assert (folder / FP32).read_text() == "fp32.onnx of model"


@pytest.mark.parametrize("name", [FP32, INT8, UINT8, TOKENIZER, "manifest.json"])
def test_a_model_with_a_damaged_file_is_converted_again(
    converter: Converter, convert: Callable[[], Path], name: str
) -> None:
    folder = convert()
    (folder / name).write_text("rubbish")
    with pytest.raises(DamagedFile):
        read_facts(folder)
    convert()
    assert converter.count == 2
    assert read_facts(folder)["dim"] == 3


def test_a_damaged_float32_file_is_noticed_when_it_is_opened_and_the_model_converted_again(
    converter: Converter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion.subprocess, "run", lambda *_, **__: None)  # this process converts

    def start(whole: bool = False) -> Converted:
        return converted_in_subprocess(Path("model"), NAME, tmp_path / "encoders", lambda: None, whole)

    path = float32_file(start())
    sound = path.read_bytes()
    path.write_bytes(sound[:-1] + b"?")
    started = start()._replace(again=partial(start, whole=True))
    assert converter.count == 1, "a start does not read it"
    with pytest.raises(DamagedFile, match=FP32):
        float32_file(started._replace(again=None))
    converter.failure = ImportError("no torch")
    with pytest.raises(ImportError):
        float32_file(started)
    assert start().facts == started.facts, "searches go on"
    converter.failure = None
    with structlog.testing.capture_logs() as logged:
        assert float32_file(started).read_bytes() == sound
    assert logged[0]["event"] == "converted_encoder_damaged"
    assert float32_file(started) == path, "another process has the facts of before"
    assert converter.count == 3


def test_a_model_with_a_missing_file_is_converted_again(converter: Converter, convert: Callable[[], Path]) -> None:
    (convert() / INT8).unlink()
    convert()
    assert converter.count == 2


def test_a_model_of_another_format_is_converted_again(
    converter: Converter, convert: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    convert()
    monkeypatch.setattr(conversion, "FORMAT", conversion.FORMAT + 1)
    read_facts(convert())
    assert converter.count == 2


def of_an_earlier_version(folder: Path) -> None:
    """Make the folder one of the format before int8 with unsigned weights."""
    (folder / UINT8).unlink()
    files.write_manifest(folder, [FP32, INT8, TOKENIZER], {"format": 1, "fingerprint": NAME, "int8_cosine": 0.98})


def test_a_model_of_an_earlier_version_is_converted_again(converter: Converter, convert: Callable[[], Path]) -> None:
    of_an_earlier_version(convert())
    assert (convert() / UINT8).exists()
    convert()
    assert converter.count == 2


@pytest.mark.parametrize("failure", [OSError("disk full"), ImportError("no onnxscript")])
def test_a_model_of_an_earlier_version_is_used_where_it_cannot_be_converted_again(
    converter: Converter, tmp_path: Path, failure: Exception
) -> None:
    cache = tmp_path / "encoders"
    of_an_earlier_version(converted_model(Path("model"), NAME, cache).folder)
    converter.failure = failure
    for _ in range(2):
        with structlog.testing.capture_logs() as logged:
            assert converted_model(Path("model"), NAME, cache).facts["cosines"] == {INT8: 0.98}
        why = f"{type(failure).__name__}: {failure}"
        assert logged == [{"event": "encoder_not_converted_again", "why": why, "log_level": "warning"}]


def test_files_left_by_a_killed_conversion_are_removed(
    converter: Converter, convert: Callable[[], Path], tmp_path: Path
) -> None:
    left = tmp_path / "encoders" / f"{NAME}.partial"
    left.mkdir(parents=True)
    (left / "half.onnx").write_text("half")
    folder = convert()
    assert not left.exists()
    assert sorted(path.name for path in folder.iterdir()) == [FP32, INT8, "manifest.json", TOKENIZER, UINT8]
    assert converter.count == 1


def test_concurrent_callers_convert_once(converter: Converter, convert: Callable[[], Path]) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert len({future.result() for future in [pool.submit(convert) for _ in range(8)]}) == 1
    assert converter.count == 1


def test_a_failed_conversion_is_recorded_until_a_library_changes(
    converter: Converter, convert: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    converter.failure = RuntimeError("an operator that ONNX lacks")
    for _ in range(2):
        with pytest.raises(NotConvertible, match="RuntimeError: an operator"):
            convert()
    assert converter.count == 1
    monkeypatch.setattr(conversion, "_library_versions", lambda: {"torch": "next"})
    converter.failure = None
    assert read_facts(convert())["dim"] == 3


@pytest.mark.parametrize("failure", [OSError("disk full"), ImportError("no onnxscript")])
def test_a_missing_library_or_full_disk_is_not_recorded(
    converter: Converter, convert: Callable[[], Path], failure: Exception, tmp_path: Path
) -> None:
    converter.failure = failure
    with pytest.raises(type(failure)):
        convert()
    assert [path.name for path in (tmp_path / "encoders").iterdir()] == [f"{NAME}.lock"]
    converter.failure = None
    assert read_facts(convert())["dim"] == 3


# --- A small real model ---


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the first layer of MiniLM as a model with a window of 64 tokens and CLS pooling."""
    folder = tmp_path_factory.mktemp("small") / "model"
    shutil.copytree(locate_model(DEFAULT_MODEL), folder, copy_function=shutil.copyfile)
    change(folder / "config.json", num_hidden_layers=1)
    change(folder / "sentence_bert_config.json", max_seq_length=64)
    change(folder / "1_Pooling" / "config.json", pooling_mode_mean_tokens=False, pooling_mode_cls_token=True)
    tensors = load_file(folder / "model.safetensors")
    kept = {name: tensor for name, tensor in tensors.items() if "encoder.layer." not in name or "layer.0." in name}
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    return folder


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.fixture(scope="module")
def first_use(small: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Convert the small model in a process of its own, which loads and uses it. Return the cache and the output."""
    cache = tmp_path_factory.mktemp("encoders")
    program = (
        "import sys; from pathlib import Path; from index.encoding.encoder import load_encoder; "
        f"encoder = load_encoder({str(small)!r}, 'fp32', Path({str(cache)!r})); "
        "loaded = lambda: sorted({'torch', 'transformers', 'openvino'} & sys.modules.keys()); "
        "encoder.encode_queries(['a query']); print(encoder.precision, loaded()); "
        "encoder.encode(['a document']); print(loaded())"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    return cache, output.splitlines()[-2:]


@pytest.fixture(scope="module")
def small_cache(first_use: tuple[Path, list[str]]) -> Path:
    return first_use[0]


@needs_weights
def test_pooling_and_window_are_converted_with_the_model(small: Path, small_cache: Path) -> None:
    reference = SentenceTransformerEncoder(str(small), "fp32")
    encoder = load_encoder(str(small), "fp32", small_cache)
    assert isinstance(encoder, ConvertedEncoder)
    for vectors in (encoder.encode(TEXTS), encoder.encode_queries(TEXTS)):
        assert np.abs(vectors - reference.encode(TEXTS)).max() < 1e-5
    text = "Words that fill a window, and then some more. " * 20
    assert encoder.cutter.passages(text, "Title") == reference.cutter.passages(text, "Title")


@needs_weights
@pytest.mark.parametrize(("flags", "name"), [({"avx2", "avx512_vnni"}, INT8), ({"avx2"}, UINT8)])
def test_a_processor_without_vnni_gets_int8_with_unsigned_weights(
    small: Path, small_cache: Path, monkeypatch: pytest.MonkeyPatch, flags: set[str], name: str
) -> None:
    opened: list[str] = []

    def session(model: Path, threads: int) -> Session:
        opened.append(model.name)
        return onnx_session(model, threads)

    monkeypatch.setattr(converted_encoder, "processor_flags", lambda: frozenset(flags))
    monkeypatch.setattr(converted_encoder, "onnx_session", session)
    encoder = load_encoder(str(small), "int8", small_cache)
    assert encoder.encode(["a document"]).shape == encoder.encode_queries(["a query"]).shape
    assert opened == [name, name]
    types = {each.data_type for each in onnx.load(small_cache / fingerprint_of(small) / name).graph.initializer}
    assert (onnx.TensorProto.INT8 in types) == (name == INT8)


@needs_weights
def test_int8_is_judged_by_the_weights_that_the_processor_uses(
    small: Path, small_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, facts, _ = converted_model(small, fingerprint_of(small), small_cache)
    assert set(facts["cosines"]) == {INT8, UINT8}
    monkeypatch.setattr(converted_encoder, "processor_flags", lambda: frozenset({"avx2"}))
    for cosines, queries in (
        ({INT8: 0.9, UINT8: 0.99}, "int8"),
        ({INT8: 0.99, UINT8: 0.9}, "fp32"),
        ({INT8: 0.99}, "fp32"),
    ):
        encoder = ConvertedEncoder(Converted(folder, facts | {"cosines": cosines}), "0")
        assert encoder.precision.endswith(f"queries {queries} (ONNX Runtime)")


@needs_weights
def test_documents_are_encoded_on_the_cores_that_the_process_may_use(
    small: Path, small_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    session = converted_encoder._document_session

    def noted(file: Callable[[], Path], chosen: Any, cores: int) -> Any:
        threads.append(cores)
        return session(file, chosen, 1)

    monkeypatch.setattr(converted_encoder, "cores", lambda: 3)
    monkeypatch.setattr(converted_encoder, "_document_session", noted)
    load_encoder(str(small), "fp32", small_cache).encode(["a document"])
    assert threads == [3]


@needs_weights
def test_a_start_reads_every_file_of_a_model_once(
    small: Path, small_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []

    def counted(path: Path) -> str:
        read.append(path)
        return sha256_file(path)

    for module in (files, model_files):
        monkeypatch.setattr(module, "sha256_file", counted)
    load_encoder(str(small), "fp32", small_cache)
    assert {path.name for path in read} >= {"model.safetensors", FP32, INT8, UINT8, TOKENIZER}
    assert len(read) == len(set(read))


@needs_weights
def test_a_converted_model_with_other_vectors_is_rejected_and_the_reference_is_used(
    small: Path, small_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported = small_cache / fingerprint_of(small) / FP32  # an export takes seconds, and this one is right
    monkeypatch.setattr(conversion, "_export", lambda _model, path, _window: shutil.copyfile(exported, path))
    monkeypatch.setattr(conversion, "TOLERANCE", -1.0)  # every difference is larger
    with pytest.raises(NotConvertible):
        converted_model(small, fingerprint_of(small), tmp_path / "encoders")
    with structlog.testing.capture_logs() as logged:
        encoder = load_encoder(str(small), "fp32", tmp_path / "encoders")
    assert isinstance(encoder, SentenceTransformerEncoder)
    assert logged[-1]["event"] == "encoder_not_converted"
    assert "differs from sentence-transformers by" in logged[-1]["why"]


@needs_weights
def test_conversion_libraries_are_not_loaded_and_the_document_runtime_is_loaded_on_first_use(
    first_use: tuple[Path, list[str]],
) -> None:
    assert first_use[1] == ["documents fp32 (OpenVINO), queries fp32 (ONNX Runtime) []", "['openvino']"]


@needs_weights
def test_the_reference_is_used_if_the_cache_cannot_be_written(small: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with structlog.testing.capture_logs() as logged:
        encoder = load_encoder(str(small), "fp32", tmp_path / "file" / "encoders")
    assert isinstance(encoder, SentenceTransformerEncoder)
    assert logged[-1]["event"] == "encoder_not_converted"


@needs_weights
def test_a_converted_model_is_used_from_a_read_only_cache(
    small: Path, small_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "mkdir", read_only)
    assert isinstance(load_encoder(str(small), "fp32", small_cache), ConvertedEncoder)


def read_only(*_: Any, **__: Any) -> None:
    raise OSError(30, "Read-only file system")


@needs_weights
def test_the_reference_is_used_if_the_document_runtime_is_missing(
    small: Path, small_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    assert isinstance(load_encoder(str(small), "fp32", small_cache), SentenceTransformerEncoder)
    assert isinstance(load_encoder(str(small), "int8", small_cache), ConvertedEncoder)


@needs_weights
def test_the_reference_is_used_if_a_runtime_cannot_open_the_model(
    small: Path, small_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: Any) -> None:
        raise ImportError("No module named 'openvino'")

    monkeypatch.setattr(encoder_module, "ConvertedEncoder", missing)
    encoder = load_encoder(str(small), "fp32", small_cache)
    assert isinstance(encoder, SentenceTransformerEncoder)
    assert encoder.precision == "fp32 (sentence-transformers)"
