"""`serve` runs the server, `demo` demonstrates learning, `doctor` checks the installation."""

import errno
import os
import platform
import signal
import socket
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from index.storage.open_files import allow_many_open_files
from service.cli import show
from service.cli.connection import connect, open_runtime, quiet, ready_to_open, settings_from
from service.cli.failures import ERROR, OWNED, USAGE, Failure, Refused
from service.cli.options import DataOption, JsonOption, UrlOption
from service.cli.protection import is_loopback, protect, refuse_unprotected
from service.runtime.arenas import limit_arenas
from service.runtime.garbage import collections_paused, leave_out_what_exists
from service.storage.owner_lock import require_unowned

if TYPE_CHECKING:
    import uvicorn

    from service.cli.client import Service
    from service.runtime.runtime import Runtime
    from service.settings import Settings

BACKLOG = 2048
LIBRARIES = ("torch", "sentence-transformers", "faiss-cpu", "tantivy", "sqlalchemy", "fastapi", "numpy")


class StopSignal:
    """Handles SIGTERM and SIGINT: stops the server in order, or exits if the server is not running yet."""

    def __init__(self) -> None:
        self.server: uvicorn.Server | None = None
        self.is_outdated = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self)

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        if self.server is None:
            raise SystemExit(0)
        self.server.should_exit = True

    def stop_outdated(self) -> None:
        """End the process in order, for a new start: its memory is older than the database. Any thread calls it."""
        self.is_outdated = True
        os.kill(os.getpid(), signal.SIGTERM)


def print_version(asked: bool) -> None:
    """Write the version and end the command, if asked."""
    if asked:
        from importlib.metadata import version

        show.line(f"softseek {version('softseek')}")
        raise typer.Exit


def options(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """A search engine that learns from feedback."""


def serve(
    data: DataOption = None,
    host: Annotated[
        str | None, typer.Option(help="The address to listen on; by default 127.0.0.1.", show_default=False)
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="The port; by default 8080. 0 selects a free port.", show_default=False),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=64,
            help="Processes that answer searches; by default one for each core, at most 8.",
            show_default=False,
        ),
    ] = None,
    role: Annotated[
        str | None, typer.Option(help="all, writer, searcher or coordinator; by default all.", show_default=False)
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen beyond this machine, or behind a proxy, without API keys.")
    ] = False,
    make_admin_key: Annotated[
        bool, typer.Option("--make-admin-key", help="If there is no API key, make one in the file DATA/admin.key.")
    ] = False,
    new: Annotated[
        bool, typer.Option("--new", help="Start anew where the database is gone; the contents are moved aside.")
    ] = False,
    json_out: JsonOption = False,
) -> None:
    """Run the server until SIGTERM or Ctrl-C."""
    os.umask(0o077)  # the files of the data directory are for their owner alone
    allow_many_open_files()
    limit_arenas()
    stop = StopSignal()
    settings = settings_from(data=data, host=host, port=port, workers=workers, role=role, insecure=insecure or None)
    listening = bind(settings)
    refuse_unprotected(settings, listening, make_admin_key)
    with listening, collections_paused(), open_runtime(settings, new, serves=True) as runtime:
        runtime.database.when_outdated = stop.stop_outdated
        protect(runtime, listening, make_admin_key)
        listening.listen(BACKLOG)  # connections before the server's start wait
        runtime.owner_lock.announce(address_from_here(listening))
        announce(settings, listening, json_out)
        try:
            if settings.processes == 1 or settings.only_reads:
                serve_alone(settings, runtime, listening, stop)
            else:
                serve_with_workers(settings, runtime, listening, stop)
        finally:
            runtime.owner_lock.announce(None)
    if stop.is_outdated:
        raise Failure(ERROR, "the memory of the service was older than the database: start it again")


def serve_alone(settings: "Settings", runtime: "Runtime", listening: socket.socket, stop: StopSignal) -> None:
    """Answer all requests in this process."""
    import uvicorn

    from service.app import create_app
    from service.http.connection import Patience, bounded
    from service.http.server import server_config

    connections = bounded(Patience(settings.max_connections), lambda: runtime.search_pool.free_places)
    if settings.only_reads:
        from service.searchers.searcher_app import create_searcher_app  # its driver is optional
        from service.searchers.searcher_runtime import SearcherRuntime

        assert isinstance(runtime, SearcherRuntime)
        app = create_searcher_app(settings, runtime)
    else:
        app = create_app(settings, runtime)
    stop.server = uvicorn.Server(server_config(app, connections))
    leave_out_what_exists()
    stop.server.run(sockets=[listening])


def serve_with_workers(settings: "Settings", runtime: "Runtime", listening: socket.socket, stop: StopSignal) -> None:
    """Answer requests in this process and in workers, which pass on all but reading requests."""
    from service.app import create_app
    from service.http.connection import Patience, bounded
    from service.http.server import server_config
    from service.workers.shared_server import SharedServer
    from service.workers.supervisor import Workers

    with tempfile.TemporaryDirectory(prefix="softseek-") as folder:  # the path of a socket must be short
        address = Path(folder) / "service.sock"
        internal = socket.socket(socket.AF_UNIX)
        internal.bind(str(address))
        workers = Workers(runtime, settings.processes - 1, address)
        patience = Patience(2 * settings.max_connections)  # what workers pass on comes on connections of its own
        connections = bounded(patience, lambda: runtime.search_pool.free_places, lambda: workers.cells.count_closed(0))
        app = create_app(settings, runtime, before_answers=workers.publisher.publish)
        stop.server = SharedServer(server_config(app, connections), listening, internal, workers)
        leave_out_what_exists()
        try:
            stop.server.run()
        finally:
            workers.stop()


def bind(settings: "Settings") -> socket.socket:
    """Return a socket bound to the address. Raises Failure if this is not possible.

    If the port is in use and another process owns the data directory, this is most likely the same command given twice:
    the failure is OWNED.
    """
    host, port = settings.host, settings.port
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise Failure(ERROR, f"cannot listen on {host}: {error.strerror}") from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            with ready_to_open(settings):
                require_unowned(settings.data)
        raise Failure(ERROR, f"cannot listen on {host}, port {port}: {error.strerror}") from error
    return bound


def announce(settings: "Settings", listening: socket.socket, json_out: bool) -> None:
    """Write the address of the server."""
    port = listening.getsockname()[1]
    url = f"http://[{settings.host}]:{port}" if ":" in settings.host else f"http://{settings.host}:{port}"
    show.notice(f"Softseek listens on {url}, data directory {settings.data}")
    if json_out:
        show.data({"url": url, "data": str(settings.data)}, on_one_line=True)


def address_from_here(listening: socket.socket) -> str | None:
    """Return the address at which commands of this machine reach the server, None if it is not of the loopback."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    if not is_loopback(host):
        return None
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def demo(data: DataOption = None, json_out: JsonOption = False) -> None:
    """Demonstrate on included documents how feedback improves searches."""
    settings = quiet(settings_from(data=data))
    with ready_to_open(settings):
        from service.demo.loop import run_demo

        result = run_demo(data, show.stderr() if json_out else show.stdout(), json_out)
    if json_out:
        show.data(result)
    if result["decision"]["status"] != "succeeded":
        raise typer.Exit(ERROR)


def doctor(
    data: DataOption = None,
    url: UrlOption = None,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Rebuild damaged indexes and vectors, and accept that missing changes are lost."),
    ] = False,
    json_out: JsonOption = False,
) -> None:
    """Check the installation and the data directory, or a running server."""
    if repair and url is not None:
        raise Failure(USAGE, "--repair opens the data directory itself: stop the server and leave out --url")
    if url is None:
        checks = check_directory(data, repair)
    else:
        with connect(data, url) as service:
            checks = check_server(service)
    sound = all(check["ok"] for check in checks)
    if json_out:
        show.data({"ok": sound, "checks": checks})
    else:
        show.table(
            ("check", "", "detail"),
            [(each["name"], "ok" if each["ok"] else "FAILED", each["detail"]) for each in checks],
        )
    if not sound:
        raise typer.Exit(ERROR)


def versions() -> dict[str, Any]:
    """Return the check of Python and the libraries, with their versions."""
    found, missing = [f"Python {platform.python_version()}"], []
    for name in LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(f"{name} is missing")
    return check("versions", not missing, ", ".join(missing + found))


def check(name: str, ok: bool, detail: str) -> dict[str, Any]:
    """Return the result of a check."""
    return {"name": name, "ok": ok, "detail": detail}


def check_directory(data: Path | None, repair: bool = False) -> list[dict[str, Any]]:
    """Open the data directory; return the checks of the installation and of the directory.

    Raises Failure if another process owns the directory, or a setting is invalid.
    """
    settings = quiet(settings_from(data=data))
    try:
        from service.operations.health import diagnose

        with open_runtime(settings) as runtime:
            return list(diagnose(runtime, repair))
    except ImportError as error:
        return [versions(), check("installation", False, f"a library does not load: {error}")]
    except Failure as failure:
        if failure.exit_code == OWNED:
            raise
        return [versions(), check("data directory", False, " ".join(failure.lines)), *check_rows(settings)]
    except Exception as error:  # a damaged row may end the start with any error; the checks of the rows name it
        detail = f"it does not open: {type(error).__name__}: {error}"
        return [versions(), check("data directory", False, detail), *check_rows(settings)]


def check_rows(settings: "Settings") -> list[dict[str, Any]]:
    """Return the checks of the stored rows of a directory that does not open; none without a database."""
    from service.operations.health import diagnose_database
    from service.storage.database import DATABASE_FILE

    path = settings.data / DATABASE_FILE
    return diagnose_database(path) if path.is_file() else []


def check_server(service: "Service") -> list[dict[str, Any]]:
    """Return the checks of a server."""
    found = []
    try:
        service.call("GET", "/readyz")
        found.append(check("ready", True, "the server accepts requests"))
    except Refused as refused:
        found.append(check("ready", False, " ".join(refused.lines)))
    for collection in service.call("GET", "/v1/collections")["collections"]:
        counts = ", ".join(f"{name} {show.figure(count)}" for name, count in (collection.get("counts") or {}).items())
        found.append(check(f"collection {collection['name']}", True, counts))
    status, text = service.get_text("/metrics")
    samples = sum(1 for line in text.splitlines() if line and not line.startswith("#"))
    found.append(check("metrics", status == 200 and samples > 0, f"status {status}, {samples} samples"))
    return found
