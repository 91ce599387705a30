"""A training run on a Ray cluster: `python -m service.cluster.training SPECIFICATION`, in place of `service.training`.

This process exports the state of the collection, gives it to a task of the cluster, prints its steps, and stages its
model. The service sees the same lines and files as those of a run on its own machine, so the gate is the same too. The
task starts the training process of a run, which has no access to the database. Cancelling this process ends the task.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from service.cluster.connection import NoCluster, WorkLost, connected
from service.training import child
from service.training.child_process import training_environment
from service.training.exported_state import files_of, write_files
from service.training.pauses import ORPHANED, obey
from service.training.staging import EXPORTED, MODEL, REPORT, STAGED

TRIES = 3
"""Times that a task is begun, if its machine is lost."""
OWNER = "owner"
"""The file in the folder of a fit that the process of the fit has locked."""
CODE, FILES, ERRORS = "code", "files", "errors"
"""The members of the last record of a task."""


class FitFailed(Exception):
    """The training process on the cluster has failed. It has printed its error, or its log is the message."""


def main(arguments: list[str]) -> int:
    """Run the fit of a JSON specification on the cluster that it names; return the exit code."""
    obey(0, lambda: os._exit(ORPHANED))
    try:
        return child.main(arguments, fit_elsewhere=fit_on_cluster)
    except NoCluster as error:
        child.print_record({"error": {"code": "no_cluster", "detail": str(error)}})
        return 1


def fit_on_cluster(specification: dict[str, Any]) -> None:
    """Fit from the exported state of a run on a machine of the cluster, and stage its model and report.

    Prints the steps. Raises NoCluster, and FitFailed if the process on the cluster has failed.
    """
    staging = Path(specification["staging"])
    shown = {name: value for name, value in specification.items() if name != "database"}
    with connected(specification["ray_address"]) as cluster:
        state = cluster.put(files_of(staging))
        child.print_record({"phase": "exported", "done": 1, "total": 1})
        for left in reversed(range(TRIES)):
            try:
                for record in cluster.streamed(fit_exported, shown, state):
                    if CODE in record:
                        _take(staging, record)
                    else:
                        child.print_record(record)
                return
            except WorkLost as error:
                if not left:
                    raise NoCluster(f"the run was lost {TRIES} times, the last time by: {error}") from error


def fit_exported(specification: dict[str, Any], files: dict[str, bytes]) -> Iterator[dict[str, Any]]:
    """Fit from exported files, on any machine; yield the steps, and at last the exit code with the staged files."""
    with _own_folder() as folder:
        write_files(folder, files)
        own = specification | {"staging": str(folder), EXPORTED: True}
        command = [sys.executable, "-m", "service.training", json.dumps(own)]
        with (folder / "stderr.log").open("wb") as errors:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,  # it ends with this process
                stdout=subprocess.PIPE,
                stderr=errors,
                env=training_environment(None),
            )
        try:
            assert process.stdout is not None
            for line in process.stdout:
                record = json.loads(line)
                if STAGED not in record:
                    yield record
            code = process.wait()
        finally:
            process.kill()
            process.wait()
        log = (folder / "stderr.log").read_text(errors="replace")[-2000:]
        yield {CODE: code, FILES: files_of(folder, (MODEL, REPORT)), ERRORS: log}


@contextmanager
def _own_folder() -> Iterator[Path]:
    """Make a folder for a fit, and delete it at the end. Folders of killed fits of this user are deleted before.

    The kernel frees the lock of a folder when the process that has made it ends, in whatever way.
    """
    parent = Path(tempfile.gettempdir()) / f"softseek-training-{os.getuid()}"
    parent.mkdir(mode=0o700, exist_ok=True)
    if parent.stat().st_uid != os.getuid():
        raise PermissionError(f"{parent} belongs to another user")
    with (parent / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in filter(Path.is_dir, parent.iterdir()):
            with (left / OWNER).open("ab") as owner, suppress(BlockingIOError):
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(dir=parent))
        owned = (folder / OWNER).open("wb")
        fcntl.flock(owned, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        owned.close()


def _take(staging: Path, record: dict[str, Any]) -> None:
    """Stage the files of a process that has ended in order. The service checks them against their manifest."""
    if record[CODE]:
        raise FitFailed(f"the training process ended with code {record[CODE]}: {record[ERRORS]}")
    write_files(staging, record[FILES])


if __name__ == "__main__":
    from service.cluster import training  # a function of `__main__` would travel to the cluster as code

    sys.exit(training.main(sys.argv[1:]))
