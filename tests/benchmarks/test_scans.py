"""The benchmark of scans measures what it names, against brute force."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks import scans
from benchmarks.growth import DIM, WANTED, blocks, queries
from index.candidates import compressed


@pytest.fixture
def keys() -> np.ndarray:
    return np.concatenate([vectors for _, vectors in blocks(3_000)])


def test_the_truth_is_every_inner_product(keys: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans, "BATCH", 700)
    asked = queries()[:4]
    for query, found in zip(asked, scans.nearest(keys, asked), strict=True):
        assert set(found) == set(np.argsort(-(keys @ query))[:WANTED])


def test_every_way_is_measured_with_the_settings_that_it_names(
    keys: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compressed, "LISTS", 64)
    monkeypatch.setattr(scans, "PROBED", (1, 64))
    monkeypatch.setattr(compressed, "REFINED", 3.0)  # else so few keys would all be scored
    figures = {one["way"]: one for one in scans.measure(keys, queries()[:10])}
    assert list(figures) == ["8 bits", "4 bits", "4 bits, 1 of 64 lists", "4 bits, 64 of 64 lists"]
    assert figures["8 bits"]["recall"] > 0.99
    assert figures["4 bits, 1 of 64 lists"]["recall"] < figures["4 bits, 64 of 64 lists"]["recall"]
    assert compressed.LISTED_FROM == 1 << 22


def test_synthetic_keys_are_read_from_a_file(tmp_path: Path) -> None:
    keys = scans._synthetic(120, tmp_path / "keys.f32")
    assert keys.shape == (120, DIM)
    assert np.array_equal(keys, next(blocks(120))[1])
