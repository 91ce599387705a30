"""A service leaves the objects of its start out of garbage collections, which would stop all its threads."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SERVING = """
import gc, uvicorn
uvicorn.Server.run = lambda *_, **__: print(gc.get_freeze_count() > 100_000)
from service.cli import operating
operating.serve(json_out=True)
"""
"""Prints, instead of serving, whether the objects of the start are left out."""


@pytest.mark.parametrize("workers", ["1", "2"])
def test_objects_of_the_start_are_frozen(tmp_path: Path, workers: str) -> None:
    environment = {"SOFTSEEK_DATA": str(tmp_path), "SOFTSEEK_WORKERS": workers, "SOFTSEEK_ENCODER": "hashing"}
    command = [sys.executable, "-c", SERVING]
    ended = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=True)
    assert ended.stdout.splitlines()[-1] == "True"
