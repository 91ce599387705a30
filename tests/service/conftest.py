"""Fixtures for the tests of the service."""

from collections.abc import Iterator

import pytest

from tests.service.browser import Site, Visit, open_site
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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A served collection of tools and a browser, for the tests of a module."""
    with open_site(tmp_path_factory.mktemp("data")) as site:
        yield site


@pytest.fixture
def visit(site: Site) -> Iterator[Visit]:
    """A visit to the site."""
    with site.visit() as visit:
        yield visit


@pytest.fixture
def timed_visit(site: Site) -> Iterator[Visit]:
    """A visit in which time passes by `pass_time` alone."""
    with site.visit(stopped=True) as visit:
        yield visit
