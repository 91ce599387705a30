"""Fixtures for the tests of the service."""

from collections.abc import Iterator

import pytest

from service.training import child_process
from tests.service.training_processes import Spawn, forking


@pytest.fixture(scope="session")
def spawn_forked() -> Iterator[Spawn]:
    """The function that forks training processes from one process, for all tests of this process."""
    with forking() as spawn:
        yield spawn


@pytest.fixture(scope="module")
def forked_training(spawn_forked: Spawn) -> Iterator[Spawn]:
    """Training processes of a module's tests are forked, which saves each three seconds. Yields what starts others."""
    spawn = child_process._spawn
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(child_process, "_spawn", spawn_forked)
        yield spawn
