"""A worker gives free memory back, as the housekeeping of the service does for its own process."""

import asyncio
from contextlib import suppress
from types import SimpleNamespace

import pytest

from service.workers import worker


def test_a_worker_gives_free_memory_back_once_in_so_many_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    given_back: list[int] = []
    reports: list[object] = []
    monkeypatch.setattr(worker, "REPORT_SECONDS", 0)
    monkeypatch.setattr(worker, "GIVE_BACK_REPORTS", 3)
    monkeypatch.setattr(worker, "give_back_free_memory", lambda: given_back.append(len(reports)))
    server = object.__new__(worker.WorkerServer)
    server._runtime = SimpleNamespace(  # type: ignore[assignment]
        keyring=SimpleNamespace(last_uses=dict), outbox=SimpleNamespace(send=reports.append)
    )

    async def report() -> None:
        reporting = asyncio.create_task(server._report())
        while len(given_back) < 3:
            await asyncio.sleep(0.001)
        reporting.cancel()
        with suppress(asyncio.CancelledError):
            await reporting

    asyncio.run(asyncio.wait_for(report(), 60))
    assert given_back[:3] == [1, 4, 7]
