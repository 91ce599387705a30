"""A service in a process of its own, for benchmarks that start, watch, stop and kill it. Reads /proc: needs Linux."""

import json
import os
import random
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.made_texts import document
from benchmarks.servers.processes import MARK, memory

MIB = 2**20
BATCH = 500
COLLECTION = "/v1/collections/default"
END_SECONDS = 120
"""The longest wait for the end of a process after SIGTERM, at the end of a benchmark."""
TICKS = os.sysconf("SC_CLK_TCK")
COUNTED_LEVELS = ("warning", "error", "critical")


@dataclass(frozen=True)
class ServiceProcess:
    """A started service: its process, the mark of it and its children, and the file of its log."""

    process: subprocess.Popen[str]
    mark: str
    log: Path

    def port(self) -> int:
        """Return its port, from the line that it writes when its data directory is open."""
        assert self.process.stdout is not None
        return int(json.loads(self.process.stdout.readline())["url"].rpartition(":")[2])

    def end(self) -> None:
        """Wait for the end of the process after SIGTERM; SIGKILL if it does not end."""
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def resident_mib(self, field: str = "VmRSS") -> float | None:
        """Return its resident memory, of its highest point with VmHWM; None after its end."""
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        except OSError:
            return None
        found = [int(line.split()[1]) for line in status.splitlines() if line.startswith(f"{field}:")]
        return found[0] * 1024 / MIB if found else None

    def resident_mib_with_children(self) -> float:
        """Return the resident memory of the service and of its training process."""
        return memory(self.mark)["rss_bytes"] / MIB


@contextmanager
def started(
    data: Path, encoder: str | None, log: Path, *options: str, database: str | None = None, cache_mib: int = 0
) -> Iterator[ServiceProcess]:
    """Run a service on a data directory; at the end it gets SIGTERM, and SIGKILL if that does not end it.

    database: the address of a PostgreSQL database; None: SQLite in the data directory. cache_mib: of results; without
    them a repeated search costs what a new search costs.
    """
    mark = uuid.uuid4().hex
    environment = [f"{MARK}={mark}", f"SOFTSEEK_RESULT_CACHE_MIB={cache_mib}"]
    environment += [f"SOFTSEEK_ENCODER={encoder}"] if encoder else []
    environment += [f"SOFTSEEK_DATABASE={database}"] if database else []
    start = [sys.executable, "-c", "from service.cli import main; main()", "serve", "--data", str(data), "--json"]
    with log.open("ab") as output:
        command = ["env", *environment, *start, *(options or ("--port", "0"))]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=output, text=True)
    service = ServiceProcess(process, mark, log)
    try:
        yield service
    finally:
        process.terminate()
        service.end()
        if process.stdout is not None:
            process.stdout.close()


def fill(client: httpx.Client, count: int, seed: int) -> None:
    """Post made documents, and return when they are searchable."""
    rng = random.Random(seed)
    for first in range(0, count, BATCH):
        batch = [document(rng, at) for at in range(first, min(count, first + BATCH))]
        client.post(f"{COLLECTION}/documents?wait=600", json={"documents": batch}).raise_for_status()


def logged(lines: Iterable[str]) -> dict[str, int]:
    """Return the number of warnings and errors of a log by level and event, such as `error: impression_lost`."""
    found: Counter[str] = Counter()
    for line in lines:
        try:
            entry: Any = json.loads(line)
        except ValueError:
            found["tracebacks"] += line.startswith("Traceback ")
            continue
        if isinstance(entry, dict) and entry.get("level") in COUNTED_LEVELS:
            found[f"{entry['level']}: {entry.get('event')}"] += 1
    return {event: count for event, count in sorted(found.items()) if count}


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process and of all processes below it that have not ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS + sum(processor_seconds(child) for child in children(pid))


def children(pid: int) -> list[int]:
    """Return the processes that a process has started, none after its end."""
    tasks = Path(f"/proc/{pid}/task")
    while tasks.exists():
        try:
            return [int(child) for path in tasks.glob("*/children") for child in path.read_text().split()]
        except OSError:  # a thread ended meanwhile; another one has its children now
            continue
    return []
