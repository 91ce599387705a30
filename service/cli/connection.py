"""Connects a command to the service over HTTP: to a server at --url or of the data directory, or in this process.

Without a server this process opens the data directory and serves the same application on a Unix socket in a private
folder, so that each command has a single implementation. Closing stops the server, saves the indexes and releases the
directory.
"""

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from service.cli.credentials import given_key
from service.cli.failures import ERROR, OWNED, USAGE, Failure

if TYPE_CHECKING:
    from httpx import Client

    from service.cli.client import Service
    from service.runtime.runtime import Runtime
    from service.settings import Settings

DEFAULT_COLLECTION = "default"
"""The collection that every data directory has."""
MAX_SOCKET_BYTES = 100
"""Bytes of a socket's path. The limit of the system is 107 on Linux and 103 elsewhere."""
DOTS = {".": "%2E", "..": "%2E%2E"}
"""The parts of a path that `quote` leaves as they are, although they name the part itself and the part above it."""
RAY_MISSING = "Ray is not installed: pip install 'softseek[ray]'"
START_SECONDS = 30


def path_of(*parts: str) -> str:
    """Return the path of a resource. A part has no meaning in a path but its text: clients resolve a plain `..`."""
    return "/".join(["/v1", *(DOTS.get(part) or quote(part, safe="") for part in parts)])


def collection_path(collection: str, *parts: str) -> str:
    """Return the path of a collection, or of a resource in it.

    Raises Failure USAGE for a slash in a name: only the paths of documents have one, and the service finds no other.
    """
    for name in (collection, *(() if parts[:1] == ("documents",) else parts)):
        if "/" in name:
            raise Failure(USAGE, f"{name}: a name or id must have no slash; only the id of a document may")
    return path_of("collections", collection, *parts)


@contextmanager
def connect(data: Path | None, url: str | None, creates: bool = False) -> Iterator["Service"]:
    """Yield the service at `url`, the server of the data directory, or the directory, opened until the end.

    creates: whether the command makes a new directory where there is none. Raises Failure: OWNED if another
    process owns the directory, ERROR if it has no data and the command creates none, USAGE for an invalid address or
    setting.
    """
    from service.cli.client import Service, client_for

    settings = settings_from(data=data)
    address = server_address(settings, data, url)
    if address is None:
        settings = quiet(settings)
        with open_runtime(settings, creates=creates) as runtime, serve_in_thread(settings, runtime) as client:
            yield Service(client, f"the data directory {settings.data}", local=True)
    else:
        key = given_key() or (settings.key.get_secret_value() if settings.key else None)
        with client_for(address, key) as client:
            yield Service(client, address, local=False)


def server_address(settings: "Settings", data: Path | None, url: str | None) -> str | None:
    """Return `url`, or the address of the server that owns the data directory; None without a server.

    Raises Failure USAGE for `url` together with `data`.
    """
    from service.storage.owner_lock import address_of_server

    if url is not None and data is not None:
        raise Failure(USAGE, "--data and --url exclude each other: a server has its own data directory")
    return address_of_server(settings.data) if url is None else url


def settings_from(**flags: object) -> "Settings":
    """Return the settings; flags take precedence. Raises Failure USAGE with the unknown or invalid setting."""
    from pydantic import ValidationError

    from service.settings import UnknownSetting, load_settings

    try:
        return load_settings(**flags)
    except UnknownSetting as error:
        raise Failure(USAGE, str(error)) from error
    except ValidationError as error:
        faults = [
            f"setting {'.'.join(map(str, fault['loc']))}: {fault['msg'].removeprefix('Value error, ')}"
            for fault in error.errors()
        ]
        raise Failure(USAGE, faults[0], faults[1:]) from error


def quiet(settings: "Settings") -> "Settings":
    """Return the settings with log level error, unless the log level is set. For commands other than `serve`."""
    return settings if "log_level" in settings.model_fields_set else settings.model_copy(update={"log_level": "error"})


@contextmanager
def open_runtime(
    settings: "Settings", new: bool = False, serves: bool = False, creates: bool = False
) -> Iterator["Runtime"]:
    """Yield the opened data directory, then save and release it. Raises Failure if it cannot be opened.

    new: move the contents of a directory without a database aside. serves: the application is imported meanwhile, and
    a new directory is made. creates: a new directory is made.
    """
    with ready_to_open(settings):
        if not (serves or creates):
            require_content(settings)
        from service.runtime.runtime import Runtime

        if serves:  # the files of the encoder are checked and read without the interpreter's lock
            threading.Thread(target=import_module, args=("service.app",), daemon=True).start()
        if serves and settings.role != "all" and settings.database is None:
            raise Failure(
                USAGE, f"--role {settings.role} needs SOFTSEEK_DATABASE, the address of a PostgreSQL database"
            )
        if serves and not settings.only_reads:
            _check_cluster_settings(settings)
        if serves and settings.role == "searcher":
            from service.searchers.searcher_runtime import SearcherRuntime  # its driver is optional

            runtime: Runtime = SearcherRuntime.open(settings)
        elif serves and settings.role == "coordinator":
            runtime = open_coordinator(settings)
        else:
            runtime = Runtime.open(settings, new=new)
    try:
        yield runtime
    finally:
        runtime.close()


def require_content(settings: "Settings") -> None:
    """Raise Failure if the data directory has no data: a mistyped name would be an empty service.

    The content of a PostgreSQL database is not in the directory, which may be new.
    """
    from service.runtime.first_start import has_content

    if settings.database is None and not has_content(settings.data):
        advice = "--data and SOFTSEEK_DATA name the directory; `softseek serve` and `softseek ingest` make a new one"
        raise Failure(ERROR, f"{settings.data} has no Softseek data: {advice}")


def _check_cluster_settings(settings: "Settings") -> None:
    """Raise Failure if the service could not use the Ray cluster that its settings want."""
    if settings.ray_encoders and settings.database is None:
        raise Failure(
            USAGE, "SOFTSEEK_RAY_ENCODERS needs SOFTSEEK_DATABASE: encoders read the documents from PostgreSQL"
        )
    if (settings.ray_encoders or settings.ray_training) and find_spec("ray") is None:
        raise Failure(ERROR, RAY_MISSING)


def open_coordinator(settings: "Settings") -> "Runtime":
    """Start a coordinator of the partitions of a Ray cluster."""
    from service.cluster.connection import connect
    from service.partitions.coordinator_runtime import CoordinatorRuntime

    cluster = import_ray()
    connect(settings.ray_address)
    return CoordinatorRuntime.over(cluster.calls_of_cluster(settings.partial_answers), settings)


def import_ray() -> Any:
    """Return the module of Ray's deployments. Raises Failure if the library is not installed."""
    from service.cluster.connection import ENVIRONMENT

    os.environ.update({name: value for name, value in ENVIRONMENT.items() if name not in os.environ})
    try:
        return import_module("service.partitions.ray_cluster")
    except ImportError as error:
        raise Failure(ERROR, RAY_MISSING) from error


@contextmanager
def ready_to_open(settings: "Settings") -> Iterator[None]:
    """Send the log to stderr, and raise errors of the data directory as a Failure."""
    from sqlalchemy.exc import SQLAlchemyError

    from index.errors import SearchError
    from service.runtime.first_start import DatabaseLost, DatabasePresent, OtherDatabase
    from service.runtime.log_lines import configure_logging
    from service.storage.database import UnknownSchema
    from service.storage.owner_lock import DirectoryOwned

    configure_logging(settings.log_level)
    before = os.umask(0o077)  # files of a data directory are of its owner alone, whatever command makes them
    try:
        yield
    except DirectoryOwned as error:
        raise Failure(OWNED, f"{error}; use --url to connect to its server") from error
    except (SearchError, DatabaseLost, DatabasePresent, OtherDatabase) as error:
        raise Failure(ERROR, str(error)) from error
    except (SQLAlchemyError, UnknownSchema, OSError) as error:
        reason = getattr(error, "orig", None) or error
        raise Failure(ERROR, f"the data directory {settings.data} cannot be opened: {reason}") from error
    finally:
        os.umask(before)


@contextmanager
def serve_in_thread(settings: "Settings", runtime: "Runtime") -> Iterator["Client"]:
    """Yield a client of the application, which runs in a thread of this process."""
    import uvicorn

    from service.app import create_app
    from service.cli.client import client_of_socket

    with socket_path() as path:
        config = uvicorn.Config(
            # a command is over before a scheduled run would be, and only the owner reaches the socket
            create_app(settings, runtime, trains=False, owner=True),
            uds=path,
            loop="uvloop",
            ws="none",
            http="httptools",
            log_config=None,
            access_log=False,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, name="server", daemon=True)
        thread.start()
        try:
            await_start(server, thread)
            with client_of_socket(path) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def socket_path() -> Iterator[str]:
    """Yield a path for a socket, in a folder that only this user can access."""
    folder = tempfile.gettempdir()
    if len(os.fsencode(folder)) > MAX_SOCKET_BYTES - len("/softseek-12345678/http"):
        folder = "/tmp"
    with tempfile.TemporaryDirectory(prefix="softseek-", dir=folder) as private:
        yield f"{private}/http"


def await_start(server: Any, thread: threading.Thread) -> None:
    """Return when the server has started. Raises Failure if it does not start."""
    deadline = time.monotonic() + START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise Failure(ERROR, "the service did not start")
        time.sleep(0.01)
