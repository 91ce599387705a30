"""Model files: a loaded head has the bits of the saved head, or loading fails."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from index.errors import DamagedFile
from index.ranking.attention import AttentionHead, HeadConfig, initial_parameters
from index.ranking.checkpoint import FORMAT, WEIGHTS, head_bytes, load_head, save_head
from index.ranking.score_functions import FORMS
from index.records import Floats
from index.storage.files import MANIFEST, write_manifest
from tests.index.numpy_torch import moved
from tests.index.ranking.attention_by_hand import flatten, random_documents

CONFIG = HeadConfig(
    dim=3,
    rank=2,
    heads=2,
    form="gaussian",
    normaliser="uniform",
    beta=(0.1, 0.7, 0.05, 0.4, 0.3, 0.25, 0.15, 0.45, 0.35, 0.2),
    null=(12.0, 0.7, 1.5),
    sharpness=11.0,
    seed=4,
    value_rank=2,
)
Values = dict[str, Floats]


def trained(config: HeadConfig) -> AttentionHead:
    """Return a head with all parameters changed from their initial values, the null slot included."""
    return AttentionHead(config, moved(initial_parameters(config), 1.0))


@pytest.fixture
def head() -> AttentionHead:
    return trained(CONFIG)


@pytest.fixture
def folder(tmp_path: Path, head: AttentionHead) -> Path:
    save_head(tmp_path / "1", head, {"seed": 4})
    return tmp_path / "1"


def unnoticed_flips(folder: Path, name: str) -> list[bytes]:
    """Return the context of each byte of a file whose flipped bit is not detected on loading."""
    body = (folder / name).read_bytes()
    unnoticed = []
    for at in range(len(body)):
        (folder / name).write_bytes(body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :])
        try:
            load_head(folder)
        except DamagedFile:
            continue
        unnoticed.append(body[max(0, at - 12) : at + 12])
    return unnoticed


def test_a_loaded_head_has_the_bits_and_shape_of_the_saved_head(folder: Path, head: AttentionHead) -> None:
    loaded = load_head(folder)
    assert loaded.config == CONFIG
    values = loaded.parameters_by_name()
    assert values.keys() == head.parameters_by_name().keys()
    for name, value in head.parameters_by_name().items():
        assert values[name].dtype == value.dtype
        assert np.array_equal(values[name], value), name


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("heads", [1, 3])
def test_a_loaded_head_of_any_form_has_the_saved_bits(tmp_path: Path, form: str, heads: int) -> None:
    head = trained(replace(CONFIG, form=form, heads=heads))
    save_head(tmp_path / "1", head, {})
    loaded = load_head(tmp_path / "1")
    assert head_bytes(loaded) == head_bytes(head)
    query, candidates = np.eye(3, dtype=np.float32)[:1], flatten([random_documents(1, 4, 3)], 3)
    assert np.array_equal(loaded(query, candidates).logits, head(query, candidates).logits)


def test_a_loaded_head_is_read_only(folder: Path) -> None:
    loaded = load_head(folder)
    assert not any(value.flags.writeable for value in loaded.parameters_by_name().values())


def test_the_manifest_has_the_lineage_of_a_head(folder: Path) -> None:
    assert json.loads((folder / MANIFEST).read_bytes())["lineage"] == {"seed": 4}


def test_an_earlier_release_did_not_say_whether_the_null_slot_is_calibrated(tmp_path: Path) -> None:
    """Where `null_calibrated` is missing, a null slot that training moved is calibrated, and an initial one is not."""
    initial = AttentionHead(CONFIG)
    for name, head, calibrated in (("0", initial, False), ("1", initial.changed(null=[3.0, 0.2, 0.1]), True)):
        save_head(tmp_path / name, head, {})
        config = asdict(CONFIG)
        del config["null_calibrated"]
        write_manifest(tmp_path / name, [WEIGHTS], {"format": FORMAT, "config": config, "lineage": {}})
        assert load_head(tmp_path / name).is_null_calibrated is calibrated


def test_a_saved_head_is_never_overwritten(folder: Path, head: AttentionHead) -> None:
    before = (folder / WEIGHTS).read_bytes()
    with pytest.raises(FileExistsError):
        save_head(folder, AttentionHead(replace(CONFIG, seed=5)), {})
    assert (folder / WEIGHTS).read_bytes() == before


def test_a_flipped_bit_in_any_byte_of_the_weights_is_damage(folder: Path) -> None:
    assert unnoticed_flips(folder, WEIGHTS) == []


def test_a_flipped_bit_in_any_byte_of_the_manifest_is_damage(folder: Path) -> None:
    assert unnoticed_flips(folder, MANIFEST) == []


@pytest.mark.parametrize("name", [WEIGHTS, MANIFEST])
def test_a_missing_file_is_damage(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(DamagedFile):
        load_head(folder)


def test_a_missing_folder_is_damage(tmp_path: Path) -> None:
    with pytest.raises(DamagedFile):
        load_head(tmp_path / "nowhere")


def test_an_incompletely_saved_head_is_not_loaded(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes())
    with pytest.raises(DamagedFile, match="no readable manifest"):
        load_head(tmp_path / "2")


@pytest.mark.parametrize(
    "change",
    [
        {"format": FORMAT + 1},
        {"config": asdict(CONFIG) | {"form": "unheard of"}},
        {"config": asdict(CONFIG) | {"beta": [0.1, 0.2]}},
        {"config": asdict(CONFIG) | {"null": [0.1]}},
        {"config": asdict(CONFIG) | {"heads": 1}},
        {"config": asdict(CONFIG) | {"unheard": 1}},
        {"config": {}},
        {"format": 1},
    ],
)
def test_a_manifest_that_describes_another_head_is_damage(folder: Path, change: dict[str, Any]) -> None:
    write_manifest(folder, [WEIGHTS], {"format": FORMAT, "config": asdict(CONFIG), "lineage": {}} | change)
    with pytest.raises(DamagedFile, match="does not describe a head"):
        load_head(folder)


def without(name: str) -> Callable[[Values], Values]:
    return lambda values: {other: value for other, value in values.items() if other != name}


@pytest.mark.parametrize(
    "change",
    [
        without("beta"),
        without("hop"),
        without("score.key_down"),
        lambda values: values | {"unheard": values["beta"]},
        lambda values: values | {"score.unheard": values["score.up"]},
        lambda values: values | {"beta": values["beta"][:-1]},
        lambda values: values | {"hop": values["hop"][None]},
        lambda values: values | {"score.up": values["score.up"].transpose(0, 2, 1).copy()},
        lambda values: values | {"beta": values["beta"].astype(np.float64)},
        lambda values: values | {"score.up": values["score.up"].astype(np.float16)},
        lambda values: values | {"null": values["null"].astype(np.int32)},
        lambda values: {},
    ],
)
def test_tensors_with_wrong_names_shapes_or_types_are_damage(
    tmp_path: Path, change: Callable[[Values], Values]
) -> None:
    with pytest.raises(DamagedFile, match="does not describe a head"):
        load_head(written(tmp_path / "1", save(change(trained(CONFIG).parameters_by_name()))))


def test_a_file_without_tensors_is_damage(tmp_path: Path) -> None:
    with pytest.raises(DamagedFile, match="does not describe a head"):
        load_head(written(tmp_path / "1", b"not a file of tensors"))


def written(folder: Path, tensors: bytes) -> Path:
    """Return a folder with these bytes as tensors and a matching manifest."""
    folder.mkdir()
    (folder / WEIGHTS).write_bytes(tensors)
    write_manifest(folder, [WEIGHTS], {"format": FORMAT, "config": asdict(CONFIG), "lineage": {}})
    return folder
