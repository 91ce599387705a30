"""The benchmark of scans measures the indexes that it names, against brute force."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks import scans
from benchmarks.growth import DIM, WANTED, blocks, queries
from benchmarks.speed_tables import scans as scans_table


@pytest.fixture
def keys() -> np.ndarray:
    return np.concatenate([vectors for _, vectors in blocks(3_000)])


def test_the_nearest_keys_are_those_of_every_inner_product(keys: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans, "BATCH", 700)
    asked = queries()[:4]
    for query, found in zip(asked, scans.nearest(keys, asked), strict=True):
        assert set(found) == set(np.argsort(-(keys @ query))[:WANTED])


def test_every_way_is_measured_with_its_own_settings(keys: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans, "LISTS", 64)
    monkeypatch.setattr(scans, "PROBED", (1, 64))
    monkeypatch.setattr("index.candidates.pq4.REFINED", 3.0)  # otherwise so few keys would all be scored
    figures = {one["way"]: one["recall"] for one in scans.measure(keys, queries()[:10])}
    listed = [
        f"4 bits, {one} of 64 lists, trained on {trained}"
        for trained in ("all", "the first quarter")
        for one in (1, 64)
    ]
    assert list(figures) == ["8 bits", "4 bits", *listed]
    assert figures["8 bits"] > 0.99
    assert figures[listed[0]] < figures[listed[1]]
    assert figures[listed[2]] < figures[listed[3]]


def test_without_lists_more_keys_may_be_wanted(keys: np.ndarray) -> None:
    figures = scans.measure(keys, queries()[:4], wanted=400, lists=False)
    assert [one["way"] for one in figures] == ["8 bits", "4 bits"]
    assert figures[0]["recall"] > 0.99
    assert scans.nearest(keys, queries()[:4], 400).shape == (4, 400)
    assert "400 wanted" in scans_table({"wanted": 400, "keys": {"3,000": figures}})


def test_synthetic_keys_are_read_from_a_file(tmp_path: Path) -> None:
    keys = scans._synthetic(120, tmp_path / "keys.f32")
    assert keys.shape == (120, DIM)
    assert np.array_equal(keys, next(blocks(120))[1])
