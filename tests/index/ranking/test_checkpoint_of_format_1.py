"""Model files of format 1: they can be loaded, and rank by the formula of that format."""

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from index.errors import DamagedFile
from index.learning.held_out import is_untrained
from index.ranking.attention import EVIDENCE
from index.ranking.checkpoint import WEIGHTS, load_head, save_head
from index.storage.files import write_manifest
from tests.index.ranking.attention_by_hand import (
    PASSAGE,
    ToyDocument,
    Vector,
    dot,
    flatten,
    random_documents,
    random_unit,
    soft_maximum_by_hand,
)

DIM, RANK, HEADS = 4, 2, 2
CONFIG: dict[str, Any] = {
    "dim": DIM,
    "rank": RANK,
    "heads": HEADS,
    "beta": [0.2, 0.8, 0.0, 0.4, 0.15],
    "inverse_temperature": 20.0,
    "null_evidence": 0.8,
    "sharpness": 6.0,
    "memory_gain": 10.0,
    "memory_sharpness": 12.0,
    "seed": 3,
}
RANDOM = np.random.default_rng(8)
TENSORS: dict[str, np.ndarray[Any, np.dtype[np.float32]]] = {
    "beta": np.asarray([0.3, 0.7, 0.1, 0.5, 0.4], np.float32),
    "down": RANDOM.normal(size=(HEADS, DIM, RANK)).astype(np.float32),
    "log_inverse_temperature": np.asarray(math.log(3.0), np.float32),
    "log_memory_gain": np.asarray(math.log(2.0), np.float32),
    "log_memory_sharpness": np.asarray(math.log(5.0), np.float32),
    "null_evidence": np.asarray(0.6, np.float32),
    "up": 0.3 * RANDOM.normal(size=(HEADS, DIM, RANK)).astype(np.float32),
}


def safetensors(tensors: Mapping[str, Any]) -> bytes:
    """Return the bytes of a safetensors file: the length of its header, the header, the numbers."""
    header, body = {}, b""
    for name, tensor in tensors.items():
        data = np.ascontiguousarray(tensor).tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def written(folder: Path, tensors: Mapping[str, Any] = TENSORS, config: Mapping[str, Any] = CONFIG) -> Path:
    """Return a folder with a model of format 1, whose manifest has no format number."""
    folder.mkdir()
    (folder / WEIGHTS).write_bytes(safetensors(tensors))
    write_manifest(folder, [WEIGHTS], {"config": dict(config), "lineage": {}})
    return folder


def logit_of_format_1(query: Vector, document: ToyDocument) -> float:
    """T beta . (1/H sum_h softmax-mean_i q_h . k_i per kind, words, memory), q_h = e + U_h V_h^T e."""
    dense: dict[int, float] = {}
    for h in range(HEADS):
        low = [dot(TENSORS["down"][h, :, r].tolist(), query) for r in range(RANK)]
        asked = [query[d] + dot(TENSORS["up"][h, d].tolist(), low) for d in range(DIM)]
        for kind in range(3):
            scores = [dot(asked, key) for other, key in document.keys if other == kind]
            if scores:
                dense[kind] = dense.get(kind, 0.0) + soft_maximum_by_hand(scores, 6.0) / HEADS
    near = sum(weight * math.exp(5.0 * (cosine - 1)) for cosine, weight in document.memory)
    memory = math.copysign(math.log(1 + 2.0 * abs(near)), near)
    kinds = [dense.get(kind, dense.get(PASSAGE, 0.0)) for kind in range(3)]
    return 3.0 * dot(TENSORS["beta"].tolist(), [*kinds, document.words, memory])


def test_a_model_of_format_1_ranks_as_its_formula_says(tmp_path: Path) -> None:
    head = load_head(written(tmp_path / "1"))
    queries = [random_unit(np.random.default_rng(seed), DIM) for seed in range(3)]
    batches = [[replace(one, others=(0.0, 0.0)) for one in random_documents(seed, 5, DIM)] for seed in range(3)]
    facts = [[0.9, 0.1, 0.8]] * 3
    attention = head(np.asarray(queries, np.float32), flatten(batches, DIM, facts=facts))
    for b, documents in enumerate(batches):
        expected = [logit_of_format_1(queries[b], document) for document in documents]
        assert attention.logits[b, :-1].tolist() == pytest.approx(expected, abs=1e-4)
        assert float(attention.logits[b, -1]) == pytest.approx(3.0 * 0.6, abs=1e-5)


def test_evidence_unknown_to_format_1_has_weight_zero(tmp_path: Path) -> None:
    head = load_head(written(tmp_path / "1"))
    weight = dict(zip(EVIDENCE, head.beta.tolist(), strict=True))
    assert [weight[name] for name in ("coverage", "proximity", "phrase")] == [0.0] * 3
    assert (head.hops, head.config.form, head.config.normaliser) == (False, "bilinear", "softmax")
    assert not head.kind_gate.any()
    assert not head.head_gate.any()


def test_a_model_of_format_1_is_saved_in_the_current_format(tmp_path: Path) -> None:
    head = load_head(written(tmp_path / "1"))
    save_head(tmp_path / "2", head, {})
    again = load_head(tmp_path / "2")
    assert again.config == head.config
    values = again.parameters_by_name()
    assert all(np.array_equal(value, values[name]) for name, value in head.parameters_by_name().items())


def test_an_untrained_model_of_format_1_is_recognised_as_untrained(tmp_path: Path) -> None:
    """An untrained champion allows cross-fitting, so it must be recognised in this format too."""
    initial = {
        "beta": np.asarray(CONFIG["beta"], np.float32),
        "down": TENSORS["down"],
        "log_inverse_temperature": np.log(np.float32(20.0)),
        "log_memory_gain": np.log(np.float32(10.0)),
        "log_memory_sharpness": np.log(np.float32(12.0)),
        "null_evidence": np.asarray(0.8, np.float32),
        "up": np.zeros((HEADS, DIM, RANK), np.float32),
    }
    assert is_untrained(load_head(written(tmp_path / "1", initial)))
    for name in ("beta", "log_inverse_temperature", "up"):
        trained = initial | {name: np.asarray(initial[name] + np.float32(1e-4))}
        assert not is_untrained(load_head(written(tmp_path / name, trained))), name


@pytest.mark.parametrize("name", sorted(TENSORS))
def test_a_model_of_format_1_without_one_of_its_tensors_is_damage(tmp_path: Path, name: str) -> None:
    tensors = {other: tensor for other, tensor in TENSORS.items() if other != name}
    with pytest.raises(DamagedFile):
        load_head(written(tmp_path / "1", tensors))


@pytest.mark.parametrize("change", [{"beta": [0.1, 0.2]}, {"dim": 5}, {"beta": None}, {"rank": 3}])
def test_a_model_of_format_1_with_the_config_of_another_head_is_damage(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(DamagedFile):
        load_head(written(tmp_path / "1", config=CONFIG | change))
