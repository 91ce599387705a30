"""Vectors in an append-only file: views keep their rows."""

from pathlib import Path

import numpy as np
import pytest

from index.errors import DamagedFile
from index.storage.vector_file import VectorFile
from tests.index.fixtures import random_vectors

ROWS = random_vectors(600, 3, seed=1)


def test_rows_come_back_as_they_were_written(tmp_path: Path) -> None:
    file = VectorFile(tmp_path / "keys", 3)
    assert np.array_equal(file.extended(0, ROWS[:10]), ROWS[:10])
    assert np.array_equal(file.extended(10, ROWS[10:]), ROWS)
    assert len(file.extended(600, ROWS[:0])) == 600


def test_a_view_keeps_its_rows_while_others_are_appended_and_the_file_is_removed(tmp_path: Path) -> None:
    file = VectorFile(tmp_path / "keys", 3)
    first = file.extended(0, ROWS[:200])
    for start in range(200, 600, 50):
        file.extended(start, ROWS[start : start + 50])
    file.sync(600)
    (tmp_path / "keys").unlink()
    assert np.array_equal(first, ROWS[:200])


def test_rows_from_the_used_count_on_are_overwritten(tmp_path: Path) -> None:
    file = VectorFile(tmp_path / "keys", 3)
    file.extended(0, ROWS[:20])
    assert np.array_equal(file.extended(10, ROWS[30:35]), np.concatenate([ROWS[:10], ROWS[30:35]]))


def test_a_view_is_read_only(tmp_path: Path) -> None:
    rows = VectorFile(tmp_path / "keys", 3).extended(0, ROWS[:5])
    with pytest.raises(ValueError, match="read-only"):
        rows[0] = 0


def test_a_synced_file_ends_with_its_last_row_and_can_still_grow(tmp_path: Path) -> None:
    file = VectorFile(tmp_path / "keys", 3)
    file.extended(0, ROWS[:300])
    file.sync(300)
    assert (tmp_path / "keys").read_bytes() == ROWS[:300].tobytes()
    assert np.array_equal(file.extended(300, ROWS[300:]), ROWS)
    file.sync(600)
    opened, rows = VectorFile.open(tmp_path / "keys", 3, 600)
    assert (tmp_path / "keys").read_bytes() == ROWS.tobytes()
    assert np.array_equal(rows, ROWS)
    assert np.array_equal(opened.extended(600, ROWS[:1])[-1], ROWS[0])


def test_opening_a_missing_or_short_file_raises_damaged_file(tmp_path: Path) -> None:
    with pytest.raises(DamagedFile, match="missing"):
        VectorFile.open(tmp_path / "keys", 3, 1)
    VectorFile(tmp_path / "keys", 3).sync(0)
    with pytest.raises(DamagedFile, match="shorter"):
        VectorFile.open(tmp_path / "keys", 3, 1)


def test_a_file_without_rows_can_be_opened_and_extended(tmp_path: Path) -> None:
    VectorFile(tmp_path / "keys", 3).sync(0)
    file, rows = VectorFile.open(tmp_path / "keys", 3, 0)
    assert rows.shape == (0, 3)
    assert np.array_equal(file.extended(0, ROWS[:2]), ROWS[:2])
