"""The runtimes of converted models send nothing to their vendors."""

import os
import subprocess
import sys

PROGRAM = """
import os
from index.encoding.sessions import onnx_runtime

onnx_runtime()
print(len(os.listdir("/proc/self/task")))
"""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def test_onnx_runtime_starts_no_thread_for_usage_reports() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"} | ONE_THREAD
    ended = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "1", "the thread that would send reports"
