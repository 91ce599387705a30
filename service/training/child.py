"""The training process: reads its inputs, fits, writes to staging, tells its steps as lines of JSON on stdout.

It runs apart from the service, on one thread and at low priority, and cannot write to the database. It ends when the
service does: its stdin is a pipe that the service holds open. Started again on the same staging folder, it goes on
from the inputs and the finished trials that lie there, and makes the same model, to the bit.
"""

import fcntl
import json
import os
import shutil
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch

from index.errors import NotEnoughFeedback
from index.learning.config import FitConfig
from index.learning.fit import Fitted, Steps, fit
from index.ranking.checkpoint import save_head
from index.storage.files import write_atomically
from service.runtime.collection import load_version
from service.runtime.feedback_log import summary
from service.storage.database import DATABASE_FILE, ENCODERS, Database
from service.training.inputs import encode_by, inputs_of
from service.training.staging import INPUTS, JOURNAL, LOCK, MODEL, REPORT, STAGED

NICENESS = 10
ORPHANED = 3
"""The exit code of a child whose service has ended; nobody is there to see it."""


def main(arguments: list[str]) -> int:
    """Run the fit that a JSON specification describes; return the exit code."""
    specification: dict[str, Any] = json.loads(arguments[0])
    threading.Thread(target=_end_with_the_service, daemon=True).start()
    os.nice(NICENESS)
    torch.set_num_threads(1)
    torch.set_deterministic_debug_mode("error")  # as use_deterministic_algorithms, without importing its compiler
    with (Path(specification["staging"]) / LOCK).open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a child of a service that was killed may take a moment to end
        try:
            run(specification)
        except NotEnoughFeedback as error:
            _tell({"error": {"code": "not_enough_feedback", "detail": str(error)}})
            return 1
    return 0


def run(specification: dict[str, Any]) -> None:
    """Fit, and leave the model and its report in the staging folder of the run."""
    data, staging = Path(specification["data"]), Path(specification["staging"])
    collection_id, version = specification["collection_id"], specification["champion"]
    encode = partial(encode_by, precision=specification["encoder_precision"], cache=data / ENCODERS)
    inputs = inputs_of(staging / INPUTS, Database(data / DATABASE_FILE), collection_id, encode)
    champion = load_version(collection_id, inputs.initial, version, data)
    config = _config(specification)
    steps = fit(inputs.generation, inputs.feedback, champion, config, inputs.initial, staging / JOURNAL)
    fitted, seconds = _fitted(steps)
    facts = {"documents": inputs.generation.count, "generation": inputs.generation.watermark}
    lineage = {
        "kind": "trained",
        "parent": version,
        "seed": config.seed,
        "budget_seconds": config.cost_budget,
        "click_reading": specification["click_reading"],
        "training_run": specification["run"],
        "encoder_fingerprint": inputs.fingerprint,
        "data": summary(inputs.feedback) | facts | {"window": specification["window"]},
    }
    shutil.rmtree(staging / MODEL, ignore_errors=True)  # left by a process that was killed before its report was whole
    save_head(staging / MODEL, fitted.head, lineage)
    decision = {
        "promote": fitted.decision.promote,
        "checks": [vars(check) for check in fitted.decision.checks],
        "reasons": fitted.decision.reasons,
    }
    measured = fitted.report | {"train_seconds": round(seconds, 2), "peak_memory_bytes": _peak_memory_bytes()}
    report = {"lineage": lineage, "report": measured, "decision": decision}
    write_atomically(staging / REPORT, json.dumps(report).encode())
    _tell({STAGED: True})


def _config(specification: dict[str, Any]) -> FitConfig:
    """Return how to fit: with one reading of clicks where one is named, with all of them for `auto`."""
    reading = specification["click_reading"]
    interpretations = FitConfig.interpretations if reading == "auto" else (reading,)
    return FitConfig(
        seed=specification["seed"],
        cost_budget=specification["budget_seconds"],
        interpretations=interpretations,
    )


def _fitted(steps: Steps) -> tuple[Fitted, float]:
    """Tell every step; return what was fitted, and the seconds until the comparison with the champion began."""
    started, seconds, resumed = time.monotonic(), None, 0
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            fitted: Fitted = end.value
            return fitted, time.monotonic() - started if seconds is None else seconds
        if step.phase == "evaluate" and seconds is None:
            seconds = time.monotonic() - started
        resumed += step.phase == "resumed"
        done, total = (resumed, resumed) if step.phase == "resumed" else (step.done, step.total)
        _tell({"phase": step.phase, "done": done, "total": total, **step.figures})


def _end_with_the_service() -> None:
    os.read(0, 1)  # nothing is ever written: this returns when the service dies. sys.stdin would abort at exit
    os._exit(ORPHANED)


def _peak_memory_bytes() -> int | None:
    """Return the most memory that this process has held, where the system tells; getrusage counts the parent's too."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.is_file() else []
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), None)


def _tell(record: dict[str, Any]) -> None:
    print(json.dumps(record), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
