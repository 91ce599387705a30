"""Partitions on a real Ray cluster, started and killed from the command line."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NAMESPACE = ("unshare", "--net")
"""A network without addresses but the loopback address, which the process has for itself. Only root may make it."""


def namespaces_work() -> bool:
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return False
    return (
        subprocess.run([*NAMESPACE, "ip", "link", "set", "lo", "up"], capture_output=True, check=False).returncode == 0
    )


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    pytest.importorskip("ray")
    if not namespaces_work():
        pytest.skip("Ray listens on all addresses, and this user makes no network namespace")
    command = 'ip link set lo up && exec "$0" -m tests.service.ray_check'
    done = subprocess.run(
        [*NAMESPACE, "sh", "-c", command, sys.executable], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_coordinator_of_a_ray_cluster_answers_as_the_writer(seen: dict[str, Any]) -> None:
    assert seen["equal"]
    assert seen["refused"] == 421


def test_a_search_with_the_watermark_of_a_write_sees_it_in_the_cluster(seen: dict[str, Any]) -> None:
    assert seen["put"]


def test_a_killed_partition_gives_no_wrong_answer_and_comes_back(seen: dict[str, Any]) -> None:
    counted = dict(seen["after_kill"])
    assert seen["is_back"]
    assert counted.pop("whole") >= 20
    assert counted.pop("partial", 0) > 0
    assert not counted, "answers that are neither whole nor say what they lack"


def test_the_cluster_and_the_coordinator_end_in_order(seen: dict[str, Any]) -> None:
    assert seen["coordinator"] == 0
    assert seen["deployment"] == 143
    assert not seen["log"]
