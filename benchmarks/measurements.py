"""Per-query measures of every system, set and seed, kept in a file (`--resume`).

The file is written after every system. An interrupted run continues with the systems that are missing from it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from index.storage.files import write_atomically

MEASURES = ("nDCG@10", "R@100")
DIGITS = 5
ANY_SEED = "-"
"""The seed entry of a deterministic system."""


@dataclass(frozen=True)
class Found:
    """The rankings of one system with one seed (None: deterministic), their cost, and facts for the report."""

    system: str
    seed: int | None
    run: dict[str, list[str]]
    cost: dict[str, float]
    facts: dict[str, Any]
    ungated: dict[str, list[str]] | None = None
    """The rankings of the trained model, where the gate rejected it."""


class Measurements:
    """Sets -> systems -> seeds -> entry. An entry counts only for the settings that it was measured with."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.sets: dict[str, dict[str, Any]] = {}
        if path and path.is_file():
            self.sets = json.loads(path.read_bytes())["sets"]

    def open_set(self, name: str, documents: int, train: int, queries: Sequence[str]) -> None:
        """Open a set. Its stored entries are dropped if its test queries or its document counts differ."""
        facts = {"documents": documents, "train": train, "queries": list(queries)}
        known = self.sets.get(name, {})
        if any(known.get(fact) != value for fact, value in facts.items()):
            self.sets[name] = facts | {"systems": {}}

    def has(self, name: str, system: str, seed: int | None, settings: Mapping[str, Any]) -> bool:
        """Whether the file holds an entry of this system, set and seed with these settings."""
        entry = self.sets[name]["systems"].get(system, {}).get(_seed(seed))
        return entry is not None and entry["settings"] == settings

    def put(
        self,
        name: str,
        system: str,
        seed: int | None,
        values: Mapping[str, Mapping[str, float]],
        **entry: Any,
    ) -> None:
        """Store the measures of one system, per query in the order of the set, with settings, commit, cost and facts.

        Entries of the same system with other settings are dropped: seeds are averaged and must be comparable.
        """
        queries = self.sets[name]["queries"]
        listed = {measure: [round(of[query], DIGITS) for query in queries] for measure, of in values.items()}
        systems = self.sets[name]["systems"]
        seeds = {one: old for one, old in systems.get(system, {}).items() if old["settings"] == entry["settings"]}
        systems[system] = seeds | {_seed(seed): entry | {"values": listed}}
        if self._path:
            write_atomically(self._path, json.dumps({"sets": self.sets}).encode())

    def forget(self, systems: Sequence[str]) -> None:
        """Drop the entries of these systems, so that they are measured again."""
        for one in self.sets.values():
            for system in systems:
                one["systems"].pop(system, None)

    def joined(self, parts: Mapping[str, Sequence[str]]) -> "Measurements":
        """Return merged sets: name -> sets with the same test queries. The last set wins where systems collide."""
        whole = Measurements(None)
        for name, sets in parts.items():
            systems = {system: seeds for one in sets for system, seeds in self.sets[one]["systems"].items()}
            whole.sets[name] = self.sets[sets[0]] | {"systems": systems}
        return whole

    def entries(self, name: str, system: str) -> dict[str, dict[str, Any]]:
        """Return seed -> entry; empty if the system is not measured."""
        found: dict[str, dict[str, Any]] = self.sets[name]["systems"].get(system, {})
        return found

    def values(self, name: str, system: str, measure: str = MEASURES[0]) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return the measure (seeds, S) of a system on a set."""
        return np.asarray([entry["values"][measure] for entry in self.entries(name, system).values()])

    def commits(self) -> list[str]:
        """Return the commits of all entries, sorted."""
        seeds = (entries for one in self.sets.values() for entries in one["systems"].values())
        return sorted({entry["commit"] for each in seeds for entry in each.values()})


def _seed(seed: int | None) -> str:
    return ANY_SEED if seed is None else str(seed)
