"""Partitions on a Ray cluster of this machine, in processes of their own, for benchmarks and tests.

Ray listens on all addresses of a machine. Run them in a network namespace that has the loopback address alone:
`unshare --net sh -c 'ip link set lo up && exec COMMAND'`, as root.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.cluster.connection import connect

SOFTSEEK = (sys.executable, "-c", "from service.cli import main; main()")
END_SECONDS = 60


@contextmanager
def deployed(
    folder: Path, address: str, encoder: str | None, partitions: int, *more: str
) -> Iterator["subprocess.Popen[str]"]:
    """Run `deploy ray` from the moment that its partitions answer; SIGTERM ends it."""
    command = [*SOFTSEEK, "deploy", "ray", "--partitions", str(partitions), "--cpus", "0.1", "--json"]
    environment = os.environ | {"SOFTSEEK_DATABASE": address}
    environment |= {"SOFTSEEK_ENCODER": encoder} if encoder else {}
    log = folder / f"deploy-{partitions}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--data", str(folder / "partitions-of-ray"), *more],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
        )
    assert process.stdout is not None
    try:
        assert process.stdout.readline(), log.read_text()
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(END_SECONDS)


@contextmanager
def cluster(cores: int) -> Iterator[int]:
    """Run a cluster of this machine that gives so many cores away; yield the PID of the process that has started it."""
    program = "import sys; from benchmarks.ray_process import serve_cluster; serve_cluster(int(sys.argv[1]))"
    process = subprocess.Popen([sys.executable, "-c", program, str(cores)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline()
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(END_SECONDS)


def serve_cluster(cores: int) -> None:
    """Start a cluster, print a line, and wait for SIGTERM."""
    connect(None, cores)
    print("started", flush=True)
    signal.sigwait({signal.SIGTERM})


def replicas_of(partition: int) -> list[int]:
    """Return the processes of a partition."""
    return processes_named(f"ServeReplica:softseek:partition-{partition}")


def processes_named(part: str) -> list[int]:
    """Return the processes of Ray with this part in their name. A worker of Ray is named after its class."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes()
        except OSError:  # it has just ended
            continue
        if command.startswith(b"ray::") and part.encode() in command:
            found.append(int(path.parent.name))
    return found
