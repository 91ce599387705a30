"""The common shape of a result: the figures of one benchmark run, and how they were measured.

    {"measured": {"commit", "date", "command", "seeds", "cores", "processor", "note"},
     "remarks": [...], "figures": {...}}

Every benchmark prints a result as its last line, and `--out FILE` writes the same result. To store a run, let `--out`
name a file of `benchmarks/results`, and regenerate the tables of README.md and docs:

    python -m benchmarks.learning --data ../shared/data --peers --out benchmarks/results/learning.json
    python -m benchmarks.tables

The name of the file is the question that it answers. `note` and `remarks` describe this measurement. The pages show
them beside the tables, and the next stored run replaces them together with the figures.
"""

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from index.storage.files import write_atomically

RESULTS = Path(__file__).parent / "results"
"""The folder of stored results."""


def add_out(parser: argparse.ArgumentParser) -> None:
    """Add the option `--out`."""
    parser.add_argument("--out", type=Path, help="write the result to this file, such as benchmarks/results/NAME.json")


def publish(figures: Mapping[str, Any], seeds: Sequence[int], out: Path | None, commits: Sequence[str] = ()) -> None:
    """Print the result as one line of JSON, and write it to `out`.

    commits: the commits of measurements that were taken from an earlier run (`--resume`).
    """
    result = {"measured": conditions(seeds, commits), "remarks": [], "figures": without_paths(figures)}
    print(json.dumps(result))
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, (json.dumps(result, indent=1, ensure_ascii=False) + "\n").encode())


def conditions(seeds: Sequence[int], commits: Sequence[str] = ()) -> dict[str, Any]:
    """Return commit, date, command, seeds, cores and processor of this run."""
    notes = []
    if _git("status", "--porcelain", "--untracked-files=no"):
        notes.append("The checkout had uncommitted changes.")
    if others := [one[:9] for one in commits if one != commit()]:
        notes.append(f"Some measurements were taken over from runs at {', '.join(others)}.")
    return {
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "command": command(),
        "seeds": list(seeds),
        "cores": os.cpu_count(),
        "processor": processor(),
        "note": " ".join(notes),
    }


def commit() -> str:
    """Return the commit of the checkout, "" outside a checkout."""
    return _git("rev-parse", "HEAD")


def command() -> str:
    """Return the command of this process. A path outside of the checkout keeps its last two parts: `../shared/data`."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    program = spec.name if spec else Path(sys.argv[0]).stem
    return shlex.join(["python", "-m", program, *map(_without_place, sys.argv[1:])])


def without_paths(figures: Any) -> Any:
    """Return figures in which every absolute path is its last part, such as the folder of an encoder."""
    if isinstance(figures, Mapping):
        return {key: without_paths(value) for key, value in figures.items()}
    if isinstance(figures, list | tuple):
        return [without_paths(value) for value in figures]
    return Path(figures).name if isinstance(figures, str) and figures.startswith("/") else figures


def _without_place(argument: str) -> str:
    """Return an argument; a path is relative to the checkout, and of a path outside of it the last two parts stay."""
    if not argument.startswith(("/", "../")):
        return argument
    relative = os.path.relpath(argument)
    return str(Path("..", *Path(relative).parts[-2:])) if relative.startswith("..") else relative


def processor() -> str:
    """Return the name of the processor."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def load_result(path: Path) -> dict[str, Any]:
    """Return a stored result; raises ValueError if it does not have the common shape."""
    result: dict[str, Any] = json.loads(path.read_bytes())
    wanted = {"commit", "date", "command", "seeds", "cores", "processor", "note"}
    if set(result) != {"measured", "remarks", "figures"} or set(result["measured"]) != wanted:
        raise ValueError(f"{path.name} does not have the shape of a result (benchmarks/result_file.py)")
    return result


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=False).stdout.strip()
