"""Prints the counts of the long run as the last line, in JSON."""

import json
import time
from typing import Any

import pytest

from tests.faults.tally import COUNTS, SOAK

STARTED = time.monotonic()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print a table and a line of JSON: kind of fault -> tried, lost, undetected."""
    if not SOAK or not COUNTS:
        return
    terminalreporter.write_line(f"{'fault':32}{'tried':>8}{'lost':>8}{'undetected':>12}")
    for kind, count in sorted(COUNTS.items()):
        terminalreporter.write_line(f"{kind:32}{count.tried:8}{count.lost:8}{count.undetected:12}")
    terminalreporter.write_line(
        json.dumps({"seconds": round(time.monotonic() - STARTED)} | {k: vars(c) for k, c in sorted(COUNTS.items())})
    )
