"""The driver of PostgreSQL is optional: a service whose database is SQLite runs without it."""

from pathlib import Path

import httpx
import pytest

from tests.service.workers.services import started


@pytest.mark.parametrize("processes", [1, 2])
def test_a_service_runs_without_the_driver_of_postgresql(tmp_path: Path, processes: int) -> None:
    (tmp_path / "psycopg.py").write_text('raise ImportError("the driver is not installed")\n')
    with started(tmp_path / "data", processes, {"PYTHONPATH": str(tmp_path)}) as (_, url):
        found = httpx.post(f"{url}/v1/collections/default/search", json={"q": "oak"}, timeout=60)
    assert found.status_code == 200
    assert found.json()["hits"] == []
