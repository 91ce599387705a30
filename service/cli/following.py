"""Waits for a task or a training run, and shows its progress."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from service.cli import show
from service.cli.failures import ERROR, Failure

if TYPE_CHECKING:
    from service.cli.client import Service

UNFINISHED = ("enqueued", "processing")
FIRST_WAIT_SECONDS = 0.05
MAX_WAIT_SECONDS = 0.5


def follow(service: "Service", path: str, label: str) -> dict[str, Any]:
    """Return the task or run at `path` when it has ended. Raises Failure unless it succeeded."""
    try:
        ended = watch(service, path, label)
    except KeyboardInterrupt:
        if not service.local:
            show.notice(f"the server continues the work: GET {path}")
        raise
    if ended["status"] != "succeeded":
        error = ended.get("error") or {"code": ended["status"], "detail": f"the work at {path} was {ended['status']}"}
        raise Failure(ERROR, f"{error.get('code')}: {error.get('detail')}")
    return ended


def watch(service: "Service", path: str, label: str) -> dict[str, Any]:
    """Return the task or run at `path` when it has ended, and show a progress bar until then."""
    wait_seconds = FIRST_WAIT_SECONDS
    started = time.monotonic()
    with show.progress(label) as bar:
        while True:
            state: dict[str, Any] = service.call("GET", path)
            if state["status"] not in UNFINISHED:
                return state
            progress, steps = state.get("progress") or {}, state.get("steps") or []
            if progress.get("passages_done"):
                text = f"{label}, {pace(progress, time.monotonic() - started)}"
                bar.show(text, progress["passages_done"], progress.get("passages_total"))
            elif progress.get("passages_total"):
                started = time.monotonic()  # texts are cut before the first passage is encoded
                bar.show(f"{label}, cutting texts into passages", 0, progress["passages_total"])
            else:
                phase = f"{label}: {steps[-1]['phase']}" if steps and "phase" in steps[-1] else label
                bar.show(phase, progress.get("done", 0), progress.get("total"))
            time.sleep(wait_seconds)
            wait_seconds = min(1.5 * wait_seconds, MAX_WAIT_SECONDS)


def pace(progress: Mapping[str, int], seconds: float) -> str:
    """Return the passages per second and the time left: `52 passages/s, 1:05 left`."""
    rate = progress["passages_done"] / max(seconds, 0.001)
    left = round((progress["passages_total"] - progress["passages_done"]) / rate)
    hours, minutes = divmod(left // 60, 60)
    clock = f"{hours}:{minutes:02}:{left % 60:02}" if hours else f"{minutes}:{left % 60:02}"
    return f"{rate:.0f} passages/s, {clock} left"
