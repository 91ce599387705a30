"""A question to the database is shared by its askers, and none of them waits for long."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from service.storage import database_probe
from service.storage.database import DatabaseReader, DatabaseUnreachable
from service.storage.database_probe import DatabaseProbe

ROOT = Path(__file__).parents[2]


class HeldDatabase(DatabaseReader):
    """Answers once it is let go, or not at all."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.is_away = False
        self.asked = 0
        self.threads: set[threading.Thread] = set()

    def read(self) -> AbstractContextManager[Connection]:
        raise AssertionError("the probe asks for rows")

    def fetch(self, statement: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        self.asked += 1
        self.threads.add(threading.current_thread())
        self.let_go.wait()
        if self.is_away:
            raise DatabaseUnreachable("the database does not answer: connection refused")
        return [(1,)]

    def close(self) -> None:
        """Close nothing."""


@pytest.fixture
def database() -> Iterator[HeldDatabase]:
    database = HeldDatabase()
    yield database
    database.let_go.set()


def outcomes(probe: DatabaseProbe, count: int = 1) -> list[bool]:
    """Return for askers at the same time whether the database answers."""

    async def ask() -> list[Any]:
        return await asyncio.gather(*(probe.require() for _ in range(count)), return_exceptions=True)

    found = asyncio.run(ask())
    assert all(one is None or isinstance(one, DatabaseUnreachable) for one in found)
    return [one is None for one in found]


def test_askers_at_the_same_time_are_one_question(database: HeldDatabase) -> None:
    database.let_go.set()
    assert outcomes(DatabaseProbe(database), 20) == [True] * 20
    assert database.asked == 1


def test_an_answer_is_asked_anew_once_it_is_old(database: HeldDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_probe, "FRESH_SECONDS", 0)
    database.let_go.set()
    probe = DatabaseProbe(database)
    assert outcomes(probe) == [True]
    database.is_away = True
    assert outcomes(probe) == [False]
    database.is_away = False
    assert outcomes(probe) == [True]
    assert database.asked == 3


def test_a_database_that_hangs_is_asked_once_and_delays_nobody(
    database: HeldDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_probe, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(database_probe, "FRESH_SECONDS", 0)
    probe = DatabaseProbe(database)
    assert outcomes(probe, 3) == [False] * 3
    assert outcomes(probe) == [False]
    assert database.asked == 1
    probe.close()


ENDING = """
import asyncio, threading
from service.storage import database_probe

class HungDatabase:
    def fetch(self, statement, parameters):
        threading.Event().wait()

database_probe.WAIT_SECONDS = 0.01
probe = database_probe.DatabaseProbe(HungDatabase())
try:
    asyncio.run(probe.require())
except database_probe.DatabaseUnreachable:
    probe.close()
    print("closed")
"""


def test_a_process_ends_while_its_database_hangs() -> None:
    command = [sys.executable, "-c", ENDING]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert (ended.stdout, ended.stderr) == ("closed\n", "")


def test_questions_share_a_thread_that_ends_with_the_probe(
    database: HeldDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_probe, "FRESH_SECONDS", 0)
    database.let_go.set()
    probe = DatabaseProbe(database)
    assert outcomes(probe) + outcomes(probe) == [True, True]
    (thread,) = database.threads
    probe.close()
    thread.join(60)
    assert not thread.is_alive()


def test_an_asker_who_leaves_takes_no_answer_from_the_others(database: HeldDatabase) -> None:
    probe = DatabaseProbe(database)

    async def ask() -> None:
        leaving, staying = (asyncio.ensure_future(probe.require()) for _ in range(2))
        await asyncio.sleep(0)  # both wait
        leaving.cancel()
        await asyncio.wait({leaving})
        database.let_go.set()
        await staying

    asyncio.run(ask())
    assert database.asked == 1
