"""The threads of a service share few arenas of the allocator, so that freed memory is used again."""

import os
import platform
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from service.runtime.arenas import ARENAS, MOST_ARENAS, THRESHOLDS, TUNABLES, VARIABLE, give_back_free_memory

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such arenas")

COUNT = """
import ctypes, os, tempfile, threading

def print_arenas(*_):
    threads = 6
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    met = threading.Barrier(threads)

    def allocate():
        met.wait()
        library.malloc(1000)
        met.wait()

    started = [threading.Thread(target=allocate) for _ in range(threads)]
    for one in started:
        one.start()
    for one in started:
        one.join()
    library.fdopen.restype = ctypes.c_void_p
    with tempfile.TemporaryFile() as file:
        stream = ctypes.c_void_p(library.fdopen(os.dup(file.fileno()), b"w"))
        library.malloc_info(0, stream)
        library.fclose(stream)
        file.seek(0)
        print(file.read().count(b"<heap "))
"""
"""Prints the number of arenas after six threads have allocated memory at the same time."""
LIMITED = "from service.runtime.arenas import limit_arenas\nlimit_arenas()\nprint_arenas()"
SERVING = "from service.cli import operating\noperating.bind = print_arenas\noperating.serve()"
CHILD = f"from service.runtime.arenas import limit_arenas\nlimit_arenas()\nimport subprocess, sys\n\
subprocess.run([sys.executable, '-c', {COUNT + 'print_arenas()'!r}], check=True)"
BY_ITSELF = "print_arenas()"


def arenas(program: str, **environment: str) -> int:
    """Return the number of arenas that a program prints."""
    command = [sys.executable, "-c", COUNT + program]
    inherited = {name: text for name, text in os.environ.items() if name not in ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES")}
    ended = subprocess.run(command, capture_output=True, text=True, env=inherited | environment)
    return int(ended.stdout)


def test_threads_share_four_arenas() -> None:
    assert arenas(BY_ITSELF) > 4
    assert arenas(LIMITED) == 4


def test_serve_limits_the_arenas_before_it_starts_a_thread(tmp_path: Path) -> None:
    assert arenas(SERVING, SOFTSEEK_DATA=str(tmp_path)) == 4


def test_a_child_process_has_the_limit() -> None:
    assert arenas(CHILD) == 4


@pytest.mark.parametrize(
    "environment",
    [{"MALLOC_ARENA_MAX": "3"}, {"GLIBC_TUNABLES": "glibc.malloc.arena_max=3"}],
    ids=["variable", "tunable"],
)
def test_a_limit_of_the_environment_stays(environment: dict[str, str]) -> None:
    assert arenas(LIMITED, **environment) == 3


FREED = """
import ctypes
from pathlib import Path
from service.runtime.arenas import give_back_free_memory

def resident_mib():
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) / 1024

library = ctypes.CDLL(None)
library.malloc.restype, library.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
taken = [library.malloc(100_000) for _ in range(1000)]
for one in taken:
    ctypes.memset(one, 1, 100_000)
for one in taken[:-1]:  # the last keeps the end of the arena
    library.free(one)
before = resident_mib()
print(give_back_free_memory() and before - resident_mib())
"""


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="reads the resident memory from /proc")
def test_free_memory_inside_an_arena_is_given_back() -> None:
    ended = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, check=True)
    assert float(ended.stdout) > 80  # of 95 MiB


END = """
import ctypes, sys, threading
from pathlib import Path
from service.runtime.arenas import give_back_free_memory, limit_arenas

def resident_mib():
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) / 1024

limit_arenas()
library = ctypes.CDLL(None)
library.malloc.restype, library.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
library.free(library.malloc(31 << 20))  # arenas keep free ends of up to 62 MiB from now on
ended, threads = threading.Event(), []

def grow(filled):
    block = library.malloc(20 << 20)
    ctypes.memset(block, 1, 20 << 20)
    library.free(block)
    filled.set()
    ended.wait()

for _ in range(3):
    filled = threading.Event()
    threads.append(threading.Thread(target=grow, args=[filled]))
    threads[-1].start()
    filled.wait()
before = resident_mib()
give_back_free_memory()
print(before - resident_mib())
ended.set()
"""
"""Prints the MiB that are given back of the ends of three arenas."""


def given_back_of_ends(**environment: str) -> float:
    """Return the MiB of END."""
    command = [sys.executable, "-c", END]
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    ended = subprocess.run(command, capture_output=True, text=True, check=True, env=inherited | environment)
    return float(ended.stdout)


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="reads the resident memory from /proc")
def test_the_free_ends_of_all_arenas_are_given_back() -> None:
    assert given_back_of_ends() > 50  # of 60 MiB


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MALLOC_TRIM_THRESHOLD_", "1000000"),
        ("MALLOC_MMAP_THRESHOLD_", "1000000"),
        ("GLIBC_TUNABLES", "glibc.malloc.arena_max=3:glibc.malloc.trim_threshold=1000000"),
        ("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=1000000"),
    ],
    ids=["trim variable", "map variable", "trim tunable", "map tunable"],
)
def test_a_threshold_of_the_environment_stays(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    for name in (*THRESHOLDS, TUNABLES):
        monkeypatch.delenv(name, raising=False)
    returns: list[object] = []
    monkeypatch.setattr("service.runtime.arenas._give_back_ends", returns.append)
    assert give_back_free_memory()
    assert len(returns) == 1
    monkeypatch.setenv(variable, value)
    assert give_back_free_memory()
    assert len(returns) == 1


@pytest.mark.parametrize(
    ("variable", "value", "threads"),
    [
        (VARIABLE, "3", 3),
        (VARIABLE, "0", MOST_ARENAS),
        (VARIABLE, "1000", MOST_ARENAS),
        (TUNABLES, "glibc.malloc.check=1:glibc.malloc.arena_max=7", 7),
        ("OTHER", "7", ARENAS),
    ],
)
def test_the_end_of_each_arena_gets_a_thread(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, threads: int
) -> None:
    for name in (*THRESHOLDS, TUNABLES, VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, value)
    started: list[threading.Thread] = []
    monkeypatch.setattr(threading.Thread, "start", lambda thread: started.append(thread))
    monkeypatch.setattr(threading, "Semaphore", lambda _: SimpleNamespace(acquire=lambda: True))
    assert give_back_free_memory()
    assert len(started) == threads


def test_memory_is_given_back_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    for name in (*THRESHOLDS, TUNABLES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(threading.Thread, "start", fail)
    assert give_back_free_memory()
