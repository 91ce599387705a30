"""A PostgreSQL server for the tests that need one, and, with TEST_POSTGRES, for the services of all tests.

Properties are tested with the same examples in every run, so that a run fails by a change and not by chance. SOAK=1
draws new examples.
"""

import gc
import logging
import os
import signal
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import structlog
from hypothesis import settings

from benchmarks.postgres import PostgresServer, running_server
from tests.files_in_memory import use_memory
from tests.postgres_servers import ALL_TESTS, make_schema, serve_all_tests
from tests.shared_statements import share_statements

ended_last = ExitStack()
settings.register_profile("repeatable", derandomize=True, database=None)
if not os.environ.get("SOAK"):
    settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A server for the tests of this process."""
    with running_server() as server:
        yield server


@contextmanager
def log_restored() -> Iterator[None]:
    """Restore the configuration of the log at the end: a command or a service in this process changes it."""
    before, handler, shown = structlog.get_config(), logging.lastResort, warnings.showwarning
    yield
    structlog.configure(**before)
    logging.lastResort, warnings.showwarning = handler, shown


@pytest.fixture(scope="module", autouse=True)
def log_as_before_the_module() -> Iterator[None]:
    """Restore the configuration of the log after what fixtures of a module start."""
    with log_restored():
        yield


@pytest.fixture(autouse=True)
def log_as_before() -> Iterator[None]:
    """Restore the configuration of the log after each test."""
    with log_restored():
        yield


def pytest_configure(config: pytest.Config) -> None:
    """Let processes of tests receive Ctrl-C, and the services of all tests keep their content in PostgreSQL, if wanted.

    A shell that starts a command in the background lets it ignore Ctrl-C, and processes inherit that.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    use_memory()
    share_statements()
    if not os.environ.get(ALL_TESTS):
        return
    if not hasattr(config, "workerinput"):  # the first of the processes
        server = ended_last.enter_context(running_server())
        make_schema(server)
        os.environ[ALL_TESTS] = server.address
        root = Path(__file__).parents[1]
        paths = [str(root), str(root / "tests" / "started"), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    serve_all_tests()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect no garbage meanwhile, and look for none later in the modules and tests that stay until the end."""
    gc.disable()
    found = yield
    gc.freeze()
    gc.enable()
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out the tests of SQLite's file, where all services are on PostgreSQL."""
    if os.environ.get(ALL_TESTS):
        for item in items:
            if item.get_closest_marker("sqlite"):
                item.add_marker(pytest.mark.skip(reason="the test is of SQLite's file"))


def pytest_unconfigure() -> None:
    """End the server."""
    ended_last.close()
