"""The benchmark of worker processes: made documents with random vectors, and what it reads of processes."""

import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks.service_process import children, processor_seconds
from benchmarks.workers import RandomVectors, fill, made_queries, summary
from benchmarks.workers_tables import rates
from index.encoding.hashing_encoder import HashingEncoder
from service.runtime.runtime import Runtime
from service.settings import Settings

BUSY_CHILD = (
    "import subprocess, sys\n"
    "code = 'import time\\nwhile time.process_time() < .1: pass\\nprint(1, flush=True)\\ntime.sleep(600)'\n"
    "child = subprocess.Popen([sys.executable, '-c', code], stdout=subprocess.PIPE)\n"
    "child.stdout.readline()\n"
    "print(child.pid, flush=True)\n"
    "sys.stdin.read()\n"
    "child.kill()\n"
    "child.wait()\n"
)


def test_made_documents_have_random_unit_vectors_of_the_encoder_of_the_service(tmp_path: Path) -> None:
    encoder = HashingEncoder()
    assert fill(tmp_path, 30, encoder) == 30
    runtime = Runtime.open(Settings(data=tmp_path, encoder="hashing", log_level="error"), encoder)
    generation = runtime.collection("default").generation
    assert generation.count == 30
    np.testing.assert_allclose(np.linalg.norm(generation.keys, axis=1), 1, atol=1e-5)
    assert len({key.tobytes() for key in np.asarray(generation.keys)}) == len(generation.keys)
    runtime.close()
    vectors = RandomVectors(encoder)
    assert (vectors.dim, vectors.fingerprint) == (encoder.dim, encoder.fingerprint)
    assert len(made_queries()) == len(set(made_queries())) > 100


def test_processor_time_of_children_counts() -> None:
    command = [sys.executable, "-c", BUSY_CHILD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert children(parent.pid) == [child]
        assert processor_seconds(parent.pid) >= processor_seconds(child) >= 0.09
        parent.communicate()


def test_the_memory_of_all_processes_is_their_sum() -> None:
    load = {"searches_per_second": 10.0, "p50_ms": 1.0, "p99_ms": 2.0, "processor_ms": 3.0, "first_cores": 0.7}
    run = {"ready_seconds": 1.0, "loads": {"1": load}, "memory_mib": [300.0, 100.0, 120.0]}
    found = summary(3, [run])
    assert (found["first_mib"], found["worker_mib"], found["whole_mib"]) == (300.0, 110.0, 520.0)
    assert "| 3 | 0.7 | - | - | 300 | 110 | 520 |" in rates({"processes": [found]})
    without = {name: value for name, value in found.items() if name != "whole_mib"}  # of an earlier stored result
    assert "| 300 | 110 | - |" in rates({"processes": [without]})
