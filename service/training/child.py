"""The training process: reads the database, fits, writes to staging, tells its steps as lines of JSON on stdout.

It runs apart from the service, on one thread and at low priority, and cannot write to the database.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from sqlalchemy import select

from index.errors import NotEnoughFeedback
from index.files import write_atomically
from index.generation import Generation, GenerationStore
from index.models import save_head
from index.train import FitConfig, Fitted, fit
from service.database import DATABASE_FILE, Database
from service.learning import gather_feedback, summary
from service.state import indexed_documents, load_version, memory_keys
from service.tables import Collection

MODEL = "model"
REPORT = "report.json"
NICENESS = 10


def main(arguments: list[str]) -> int:
    """Run the fit that a JSON specification describes; return the exit code."""
    specification: dict[str, Any] = json.loads(arguments[0])
    os.nice(NICENESS)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    try:
        run(specification)
    except NotEnoughFeedback as error:
        _tell({"error": {"code": "not_enough_feedback", "detail": str(error)}})
        return 1
    return 0


def run(specification: dict[str, Any]) -> None:
    """Fit, and leave the model and its report in the staging folder of the run."""
    data, staging = Path(specification["data"]), Path(specification["staging"])
    database = Database(data / DATABASE_FILE)
    with database.read() as connection:
        collection_id = specification["collection_id"]
        row = connection.execute(select(Collection.__table__).where(Collection.id == collection_id)).mappings().one()
        store = GenerationStore(staging / "index", row["dim"], row["settings"]["language"])
        store.apply(row["watermark"], indexed_documents(connection, collection_id))
        generation = store.remember(row["watermark"], memory_keys(connection, collection_id))
        feedback = gather_feedback(connection, collection_id)
    parent = load_version(collection_id, row["dim"], specification["champion"], data)
    config = FitConfig(seed=specification["seed"])
    fitted = _fitted(generation, feedback, parent, config)
    store.close()
    facts = summary(feedback) | {"documents": generation.count, "generation": generation.watermark}
    lineage = {
        "kind": "trained",
        "parent": specification["champion"],
        "seed": config.seed,
        "training_run": specification["run"],
        "encoder_fingerprint": row["fingerprint"],
        "data": facts | {"window": specification["window"]},
    }
    save_head(staging / MODEL, fitted.head, lineage)
    decision = {
        "promote": fitted.decision.promote,
        "checks": [vars(check) for check in fitted.decision.checks],
        "reasons": fitted.decision.reasons,
    }
    measured = fitted.report | {"peak_memory_bytes": _peak_memory_bytes()}
    report = {"lineage": lineage, "report": measured, "decision": decision}
    write_atomically(staging / REPORT, json.dumps(report).encode())


def _fitted(generation: Generation, feedback: Any, parent: Any, config: FitConfig) -> Fitted:
    steps = fit(generation, feedback, parent, config)
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            fitted: Fitted = end.value
            return fitted
        _tell({"phase": step.phase, "done": step.done, "total": step.total, **step.figures})


def _peak_memory_bytes() -> int | None:
    """Return the most memory that this process has held, where the system tells; getrusage counts the parent's too."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.is_file() else []
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), None)


def _tell(record: dict[str, Any]) -> None:
    print(json.dumps(record), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
