"""Does the service stay up under a day's work?

    python -m benchmarks.mixed --minutes 30 --out benchmarks/results/mixed.json

A service with some thousand made documents runs in a process of its own, and the load comes from another process. The
capacity is the rate of good answers in a closed loop: to searches, puts, batches, deletions and events
(`benchmarks.mixture`). Then requests of the same mix arrive at seven tenths of that rate, while training runs follow
one another, about half of the time. At the end the service gets SIGTERM while requests wait.

Recorded are: answers with another status than expected; latencies of searches at rest and while training; the slowest
`/livez`; the resident memory of the service, every five seconds; the warnings and errors of its log; and whether every
waiting request got an answer and the process ended with exit code 0 within its bound.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks.mixed_tables import answers, mixed
from benchmarks.mixture import COLLECTION
from benchmarks.result_file import add_out, publish
from benchmarks.servers.http1 import HOST
from benchmarks.servers.load import percentile
from benchmarks.service_process import ServiceProcess, fill, logged, started
from service.http.server import DRAIN_SECONDS
from service.runtime.training_supervisor import STOP_SECONDS

SHARE = 0.7
"""Arrivals as a share of the capacity."""
SAMPLE_SECONDS = 5.0
SETTLE_MINUTES = 10.0
"""Memory before this moment does not count in the slope; a third of a shorter load."""
BOUND_SECONDS = DRAIN_SECONDS + STOP_SECONDS
"""From SIGTERM to the end of the process: open requests, then the training process. Saving the indexes has no bound."""
EXPECTED = {
    "search": ("200",),
    "put": ("200", "201"),
    "batch": ("200",),
    "delete": ("204",),
    "events": ("202",),
    "training": ("202",),
    "training run shown": ("200",),
    "livez": ("200",),
}
"""Kind of request -> its expected statuses."""
REFUSED = re.compile(r": (?:429|503) ")
EXPECTED_REJECTIONS = {"unknown_document"}
"""A clicked document may have been deleted since its search."""
EVENT_BYTES = 1500
"""What an event on a past query counts in memory (docs/api.md, the limit of memory)."""
MIB = 2**20


def main() -> None:
    """Measure; print two tables and a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=30.0, help="duration of the mix")
    parser.add_argument("--capacity-seconds", type=float, default=30.0, help="duration of the closed loop before it")
    parser.add_argument("--documents", type=int, default=5000)
    parser.add_argument("--encoder", help="the encoder of the service, such as hashing")
    parser.add_argument("--seed", type=int, default=0)
    add_out(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with started(Path(folder) / "data", options.encoder, log) as service:
            figures = measure(service, options.documents, 60 * options.minutes, options.capacity_seconds, options.seed)
        with log.open(encoding="utf-8", errors="replace") as lines:
            figures["log"] = logged(lines)
    print(mixed(figures), answers(figures), sep="\n\n")
    publish(figures, [options.seed], options.out)


def measure(
    service: ServiceProcess, documents: int, seconds: float, capacity_seconds: float, seed: int
) -> dict[str, Any]:
    """Fill the service, load it, and return the figures; the service has ended then."""
    port = service.port()
    common = {"port": port, "seed": seed, "documents": documents}
    with httpx.Client(base_url=f"http://{HOST}:{port}", timeout=600) as client:
        fill(client, documents, seed)
        keys = client.get(COLLECTION).raise_for_status().json()["counts"]["keys"]
    capacity = _finished(_load(kind="closed", seconds=capacity_seconds, **common))
    rate = SHARE * capacity["rate"]
    load = _load(kind="mixed", pid=service.process.pid, seconds=seconds, rate=rate, **common)
    samples, ended = watch(service, load)
    found = _finished(load)
    if ended is None:
        service.end()
        ended = time.time()
    figures: dict[str, Any] = {"documents": documents, "keys": keys["title"] + keys["passage"], "seconds": seconds}
    figures |= {"capacity": capacity["rate"], "capacity_search_p99_ms": capacity["search_p99_ms"], "rate": rate}
    figures["times"] = found["times"]
    figures |= {"answers": found["statuses"], "unexpected": unexpected(found["statuses"]), "late": found["late"]}
    figures["refused"] = sum(count for answer, count in figures["unexpected"].items() if REFUSED.search(answer))
    figures |= {"events": found["events"], "rejections": found["rejections"]}
    figures["lost_events"] = sum(
        count for code, count in found["rejections"].items() if code not in EXPECTED_REJECTIONS
    )
    figures |= latencies(found["searches"], found["runs"]) | training(found["runs"], seconds)
    figures["unexpected_while_training"] = sum(during(found["runs"], at) for at in found["others"])
    figures |= liveness(found["live"], found["runs"])
    figures |= memory(samples, min(SETTLE_MINUTES * 60, seconds / 3))
    figures["remembered_mib_per_hour"] = found["events"] * EVENT_BYTES / MIB * 3600 / seconds
    figures["stop"] = stopped(found["stop"], ended, service.process.returncode)
    return figures


def watch(
    service: ServiceProcess, load: subprocess.Popen[str]
) -> tuple[list[tuple[float, float, float]], float | None]:
    """Return (seconds, MiB of the service, MiB with its children) until the load ends, and when the service ended."""
    samples: list[tuple[float, float, float]] = []
    begun = time.perf_counter()
    while load.poll() is None:
        resident = service.resident_mib()
        if resident is not None:
            samples.append((time.perf_counter() - begun, resident, service.resident_mib_with_children()))
        try:
            service.process.wait(SAMPLE_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        return samples, time.time()
    return samples, None


def unexpected(statuses: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Return the number of answers outside of EXPECTED, by kind and status."""
    return {
        f"{kind}: {status}": count
        for kind, counts in statuses.items()
        for status, count in counts.items()
        if status not in EXPECTED[kind]
    }


def latencies(searches: Sequence[tuple[float, float]], runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return percentiles of searches that arrived at rest and during training runs, and the ratio of both.

    searches: the arrival and the duration of each, in seconds.
    """
    parts: dict[str, list[float]] = {"rest": [], "training": []}
    for arrival, duration in searches:
        parts["training" if during(runs, arrival) else "rest"].append(1000 * duration)
    found: dict[str, Any] = {
        name: {"searches": len(times)} | {f"p{share}_ms": percentile(times, share) for share in (50, 95, 99) if times}
        for name, times in parts.items()
    }
    if all(parts.values()):
        ratio = {
            f"p{share}": found["training"][f"p{share}_ms"] / found["rest"][f"p{share}_ms"] for share in (50, 95, 99)
        }
        found["ratio"] = ratio
    return found


def during(runs: Sequence[Mapping[str, Any]], moment: float) -> bool:
    """Return whether a training run goes on at a moment."""
    return any(run["begun"] <= moment < run["ended"] for run in runs)


def liveness(live: Sequence[tuple[float, float]], runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return percentiles of `/livez` in milliseconds, and the moment of the slowest answer.

    live: the arrival and the duration of each, in seconds.
    """
    if not live:
        return {"live_p99_ms": None, "live_max_ms": None}
    slowest, duration = max(live, key=lambda one: one[1])
    return {
        "live_p99_ms": 1000 * percentile([one for _, one in live], 99),
        "live_max_ms": 1000 * duration,
        "live_slowest_at_seconds": slowest,
        "live_slowest_while_training": during(runs, slowest),
    }


def training(runs: Sequence[Mapping[str, Any]], seconds: float) -> dict[str, Any]:
    """Return the number of runs by their status, the promoted models, and the share of the time with a run."""
    statuses = [f"{run['status']}{': ' if run['error'] else ''}{run['error'] or ''}" for run in runs]
    busy = sum(run["ended"] - run["begun"] for run in runs)
    return {
        "runs": {status: statuses.count(status) for status in sorted(set(statuses))},
        "promoted": sum(run["promoted"] is True for run in runs),
        "training_share": busy / seconds,
    }


def memory(samples: Sequence[tuple[float, float, float]], settle_seconds: float) -> dict[str, Any]:
    """Return the slope of the resident memory after `settle_seconds`, its highest values, and each minute's highest.

    The slope is the slope of the least squares line, None for fewer than three samples.
    """
    later = [(at, resident) for at, resident, _ in samples if at >= settle_seconds]
    slope = None
    if len(later) > 2:
        seconds, resident_mib = np.array(later).T
        slope = 3600 * float(np.polyfit(seconds, resident_mib, 1)[0])
    minutes: dict[int, float] = {}
    for at, resident, _ in samples:
        minutes[int(at // 60)] = max(resident, minutes.get(int(at // 60), 0.0))
    return {
        "settle_minutes": settle_seconds / 60,
        "rss_slope_mib_per_hour": slope,
        "rss_max_mib": max((resident for _, resident, _ in samples), default=None),
        "rss_with_training_max_mib": max((whole for _, _, whole in samples), default=None),
        "rss_mib_by_minute": [round(minutes[minute], 1) for minute in sorted(minutes)],
    }


def stopped(stop: Mapping[str, Any], ended: float, exit_code: int) -> dict[str, Any]:
    """Return what became of the requests that waited at SIGTERM, and how the process ended."""
    unanswered = sum(count for answer, count in stop["answers"].items() if "no answer" in answer)
    return {
        "in_flight": stop["in_flight"],
        "unanswered": unanswered,
        "answers": stop["answers"],
        "seconds": ended - stop["signalled"],
        "bound_seconds": BOUND_SECONDS,
        "exit_code": exit_code,
    }


def _load(**wanted: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.mixed_load", json.dumps(wanted)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _finished(load: subprocess.Popen[str]) -> dict[str, Any]:
    output, _ = load.communicate()
    if load.returncode:
        raise RuntimeError(f"the load ended with exit code {load.returncode}")
    found: dict[str, Any] = json.loads(output)
    return found


if __name__ == "__main__":
    main()
