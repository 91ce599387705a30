"""The runtimes of converted models send nothing to their vendors."""

import os
import subprocess
import sys
from pathlib import Path

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


REPORTING = """
import sys, threading
from index.encoding.sessions import openvino_runtime

openvino = openvino_runtime()
openvino.Core()
print([name for name in sys.modules if name.startswith("openvino_telemetry.")], threading.active_count())
"""
RUNS_TESTS = ("CI", "TF_BUILD", "JENKINS_URL")
"""Variables by which OpenVINO recognizes test runs, which send no reports."""


def test_openvino_sends_no_usage_report_and_writes_nothing_into_the_home_directory(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in RUNS_TESTS}
    environment |= {"HOME": str(tmp_path)}
    command = [sys.executable, "-c", REPORTING]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[] 1", "the package that would send reports"
    assert list(tmp_path.iterdir()) == []
