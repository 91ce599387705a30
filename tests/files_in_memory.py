"""The temporary files of the tests lie in memory.

Tests make thousands of small databases, and services sync each write. On a disk these syncs are most of the time of a
test, and they are slower still while other tests write. What a sync promises is tested with recorded disks
(`tests/faults`).
"""

import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
"""Linux mounts a file system in memory there."""
NEEDED_BYTES = 6 * 2**30
"""Free memory at which it is used. The files of a whole run take less than a third of it."""


def use_memory() -> None:
    """Let temporary files of this process and of its children lie in memory, if TMPDIR names no other place."""
    if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and min(free_bytes()) >= NEEDED_BYTES:
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # is read from the environment again


def free_bytes() -> tuple[int, int]:
    """Return the free bytes of the file system in memory, and of the memory itself."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    (available,) = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return shutil.disk_usage(MEMORY).free, available * 1024
