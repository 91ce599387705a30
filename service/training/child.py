"""What a training process does: reads its inputs, fits, writes to staging, and prints steps as lines of JSON on stdout.

It is a process of its own (`service.training.__main__`) with one thread and low priority, and it cannot write to the
database. It pauses while all threads of searches are busy (`service.training.pauses`), and ends with the service,
because its stdin is a pipe that the service holds open. A second process on the same staging folder continues from the
stored inputs and finished trials, and makes a bit-identical model.
"""

import fcntl
import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from index.errors import NotEnoughFeedback
from index.learning.config import EXPLORED, FitConfig
from index.learning.fit import Fitted, Steps, fit
from index.learning.from_documents import fit_from_documents
from index.ranking.checkpoint import save_head
from index.storage.files import write_atomically
from index.storage.full_disk import is_full
from service.runtime.feedback_log import feedback_counts
from service.runtime.model_files import load_version
from service.settings import DATABASE_VARIABLE
from service.storage.database import ENCODERS
from service.storage.opening import open_reader
from service.training.inputs import Inputs, encode_by, load_inputs
from service.training.repository import lineages_against
from service.training.staging import INPUTS, KNOWN_WORDS, LOCK, MODEL, NO_SPACE, REPORT, STAGED, TRIAL_CACHE

CLICK_MODEL = "click_model"
"""The name of the frozen click model in a lineage."""


def main(arguments: list[str]) -> int:
    """Run the fit of a JSON specification; return the exit code."""
    specification: dict[str, Any] = {"database": os.environ.get(DATABASE_VARIABLE)} | json.loads(arguments[0])
    torch.set_num_threads(1)
    torch.set_deterministic_debug_mode("error")  # like use_deterministic_algorithms, without importing the compiler
    with (Path(specification["staging"]) / LOCK).open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the process of a killed service may still be ending
        try:
            run(specification)
        except Exception as error:
            told = error_of(error)
            if told is None:
                raise
            _print({"error": told})
            return 1
    return 0


def error_of(error: Exception) -> dict[str, Any] | None:
    """Return the error of the record of the run; None for a defect, whose traceback is in the log."""
    if isinstance(error, NotEnoughFeedback):
        return {"code": "not_enough_feedback", "detail": str(error)}
    return NO_SPACE if is_full(error) else None


def run(specification: dict[str, Any]) -> None:
    """Fit, and write the model and its report to the staging folder of the run."""
    data, staging = Path(specification["data"]), Path(specification["staging"])
    collection_id, version = specification["collection_id"], specification["champion"]
    encode = partial(encode_by, precision=specification["encoder_precision"], cache=data / ENCODERS)
    known = frozenset((staging / KNOWN_WORDS).read_text(encoding="utf-8").split())
    database, learn_from = open_reader(data, specification["database"]), specification["learn_from"]
    explored = specification["objective"] == "reinforce"
    inputs = load_inputs(staging / INPUTS, database, collection_id, encode, known, learn_from, explored)
    config = _config(specification)
    lineage = _lineage(specification, config, inputs)
    if learn_from == "documents":
        steps = fit_from_documents(inputs.generation, inputs.initial, inputs.texts, partial(encode, inputs.encoder))
    else:
        with database.read() as connection:
            champion = load_version(connection, collection_id, inputs.initial, version)
            earlier = earlier_decisions(lineages_against(connection, collection_id, version), lineage)
        cache = staging / TRIAL_CACHE
        steps = fit(inputs.generation, inputs.feedback, champion, config, inputs.initial, cache, earlier)
    fitted, seconds = _fitted(steps)
    if fitted.clicks is not None:
        lineage |= {CLICK_MODEL: fitted.clicks.frozen()}
    shutil.rmtree(staging / MODEL, ignore_errors=True)  # left by a process that was killed before it wrote its report
    save_head(staging / MODEL, fitted.head, lineage)
    measured = fitted.report | {"train_seconds": round(seconds, 2), "peak_memory_bytes": _peak_memory_bytes()}
    report = {"lineage": lineage, "report": measured, "decision": fitted.decision.as_dict()}
    write_atomically(staging / REPORT, json.dumps(report).encode())
    _print({STAGED: True})


def _lineage(specification: dict[str, Any], config: FitConfig, inputs: Inputs) -> dict[str, Any]:
    """Return the origin of the model: its parent, the parameters of the run, and the counts of its data."""
    facts = {"documents": inputs.generation.count, "generation": inputs.generation.watermark}
    return {
        "kind": "documents" if specification["learn_from"] == "documents" else "trained",
        "parent": specification["champion"],
        "seed": config.seed,
        "budget_seconds": config.cost_budget,
        "click_reading": specification["click_reading"],
        "training_run": specification["run"],
        "encoder_fingerprint": inputs.fingerprint,
        "data": feedback_counts(inputs.feedback) | facts | {"window": specification["window"]},
        **({"objective": "reinforce"} if specification["objective"] == "reinforce" else {}),
    }


def earlier_decisions(lineages: Sequence[Mapping[str, Any]], own: Mapping[str, Any]) -> int:
    """Return how often the gate has compared another challenger with the champion.

    A run that repeats another one, with the same data and parameters, has the same result and does not count again.
    """

    def facts(lineage: Mapping[str, Any]) -> str:
        data = {name: value for name, value in lineage.items() if name not in ("training_run", CLICK_MODEL)}
        return json.dumps(data, sort_keys=True)

    return len({facts(lineage) for lineage in lineages} - {facts(own)})


def _config(specification: dict[str, Any]) -> FitConfig:
    """Return the configuration of the fit. The click interpretation `auto` averages two."""
    interpretation = EXPLORED if specification["objective"] == "reinforce" else specification["click_reading"]
    interpretations = FitConfig.interpretations if interpretation == "auto" else (interpretation,)
    return FitConfig(
        seed=specification["seed"],
        cost_budget=specification["budget_seconds"],
        interpretations=interpretations,
    )


def _fitted(steps: Steps) -> tuple[Fitted, float]:
    """Print every step; return the fitted head, and the seconds until the comparison with the champion began."""
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
        _print({"phase": step.phase, "done": done, "total": total, **step.figures})


def _peak_memory_bytes() -> int | None:
    """Return the peak memory of this process, None on systems without /proc. getrusage includes the parent's memory."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.is_file() else []
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), None)


def _print(record: dict[str, Any]) -> None:
    print(json.dumps(record), flush=True)
