"""Fixtures for the tests of the service."""

from collections.abc import Iterator

import pytest

from tests.service.held_encoding import HeldEncoding
from tests.service.training_processes import Spawn, forked_runs, shared_forking


@pytest.fixture(scope="session")
def spawn_forked() -> Spawn:
    """The function that forks training processes from one process, for all tests of this process."""
    return shared_forking()


@pytest.fixture(scope="module")
def forked_training() -> Iterator[Spawn]:
    """Training processes of a module's tests are forked, which saves each five seconds. Yields what starts others."""
    with forked_runs() as started:
        yield started


@pytest.fixture
def encoding(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldEncoding]:
    """Documents are encoded once it is opened, and at the end of the test."""
    held = HeldEncoding(monkeypatch)
    yield held
    held.open()
