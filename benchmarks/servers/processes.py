"""Processes of a system: found by a mark in their environment, which a process that leaves its parent still carries."""

import os
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

MARK = "MEASURED_SYSTEM"
STOP_SECONDS = 60


@dataclass(frozen=True)
class Running:
    """A system that was started: its first process, the mark of all of them, and where their output goes."""

    process: subprocess.Popen[bytes]
    mark: str
    log: Path

    def last_words(self) -> str:
        """Return the end of what it wrote."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return " | ".join(line.strip()[:300] for line in lines[-4:])


@contextmanager
def running(command: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path) -> Iterator[Running]:
    """Run a system's command; at the end stop it, and by their ids whatever processes of it are left."""
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
        _, left = psutil.wait_procs(marked(mark), timeout=10)
        for one in left:
            one.kill()


def marked(mark: str) -> list[psutil.Process]:
    """Return the living processes with this mark, and their children, whose environment may not be readable."""
    found = {}
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark:
                found |= {one.pid: one for one in [process, *process.children(recursive=True)]}
        except psutil.Error:
            continue
    return list(found.values())


def memory(mark: str) -> dict[str, int]:
    """Return bytes in memory of the processes with this mark: shared pages divided among sharers (pss), and not (rss)."""
    pss, rss = 0, 0
    for process in marked(mark):
        try:
            held = process.memory_full_info()
        except psutil.Error:
            continue
        pss, rss = pss + held.pss, rss + held.rss
    return {"pss_bytes": pss, "rss_bytes": rss}


def disk_bytes(folder: Path, without: Sequence[str] = ()) -> int:
    """Return the bytes that the files of a folder take on disk, without some of its folders."""
    total = 0
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.relative_to(folder).parts[0] not in without:
            total += 512 * path.stat().st_blocks
    return total
