"""A network between services and their PostgreSQL server that is cut without a word. Prints what it saw as JSON.

The server is in a network namespace of its own, behind a pair of virtual Ethernet devices. Where the device of the
server's side is down, packets vanish: no connection is refused or closed.
`test_network_cut.py` starts this program in a namespace of its own.
"""

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from benchmarks.postgres import UNSYNCED, USER, running_server
from benchmarks.service_process import started

HERE, THERE = "10.99.0.1", "10.99.0.2"
WAIT_SECONDS = 90


def main() -> None:
    if sys.argv[1:] == ["server"]:
        serve()
        return
    with tempfile.TemporaryDirectory(prefix="cut-check-") as made, far_server() as (cut, mend, place):
        address = f"postgresql+psycopg://{USER}@{place}"
        print(json.dumps(seen(Path(made), address, cut, mend)), flush=True)


def seen(folder: Path, address: str, cut: Any, mend: Any) -> dict[str, Any]:
    """Return what a writer and a searcher do while their server is out of reach, and after that."""
    log, options = folder / "log", ("--port", "0", "--workers", "1")
    with started(folder / "writer", "hashing", log, "--role", "writer", *options, database=address) as one:
        writer = client(one.port())
        writer.put("/documents/oak", json={"text": "an old oak"}).raise_for_status()
        with started(folder / "searcher", "hashing", log, "--role", "searcher", *options, database=address) as other:
            found = through_a_cut(writer, client(other.port()), cut, mend)
    return found | {"ended": [one.process.returncode, other.process.returncode]}


def through_a_cut(writer: httpx.Client, searcher: httpx.Client, cut: Any, mend: Any) -> dict[str, Any]:
    assert ids(searcher) == ["oak"]
    cut()
    begun = time.monotonic()
    refused = writer.put("/documents/elm", json={"text": "an old elm"})
    found = {
        "write": [refused.status_code, refused.json()["code"]],
        "write_seconds": time.monotonic() - begun,
        "live": writer.get(str(writer.base_url.copy_with(raw_path=b"/livez"))).status_code,
    }
    until(lambda: degraded(searcher) == ["copy_is_old"])
    found |= {"old_seconds": time.monotonic() - begun, "searcher": ids(searcher)}
    mend()
    begun = time.monotonic()
    until(lambda: writer.put("/documents/elm", json={"text": "an old elm"}).is_success)
    until(lambda: sorted(ids(searcher)) == ["elm", "oak"] and degraded(searcher) == [])
    return found | {"mended_seconds": time.monotonic() - begun}


def client(port: int) -> httpx.Client:
    return httpx.Client(base_url=f"http://127.0.0.1:{port}/v1/collections/default", timeout=WAIT_SECONDS)


def search(of: httpx.Client) -> Any:
    return of.post("/search", json={"q": "old", "log": False}).json()


def ids(of: httpx.Client) -> list[str]:
    return [hit["id"] for hit in search(of)["hits"]]


def degraded(of: httpx.Client) -> list[str]:
    found: list[str] = search(of)["degraded"]
    return found


def until(look: Any) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not look():
        assert time.monotonic() < end
        time.sleep(0.05)


@contextmanager
def far_server() -> Iterator[tuple[Any, Any, str]]:
    """Yield functions that cut and mend the way to a PostgreSQL server, and the place of a database on it."""
    command = ["unshare", "--net", sys.executable, "-m", "tests.service.network_cut_check", "server"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "there\n"
        run("ip", "link", "add", "here", "type", "veth", "peer", "name", "there", "netns", str(process.pid))
        run("ip", "addr", "add", f"{HERE}/24", "dev", "here")
        run("ip", "link", "set", "here", "up")
        inside = ("nsenter", "-t", str(process.pid), "-n", "ip")
        run(*inside, "addr", "add", f"{THERE}/24", "dev", "there")
        run(*inside, "link", "set", "there", "up")
        process.stdin.write("go\n")
        process.stdin.flush()
        place = process.stdout.readline().strip()
        yield (
            lambda: run(*inside, "link", "set", "there", "down"),
            lambda: run(*inside, "link", "set", "there", "up"),
            place,
        )
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(WAIT_SECONDS)


def serve() -> None:
    """Run a PostgreSQL server that listens to the other namespace too, until SIGINT."""
    run("ip", "link", "set", "lo", "up")
    print("there", flush=True)
    sys.stdin.readline()
    with running_server((*UNSYNCED, f"listen_addresses=127.0.0.1,{THERE}")) as server, suppress(KeyboardInterrupt):
        with (server.folder / "data" / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {HERE}/24 trust\n")
        server.execute("SELECT pg_reload_conf()")
        server.database("wood")
        print(f"{THERE}:{server.port}/wood", flush=True)
        signal.pause()


def run(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
