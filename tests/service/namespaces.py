"""Programs in a network namespace of their own, whose only address is the loopback address. Only root may make it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NAMESPACE = ("unshare", "--net")
MOST_SECONDS = 540
"""On busy cores. It is less than pytest's limit of a hanging test, so that the module's errors are shown."""


def seen_in_namespace(module: str) -> dict[str, Any]:
    """Return the line of JSON that a module prints, run in a namespace; skip the test where none can be made."""
    if not namespaces_work():
        pytest.skip("this user makes no network namespace")
    command = 'ip link set lo up && exec "$0" -m "$1"'
    done = subprocess.run(
        [*NAMESPACE, "sh", "-c", command, sys.executable, module],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=MOST_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def namespaces_work() -> bool:
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return False
    made = subprocess.run([*NAMESPACE, "ip", "link", "set", "lo", "up"], capture_output=True, check=False)
    return made.returncode == 0
