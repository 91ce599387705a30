"""A virtual environment per peer under benchmarks/.cache/servers, rebuilt when its list of requirements changes."""

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.vectors import CACHE

REQUIREMENTS = Path(__file__).parent / "requirements"
ENVIRONMENTS = CACHE / "servers"
TORCH = "torch==2.13.0"
"""Installed first, pinned: a version range would install CUDA packages too."""
INSTALL_SECONDS = 1800


class NotInstalled(Exception):
    """The environment of a peer cannot be built."""


def python_of(name: str, environments: Path = ENVIRONMENTS) -> Path:
    """Return the Python of a peer's environment, and build the environment if needed; raises NotInstalled."""
    folder, wanted = environments / name, (REQUIREMENTS / f"{name}.txt").read_text(encoding="utf-8")
    python, installed = folder / "venv" / "bin" / "python", folder / "installed.txt"
    if installed.is_file() and installed.read_text(encoding="utf-8") == wanted and python.exists():
        return python
    folder.mkdir(parents=True, exist_ok=True)
    _run([sys.executable, "-m", "venv", "--clear", str(folder / "venv")])
    _run([str(python), "-m", "pip", "install", "--quiet", TORCH])
    _run([str(python), "-m", "pip", "install", "--quiet", "--requirement", str(REQUIREMENTS / f"{name}.txt")])
    installed.write_text(wanted, encoding="utf-8")
    return python


def versions(python: Path, packages: list[str]) -> dict[str, str]:
    """Return the versions of those packages that an environment has."""
    code = (
        "import importlib.metadata as m, json, sys; print(json.dumps({d.name: d.version for d in m.distributions()}))"
    )
    listed = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True).stdout
    found = {name.lower().replace("_", "-"): version for name, version in json.loads(listed).items()}
    return {name: found[name] for name in packages if name in found}


def packages_of(name: str) -> list[str]:
    """Return the names in a peer's list of requirements, and torch."""
    lines = (REQUIREMENTS / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return ["torch", *(line.partition("==")[0].partition("[")[0].strip().lower() for line in lines if line.strip())]


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        lines = str(error.stderr or error).strip().splitlines()
        raise NotInstalled(lines[-1] if lines else str(error)) from error
