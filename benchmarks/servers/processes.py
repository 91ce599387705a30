"""Processes of a system, found by a mark in their environment, which detached processes keep.

Reads /proc, so it needs Linux.
"""

import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MARK = "MEASURED_SYSTEM"
STOP_SECONDS = 60
END_SECONDS = 10
"""Grace period of the remaining processes after the first process has ended."""
PROC = Path("/proc")


@dataclass(frozen=True)
class Running:
    """A started system: its first process, the mark of all its processes, and the file of their output."""

    process: subprocess.Popen[bytes]
    mark: str
    log: Path

    def last_words(self) -> str:
        """Return the last lines of its output."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return " | ".join(line.strip()[:300] for line in lines[-4:])


@contextmanager
def running(command: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path) -> Iterator[Running]:
    """Run a system's command; at the end stop its first process, and then its remaining processes by their ids."""
    mark = uuid.uuid4().hex
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, env={**os.environ, **environment, MARK: mark}, cwd=folder, stdout=output, stderr=output
        )
    try:
        yield Running(process, mark, log)
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _end(mark)


def _end(mark: str) -> None:
    deadline = time.monotonic() + END_SECONDS
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    for process in marked(mark):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue


def marked(mark: str) -> set[int]:
    """Return the ids of living processes with this mark, and of their descendants, which may lack the mark."""
    wanted = f"{MARK}={mark}".encode()
    parents = {int(path.name): _parent(path) for path in PROC.iterdir() if path.name.isdigit()}
    found = {process for process in parents if wanted in _read(PROC / str(process) / "environ").split(b"\0")}
    while more := {child for child, parent in parents.items() if parent in found and child not in found}:
        found |= more
    return found


def memory(mark: str) -> dict[str, int]:
    """Return the memory of processes with this mark in bytes: shared pages divided (pss), and counted fully (rss)."""
    total = {"Pss": 0, "Rss": 0}
    for process in marked(mark):
        for line in _read(PROC / str(process) / "smaps_rollup").decode().splitlines():
            name, _, rest = line.partition(":")
            if name in total:
                total[name] += 1024 * int(rest.split()[0])
    return {"pss_bytes": total["Pss"], "rss_bytes": total["Rss"]}


def disk_bytes(folder: Path, without: Sequence[str] = ()) -> int:
    """Return the disk usage of a folder in bytes, without some of its folders."""
    total = 0
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.relative_to(folder).parts[0] not in without:
            total += 512 * path.stat().st_blocks
    return total


def _parent(folder: Path) -> int:
    """Return the id of a process's parent, 0 for an ended process."""
    state, parent, *_ = (_read(folder / "stat").rpartition(b")")[2].split() or [b"Z", b"0"])[:2]
    return 0 if state == b"Z" else int(parent)


def _read(path: Path) -> bytes:
    """Return a file of a process, b"" if the process has ended or belongs to another user."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
