"""Impressions of a searcher that wait for the primary: past the limit the oldest are dropped, and counted."""

from pathlib import Path
from typing import Any

import pytest

from service.http.metrics import LOST_IMPRESSIONS
from service.searchers import spool
from service.searchers.spool import Spool


def test_impressions_of_dropped_files_are_counted_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MOST_FILES", 1)

    def refuse(_rows: list[dict[str, Any]]) -> None:
        raise OSError("the primary is away")

    before = LOST_IMPRESSIONS._value.get()
    (tmp_path / "000000000001.json").write_bytes(b"[{}, {}, {}]")
    (tmp_path / "000000000002.json").write_bytes(b"damaged")
    made = Spool(tmp_path, refuse)
    made.add({"query_id": "new"})
    made.flush()
    assert made.waiting == 1, "the newest"
    assert LOST_IMPRESSIONS._value.get() == before + 3, "a file that cannot be read ends nothing"
    made.close()
