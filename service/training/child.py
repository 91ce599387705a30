"""What a training process does: exports the state of the collection, fits, and prints steps as lines of JSON on stdout.

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
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from index.errors import EncoderMismatch, NotEnoughFeedback
from index.learning.config import EXPLORED, FitConfig
from index.learning.fit import Fitted, Steps, fit
from index.learning.from_documents import fit_from_documents
from index.ranking.checkpoint import save_head
from index.storage.files import write_atomically
from index.storage.full_disk import is_full
from service.http.problems import Problem
from service.runtime.feedback_log import feedback_counts
from service.settings import DATABASE_VARIABLE
from service.training.exported_state import (
    encoder_loader,
    export_state,
    exported_champion,
    exported_lineages,
    read_exported,
)
from service.training.inputs import Inputs, encoder_of_keys
from service.training.staging import EXPORTED, LOCK, MODEL, NO_SPACE, READ, REPORT, STAGED, TRIAL_CACHE

CLICK_MODEL = "click_model"
"""The name of the frozen click model in a lineage."""


def main(arguments: list[str], fit_elsewhere: Callable[[dict[str, Any]], None] | None = None) -> int:
    """Run the fit of a JSON specification; return the exit code.

    fit_elsewhere: fits from the exported state of a specification in place of this process, and writes what `fit_state`
    writes.
    """
    specification: dict[str, Any] = {"database": os.environ.get(DATABASE_VARIABLE)} | json.loads(arguments[0])
    torch.set_num_threads(1)
    torch.set_deterministic_debug_mode("error")  # like use_deterministic_algorithms, without importing the compiler
    with (Path(specification["staging"]) / LOCK).open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the process of a killed service may still be ending
        try:
            if specification.get(EXPORTED):
                fit_state(specification, read_exported(Path(specification["staging"])))
            else:
                inputs = export_state(specification)
                if inputs.window is not None:
                    print_record({READ: inputs.window})
                if fit_elsewhere is None:
                    fit_state(specification, inputs)
                else:
                    fit_elsewhere(specification)
            print_record({STAGED: True})
        except Exception as error:
            told = error_of(error)
            if told is None:
                raise
            print_record({"error": told})
            return 1
    return 0


def error_of(error: Exception) -> dict[str, Any] | None:
    """Return the error of the record of the run; None for a defect, whose traceback is in the log."""
    if isinstance(error, NotEnoughFeedback):
        return {"code": "not_enough_feedback", "detail": str(error)}
    if isinstance(error, EncoderMismatch):
        return {"code": "encoder_mismatch", "detail": str(error)}
    if isinstance(error, Problem):  # the collection was deleted
        return {"code": error.code, "detail": error.detail}
    return NO_SPACE if is_full(error) else None


def fit_state(specification: dict[str, Any], inputs: Inputs) -> None:
    """Fit from the exported state in the staging folder, and write the model and its report there."""
    staging, learn_from = Path(specification["staging"]), specification["learn_from"]
    config = _config(specification)
    lineage = _lineage(specification, config, inputs)
    if learn_from == "documents":
        load = cache(partial(encoder_of_keys, encoder_loader(specification), inputs.encoder, inputs.fingerprint))
        steps = fit_from_documents(
            inputs.generation, inputs.initial, inputs.texts, lambda texts: load().encode_queries(texts)
        )
    else:
        champion = exported_champion(staging, inputs.initial, specification["champion"])
        earlier = earlier_decisions(exported_lineages(staging), lineage)
        trials = staging / TRIAL_CACHE
        steps = fit(
            inputs.generation, inputs.feedback, champion, config, inputs.initial, trials, earlier, inputs.new,
            inputs.labels, inputs.newer,
        )  # fmt: skip
    fitted, seconds = _fitted(steps)
    if fitted.clicks is not None:
        lineage |= {CLICK_MODEL: fitted.clicks.frozen()}
    shutil.rmtree(staging / MODEL, ignore_errors=True)  # left by a process that was killed before it wrote its report
    save_head(staging / MODEL, fitted.head, lineage)
    measured = fitted.report | {"train_seconds": round(seconds, 2), "peak_memory_bytes": _peak_memory_bytes()}
    report = {"lineage": lineage, "report": measured, "decision": fitted.decision.as_dict()}
    write_atomically(staging / REPORT, json.dumps(report).encode())


def _lineage(specification: dict[str, Any], config: FitConfig, inputs: Inputs) -> dict[str, Any]:
    """Return the origin of the model: its parent, the parameters of the run, and the counts of its data."""
    window = specification["window"] if inputs.window is None else inputs.window
    facts = {"documents": inputs.generation.count, "generation": inputs.generation.watermark}
    return {
        "kind": "documents" if specification["learn_from"] == "documents" else "trained",
        "parent": specification["champion"],
        "seed": config.seed,
        "budget_seconds": config.cost_budget,
        "click_reading": specification["click_reading"],
        "training_run": specification["run"],
        "encoder_fingerprint": inputs.fingerprint,
        "data": feedback_counts(inputs.feedback) | facts | {"window": window},
        **({"objective": "reinforce"} if specification["objective"] == "reinforce" else {}),
    }


def earlier_decisions(lineages: Sequence[Mapping[str, Any]], own: Mapping[str, Any]) -> int:
    """Return how often the gate has compared another challenger with the champion.

    lineages: of the models whose parent has the champion's version. Those of another encoder do not count: version 0
    ranks by other vectors there. A run that repeats another one, with the same data and parameters, has the same result
    and does not count again.
    """
    encoder = own.get("encoder_fingerprint")
    same = [lineage for lineage in lineages if lineage.get("encoder_fingerprint") == encoder]

    def facts(lineage: Mapping[str, Any]) -> str:
        data = {name: value for name, value in lineage.items() if name not in ("training_run", CLICK_MODEL)}
        return json.dumps(data, sort_keys=True)

    return len({facts(lineage) for lineage in same} - {facts(own)})


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
        print_record({"phase": step.phase, "done": done, "total": total, **step.figures})


def _peak_memory_bytes() -> int | None:
    """Return the peak memory of this process, None on systems without /proc. getrusage includes the parent's memory."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.is_file() else []
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), None)


def print_record(record: dict[str, Any]) -> None:
    """Print a record of the run as a line, for the service that has started this process."""
    print(json.dumps(record), flush=True)
