"""Rows that one process appends and others map: the first rows never change, and growth is seen."""

from pathlib import Path

import numpy as np
import pytest

from index.errors import DamagedFile
from index.storage.shared_rows import MappedRows, SharedRows

FLOATS = np.dtype(np.float32)


def test_appended_rows_are_mapped(tmp_path: Path) -> None:
    rows = np.arange(3000, dtype=np.float32).reshape(1000, 3)
    shared = SharedRows(tmp_path / "rows")
    mapped = MappedRows(tmp_path / "rows", FLOATS, (3,))
    views = []
    for start, end in ((0, 1), (1, 255), (255, 257), (257, 1000)):
        shared.append(rows[start:end])
        views.append(mapped.first(end))
    for view in views:
        np.testing.assert_array_equal(view, rows[: len(view)])
    assert shared.count == 1000


def test_no_rows_need_no_file_contents(tmp_path: Path) -> None:
    SharedRows(tmp_path / "rows").append(np.empty((0, 3), np.float32))
    assert MappedRows(tmp_path / "rows", FLOATS, (3,)).first(0).shape == (0, 3)


def test_a_file_that_is_too_short_or_gone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows").write_bytes(bytes(24))
    mapped = MappedRows(tmp_path / "rows", FLOATS, (3,))
    assert len(mapped.first(2)) == 2
    with pytest.raises(DamagedFile, match="shorter than its 3 rows"):
        mapped.first(3)
    (tmp_path / "rows").unlink()
    assert len(mapped.first(2)) == 2, "what is mapped stays readable"
    with pytest.raises(DamagedFile, match="missing"):
        mapped.first(3)
