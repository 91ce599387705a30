"""The benchmark of snapshots measures every row of its tables, and content is equal after a kill."""

from pathlib import Path

import pytest

from benchmarks import snapshot_tables, snapshots

pytestmark = pytest.mark.sqlite


def test_a_small_run_fills_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "KILL_DOCUMENTS", 20)
    (tmp_path / "timed").mkdir()
    (tmp_path / "kills").mkdir()
    figures = snapshots.measure(tmp_path / "timed", 30, 0)
    figures |= snapshots.kill_repeatedly(tmp_path / "kills", 2, 0)
    assert (figures["kills"], figures["equal"]) == (2, 2)
    for text in (snapshot_tables.times(figures), snapshot_tables.kills(figures)):
        assert "| - |" not in text
    assert "| 30 documents |" in snapshot_tables.times(figures)
