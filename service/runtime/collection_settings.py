"""The settings of a collection: `service.collections.schemas` checks them, the table `collections` stores them."""

import time
from dataclasses import dataclass, field, replace
from typing import Any

from index.memory.aggregation import DAY, DecayClock
from index.ranking.attention import HeadConfig
from index.records import KeyKind


@dataclass(frozen=True)
class CollectionSettings:
    """The settings of a collection, as stored."""

    filterable: list[str] = field(default_factory=list)
    language: str = "english"
    retention_days: int | None = None
    keys: list[str] = field(default_factory=lambda: ["title", "passage"])
    attention: dict[str, Any] = field(default_factory=lambda: {"form": "bilinear", "heads": 1, "normaliser": "softmax"})
    memory_half_life_days: int | None = 365

    @property
    def kinds(self) -> set[KeyKind]:
        """The kinds of keys that documents get."""
        return {KeyKind[name.upper()] for name in self.keys}

    def initial(self, dim: int) -> HeadConfig:
        """Return the configuration of an untrained head for keys of this width."""
        return HeadConfig(dim, **self.attention)

    def changed(self, changes: dict[str, Any]) -> "CollectionSettings":
        """Return the settings with these changes. Omitted settings keep their values, also in `attention`."""
        return replace(self, **{**changes, "attention": self.attention | changes.get("attention", {})})

    def decay_clock(self, day: int | None = None) -> DecayClock:
        """Return the clock that ages memory as of this day; the default is today."""
        if self.memory_half_life_days is None:
            return DecayClock(0)
        return DecayClock(today() if day is None else day, self.memory_half_life_days)


def today() -> int:
    """Return the number of days since 1970-01-01, UTC."""
    return int(1000 * time.time()) // DAY
