"""The same text has the same unit vector, and all runtimes of a model give nearly equal vectors."""

import importlib.util
import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from index.encoding import encoder as encoder_module
from index.encoding import model_files
from index.encoding.conversion import FP32, INT8, UINT8, converted_model, padded
from index.encoding.converted_encoder import BATCH_TOKENS, ConvertedEncoder, batches
from index.encoding.encoder import HASHING_MODEL, Encoder, load_encoder
from index.encoding.hashing_encoder import HashingEncoder
from index.encoding.model_files import DEFAULT_MODEL, OFFLINE_PACKAGE, fingerprint_of, locate_model
from index.encoding.reference_encoder import SentenceTransformerEncoder
from index.errors import ModelNotFound
from index.records import Floats
from index.storage import files
from index.storage.files import sha256_file

ROOT = Path(__file__).parents[3]
TEXTS = ["a cat sat on the mat", "cats sit on mats", "the price of copper fell", "", "😀", "naïve Größe"]
LONGER = ["Does it convert? " * count for count in (1, 5, 40, 400)]

needs_weights = pytest.mark.skipif(
    importlib.util.find_spec(OFFLINE_PACKAGE) is None, reason="the weights are not installed: pip extra `offline`"
)


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
    assert signs.tolist() == [0, -1, 0, 1, 1, -1, 1, -1]  # Python's hash() differs between processes


def test_the_hashing_encoder_gives_similar_vectors_to_texts_that_share_words() -> None:
    texts = ["delete the red folder", "deleting red folders", "copper prices rise again"]
    one, alike, other = HashingEncoder(dim=256).encode(texts)
    assert one @ alike > 0.4 > 0.2 > one @ other


def test_the_hashing_encoder_ignores_case_and_punctuation() -> None:
    a, b = HashingEncoder().encode(["The cat!", "the CAT"])
    assert np.array_equal(a, b)


def test_the_hashing_encoder_encodes_queries_like_documents() -> None:
    encoder = HashingEncoder()
    assert np.array_equal(encoder.encode(TEXTS), encoder.encode_queries(TEXTS))


def test_no_texts_give_no_vectors() -> None:
    assert HashingEncoder(dim=32).encode([]).shape == (0, 32)


def test_hashing_encoders_of_different_shapes_have_different_fingerprints() -> None:
    encoders = [HashingEncoder(), HashingEncoder(dim=32), HashingEncoder(window_words=128)]
    assert len({encoder.fingerprint for encoder in encoders}) == 3


def test_the_name_hashing_loads_the_hashing_encoder() -> None:
    assert isinstance(load_encoder(HASHING_MODEL), HashingEncoder)


@pytest.mark.parametrize("name", ["modules.json", "config.json", "adapter_config.json"])
def test_a_folder_with_a_file_of_a_model_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    loaded = HashingEncoder()
    monkeypatch.setattr(encoder_module, "SentenceTransformerEncoder", lambda _model, _precision: loaded)
    with pytest.raises(ModelNotFound):
        load_encoder(str(tmp_path))
    (tmp_path / name).write_text("{}")
    assert load_encoder(str(tmp_path)) is loaded


# --- all-MiniLM-L6-v2 with each runtime ---


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache folder with MiniLM, converted once for all tests of this file, in this process."""
    cache = tmp_path_factory.mktemp("encoders")
    path = locate_model(DEFAULT_MODEL)
    converted_model(path, fingerprint_of(path), cache)
    return cache


@pytest.fixture(scope="module")
def reference() -> SentenceTransformerEncoder:
    return SentenceTransformerEncoder(DEFAULT_MODEL, "fp32")


@pytest.fixture(scope="module")
def wanted(reference: SentenceTransformerEncoder) -> Floats:
    """Return the vectors of TEXTS and then of LONGER by the reference."""
    return reference.encode([*TEXTS, *LONGER])


@pytest.fixture(scope="module", params=["sentence-transformers", "auto", "fp32", "bf16", "int8"])
def minilm(request: pytest.FixtureRequest, cache: Path) -> Encoder:
    """Return the reference at the default precision, and the converted model at every precision."""
    by_reference = request.param == "sentence-transformers"
    encoder = load_encoder(DEFAULT_MODEL) if by_reference else load_encoder(DEFAULT_MODEL, request.param, cache)
    assert isinstance(encoder, SentenceTransformerEncoder if by_reference else ConvertedEncoder)
    return encoder


@needs_weights
def test_every_runtime_gives_the_vectors_of_sentence_transformers(minilm: Encoder, wanted: Floats) -> None:
    texts = [*TEXTS, *LONGER]
    for vectors, precision in ((minilm.encode(texts), minilm.precision), (minilm.encode_queries(texts), "int8")):
        least = 0.96 if "int8" in precision else 0.9995
        assert (vectors * wanted).sum(axis=1).min() > least


@needs_weights
@pytest.mark.parametrize(
    ("text", "known"),
    [("a cat", 1.0), ("茶", 0.0), ("a 😀", 0.5), ("a" * 150, 0.0), ("", 0.0), ("tea [UNK] cup 猫", 0.5)],
)
def test_a_query_has_the_share_of_its_tokens_that_are_known(minilm: Encoder, text: str, known: float) -> None:
    encoded = minilm.encode_query(text)
    assert np.array_equal(encoded.vector, minilm.encode_queries([text])[0])
    assert encoded.known == pytest.approx(known)


@needs_weights
def test_float32_vectors_agree_with_the_reference(cache: Path, wanted: Floats) -> None:
    encoder = load_encoder(DEFAULT_MODEL, "fp32", cache)
    for vectors in (encoder.encode(TEXTS), encoder.encode_queries(TEXTS)):
        assert np.abs(vectors - wanted[: len(TEXTS)]).max() < 1e-5


NEW_SHAPES = """
import os
import sys
from pathlib import Path
import numpy as np
from index.encoding import sessions

def private_mib():
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon:")]
    return int(line.split()[1]) / 1024

if sys.argv[2:] == ["all"]:
    sessions.KEPT_KERNELS = 5000
    os.putenv = lambda *_: None
run = sessions.openvino_session(Path(sys.argv[1]), 1, "fp32")

def encode(lengths):
    for length in lengths:
        for texts in (1, 2, 3):
            run(np.full((texts, length), 2000), np.ones((texts, length), np.int64))

encode(range(4, 96, 12))
before = private_mib()
encode(range(6, 96, 12))
encode(range(8, 96, 12))
print(private_mib() - before)
"""


@needs_weights
def test_new_shapes_of_texts_take_little_memory(cache: Path) -> None:
    model = cache / fingerprint_of(locate_model(DEFAULT_MODEL)) / FP32

    def grown(*kept: str) -> float:
        command = [sys.executable, "-c", NEW_SHAPES, str(model), *kept]
        return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert grown() < 0.2 * grown("all"), "MiB more after 48 new shapes: hardly any, where all kernels are kept 70"


@needs_weights
def test_documents_are_encoded_by_onnx_runtime_where_openvino_cannot_compile(
    cache: Path, wanted: Floats, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot_compile(*_: object) -> None:
        raise RuntimeError("no kernel for this processor")

    monkeypatch.setattr("index.encoding.converted_encoder.openvino_session", cannot_compile)
    vectors = load_encoder(DEFAULT_MODEL, "auto", cache).encode(TEXTS)
    assert np.abs(vectors - wanted[: len(TEXTS)]).max() < 1e-2


def test_rows_are_padded_to_a_multiple_with_the_pad_token_of_the_model() -> None:
    ids, mask = padded([[5, 6, 7], [8]], pad_id=1, multiple=4)
    assert ids.tolist() == [[5, 6, 7, 1], [8, 1, 1, 1]]
    assert mask.tolist() == [[1, 1, 1, 0], [1, 0, 0, 0]]


@needs_weights
def test_a_start_with_a_converted_model_reads_neither_the_original_weights_nor_those_for_documents(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def counted(path: Path) -> str:
        read.append(path.name)
        return sha256_file(path)

    for module in (files, model_files):
        monkeypatch.setattr(module, "sha256_file", counted)
    encoder = load_encoder(DEFAULT_MODEL, "auto", cache)
    encoder.encode_queries(["a query"])
    assert {"tokenizer.json", INT8, UINT8} <= set(read)
    assert not {"model.safetensors", FP32} & set(read)
    encoder.encode(["a document"])
    assert read.count(FP32) == 1


@needs_weights
def test_all_runtimes_have_the_same_fingerprint(minilm: Encoder, reference: SentenceTransformerEncoder) -> None:
    assert minilm.fingerprint == reference.fingerprint == fingerprint_of(locate_model(DEFAULT_MODEL))


@needs_weights
def test_minilm_gives_unit_vectors(minilm: Encoder) -> None:
    for vectors in (minilm.encode([*TEXTS, "long " * 1000]), minilm.encode_queries([*TEXTS, "long " * 1000])):
        assert vectors.shape == (7, minilm.dim) == (7, 384)
        assert vectors.dtype == np.float32
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-5)


@given(st.lists(st.integers(0, 2000), max_size=200), st.integers(1, 40), st.sampled_from([1, 8]))
def test_batches_hold_every_text_once_and_respect_the_limits(lengths: list[int], texts: int, multiple: int) -> None:
    found = list(batches(lengths, texts, multiple))
    assert sorted(at for batch in found for at in batch) == list(range(len(lengths)))
    for batch in found:
        (length,) = {math.ceil(lengths[at] / multiple) * multiple for at in batch}
        assert len(batch) == 1 or len(batch) * length <= BATCH_TOKENS
        assert len(batch) <= texts
        assert len(batch).bit_count() == 1 or len(batch) == min(texts, BATCH_TOKENS // max(1, length))
    assert [lengths[at] for batch in found for at in batch] == sorted(lengths, reverse=True)


@needs_weights
def test_minilm_gives_a_text_the_same_vector_alone_and_in_a_batch(minilm: Encoder) -> None:
    """Not to the bit: a kernel may sum in another order where more texts of its length are in the batch."""
    many = [*TEXTS, *(f"filler number {number} " * (number % 9 + 1) for number in range(14))]
    together = minilm.encode(many)
    for position in (0, 3, 4, 19):
        alone = minilm.encode([many[position]])[0]
        assert float(alone @ together[position]) > 0.9998
        assert np.array_equal(alone, minilm.encode([many[position]])[0])


@needs_weights
def test_the_vector_of_a_query_that_is_kept_keeps_no_memory_of_its_runtime(cache: Path) -> None:
    assert load_encoder(DEFAULT_MODEL, "auto", cache).encode_query("a query").vector.flags.owndata


@needs_weights
def test_a_query_has_the_same_bits_alone_and_among_others(minilm: Encoder) -> None:
    together = minilm.encode_queries(TEXTS)
    assert all(np.array_equal(minilm.encode_queries([text])[0], one) for text, one in zip(TEXTS, together, strict=True))


@needs_weights
def test_minilm_places_texts_of_similar_meaning_near_each_other(minilm: Encoder) -> None:
    [question] = minilm.encode_queries(["How do I delete a folder?"])
    answer, other = minilm.encode(["remove a directory", "the price of copper"])
    assert question @ answer > 0.5 > 0.3 > question @ other


@needs_weights
def test_minilm_gives_the_same_vectors_in_concurrent_threads(minilm: Encoder) -> None:
    batches = [[f"{text} {number}" for text in TEXTS[:3]] for number in range(6)]
    for encode in (minilm.encode, minilm.encode_queries):
        alone = [encode(batch) for batch in batches]
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(encode, batches))
        for one, other in zip(alone, together, strict=True):
            assert np.abs(one - other).max() < 1e-6


@needs_weights
def test_passages_for_minilm_fit_its_window(minilm: Encoder) -> None:
    tokenizer = AutoTokenizer.from_pretrained(locate_model(DEFAULT_MODEL))
    text, title = "Antidisestablishmentarianism, 漢字 and 😀! " * 200, "A title of some length; " * 60
    spans = minilm.cutter.passages(text, title)
    assert len(spans) > 10
    lengths = [len(tokenizer(span.encoded_text, truncation=False)["input_ids"]) for span in spans]
    assert 200 < max(lengths) <= 256


@needs_weights
def test_every_runtime_reports_each_batch(minilm: Encoder, reference: SentenceTransformerEncoder) -> None:
    for encoder in (minilm, reference):
        counts: list[int] = []
        encoder.encode([f"text {number}" for number in range(40)], counts.append)
        assert sum(counts) == 40
        assert len(counts) > 1


@needs_weights
def test_minilm_accepts_an_empty_list_of_texts(minilm: Encoder) -> None:
    assert minilm.encode([]).shape == minilm.encode_queries([]).shape == (0, 384)


@needs_weights
def test_a_converted_model_is_used_without_torch_and_transformers(cache: Path) -> None:
    output = run_python(
        "import sys; from pathlib import Path; from index.encoding.encoder import load_encoder\n"
        f"encoder = load_encoder({DEFAULT_MODEL!r}, 'auto', Path({str(cache)!r}))\n"
        "encoder.encode(['a']), encoder.encode_queries(['a']), encoder.cutter.passages('Some text.', 'Title')\n"
        "print(sorted({'torch', 'transformers', 'sentence_transformers', 'onnx'} & set(sys.modules)))"
    )
    assert output == "[]"


@needs_weights
@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities of their own on Linux only")
def test_documents_are_encoded_at_a_lower_priority_than_queries(cache: Path) -> None:
    output = run_python(
        "import os; from pathlib import Path; from index.encoding.encoder import load_encoder\n"
        f"encoder = load_encoder({DEFAULT_MODEL!r}, 'auto', Path({str(cache)!r}))\n"
        "encoder.encode(['a text'] * 40)\n"
        "own = os.getpriority(os.PRIO_PROCESS, 0)\n"
        "others = [os.getpriority(os.PRIO_PROCESS, int(one)) for one in os.listdir('/proc/self/task')]\n"
        "print(own, min(others), max(others))"
    )
    own, least, most = map(int, output.split())
    assert own == least
    assert most == min(19, own + 10)


def run_python(program: str) -> str:
    """Return the output of a program that runs in its own process."""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]
