#!/usr/bin/env python3
"""Writes a software bill of materials (CycloneDX 1.6, JSON): what an installation of softseek consists of.

Usage: sbom.py FILE [EXTRA ...]. It lists the installed distributions that `softseek` and its extras need, with
versions, licences and dependencies. It reads the environment that runs it and no network. By default the extra is
`offline`. The file has no time and no random number, so that the same environment gives the same bytes.
"""

import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = "softseek"
PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def closure(extras: Iterable[str]) -> dict[str, tuple[Distribution, list[str]]]:
    """Return name -> distribution and the names that it needs, for everything that softseek with these extras needs.

    The needs of softseek itself come from pyproject.toml. Raises PackageNotFoundError for a needed distribution that is
    not installed.
    """
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    own = [Requirement(one) for one in project["dependencies"]]
    own += [Requirement(one) for extra in extras for one in project["optional-dependencies"][extra]]
    found = {ROOT: (distribution(ROOT), _names(own))}
    asked: dict[str, set[str]] = {}
    waiting = own
    while waiting:
        one = waiting.pop()
        name = canonicalize_name(one.name)
        if name in asked and one.extras <= asked[name]:
            continue
        asked[name] = asked.get(name, set()) | one.extras
        installed = distribution(name)
        needs = list(_needed(installed, asked[name]))
        found[name] = installed, _names(needs)
        waiting += needs
    return found


def _names(requirements: Iterable[Requirement]) -> list[str]:
    return sorted({canonicalize_name(one.name) for one in requirements})


def _needed(installed: Distribution, extras: set[str]) -> Iterator[Requirement]:
    """Yield the requirements of a distribution that hold in this environment, with these extras."""
    for text in installed.requires or []:
        one = Requirement(text)
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield one


def bill(found: Mapping[str, tuple[Distribution, list[str]]]) -> Bom:
    """Return the bill of materials of a closure."""
    components = {name: _component(name, installed) for name, (installed, _) in found.items()}
    bom = Bom(components=[one for name, one in components.items() if name != ROOT])
    bom.metadata.component = components[ROOT]
    bom.metadata.timestamp = None  # it would differ in each file
    for name, (_, needs) in found.items():
        bom.register_dependency(components[name], [components[one] for one in needs])
    bom.serial_number = uuid5(NAMESPACE_URL, " ".join(sorted(str(one.purl) for one in components.values())))
    return bom


def _component(name: str, installed: Distribution) -> Component:
    facts = installed.metadata
    stated = facts.get("License-Expression") or facts.get("License") or ""
    stated = stated.strip().splitlines()[0][:200] if stated.strip() else ""
    named = [one.rsplit(" :: ", 1)[1] for one in facts.get_all("Classifier") or [] if one.startswith("License :: ")]
    licences = [LicenseFactory().make_from_string(one) for one in ([stated] if stated else named[:1])]
    return Component(
        name=name,
        version=installed.version,
        type=ComponentType.APPLICATION if name == ROOT else ComponentType.LIBRARY,
        purl=PackageURL("pypi", name=name, version=installed.version),
        bom_ref=f"{name}@{installed.version}",
        licenses=licences,
        description=facts.get("Summary"),
    )


def main(arguments: list[str]) -> int:
    """Write the file; return the exit code."""
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        found = closure(arguments[1:] or ["offline"])
    except PackageNotFoundError as error:
        print(f"{error.name} is not installed: run make setup first", file=sys.stderr)
        return 1
    text = JsonV1Dot6(bill(found)).output_as_string(indent=2)
    Path(arguments[0]).write_text(text + "\n", encoding="utf-8")
    print(f"{arguments[0]}: {len(found)} components", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
