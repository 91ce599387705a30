"""The settings of a collection: `service.collections.schemas` checks them, the table `collections` stores them."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from index.memory.grades import DAY, DecayClock
from index.ranking.attention import HeadConfig
from index.records import KeyKind
from index.words.compounds import COMPOUNDING
from index.words.participles import PARTICIPLES
from index.words.query_words import Field
from index.words.question_words import QUESTION_WORDS
from index.words.reading_options import ReadingOptions, Synonyms, folded

MIB = 1 << 20
DEFAULT_ATTENTION: dict[str, Any] = {"form": "bilinear", "heads": 1, "normaliser": "softmax", "value_rank": 0}
"""How queries attend to keys. Collections of earlier releases lack `value_rank`."""
DEFAULT_SCHEDULE: dict[str, Any] = {"every_hours": 24, "min_new_queries": 50}
"""The schedule of training where a schedule leaves its fields out."""
DEFAULT_SUGGESTIONS: dict[str, Any] = {"min_clients": 3, "off_words": []}
"""Which logged queries are suggested. Collections of earlier releases lack it."""


@dataclass(frozen=True)
class CollectionSettings:
    """The settings of a collection, as stored."""

    filterable: list[str] = field(default_factory=list)
    language: str = "english"
    retention_days: int | None = None
    keys: list[str] = field(default_factory=lambda: ["title", "passage"])
    attention: dict[str, Any] = field(default_factory=DEFAULT_ATTENTION.copy)
    memory_half_life_days: int | None = 365
    memory_max_mb: int | None = 6144
    """The most MiB of memory, without the dropped past queries; None for no limit."""
    memory_retention_days: int | None = None
    """Days after which clicks leave memory; None keeps them. Those of deleted events stay as anonymous memory."""
    typos: bool | dict[str, Any] = True
    """Whether unknown words of queries are corrected; an object changes the least lengths, and names words to leave
    and fields in which corrections do not match. Fields that were never set are absent."""
    stop_words: list[str] = field(default_factory=list)
    question_words: bool = True
    """Whether the words of questions, such as `how do I`, are left out of them."""
    synonyms: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Synonym id -> {"words": [...], "from": word or None}."""

    train: dict[str, Any] | None = None
    """When training starts by itself: {"every_hours": number, "min_new_queries": number}; None for never."""

    train_from_documents: bool = False
    """Whether a model is made from the documents by itself, while no labelled model serves."""

    suggestions: dict[str, Any] = field(default_factory=DEFAULT_SUGGESTIONS.copy)
    """How many clients a suggested query needs, and the words or short phrases of queries that are never suggested."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "attention", DEFAULT_ATTENTION | self.attention)
        object.__setattr__(self, "suggestions", DEFAULT_SUGGESTIONS | self.suggestions)

    @cached_property
    def reading(self) -> ReadingOptions:
        """How queries of this collection are read."""
        given = self._typos
        return ReadingOptions(
            typos=given.get("enabled", True),
            one_edit=given.get("one_edit", ReadingOptions.one_edit),
            two_edits=given.get("two_edits", ReadingOptions.two_edits),
            uncorrected=frozenset(folded(word) for word in given.get("off_words", [])),
            uncorrected_fields=frozenset(Field(name) for name in given.get("off_fields", [])),
            stop_words=frozenset(folded(word) for word in self.stop_words),
            question_words=QUESTION_WORDS.get(self.language) if self.question_words else None,
            synonyms=_synonyms(self.synonyms.values(), self.language) if self.synonyms else None,
            participles=self.language in PARTICIPLES,
            compounds=self.language in COMPOUNDING,
        )

    @property
    def kinds(self) -> set[KeyKind]:
        """The kinds of keys that documents get."""
        return {KeyKind[name.upper()] for name in self.keys}

    def initial(self, dim: int) -> HeadConfig:
        """Return the configuration of an untrained head for keys of this width."""
        return HeadConfig(dim, **self.attention)

    def changed(self, changes: dict[str, Any]) -> "CollectionSettings":
        """Return the settings with these changes. Omitted settings keep their values, also inside objects."""
        more = {name: getattr(self, name) | changes.get(name, {}) for name in ("attention", "suggestions")}
        if changes.get("train") is not None:
            more["train"] = DEFAULT_SCHEDULE | (self.train or {}) | changes["train"]
        if isinstance(changes.get("typos"), dict):
            more["typos"] = self._typos | changes["typos"]
        return replace(self, **{**changes, **more})

    @property
    def _typos(self) -> dict[str, Any]:
        """The setting `typos` as an object, of which a boolean is the field `enabled`."""
        return self.typos if isinstance(self.typos, dict) else {"enabled": self.typos}

    @property
    def memory_max_bytes(self) -> int | None:
        """The most bytes of memory; None for no limit."""
        return None if self.memory_max_mb is None else self.memory_max_mb * MIB

    def decay_clock(self, day: int | None = None) -> DecayClock:
        """Return the clock that ages memory as of this day; the default is today."""
        if self.memory_half_life_days is None:
            return DecayClock(0)
        return DecayClock(today() if day is None else day, self.memory_half_life_days)


def _synonyms(entries: Iterable[Mapping[str, Any]], language: str) -> Synonyms:
    """Return the replacements of all entries: both ways, or from one word to the others."""
    replacements: dict[str, list[str]] = {}
    for entry in entries:
        words = [folded(word) for word in entry["words"]]
        sources = words if entry.get("from") is None else [folded(entry["from"])]
        for source in sources:
            replacements.setdefault(source, []).extend(word for word in words if word != source)
    return Synonyms(replacements, language)


def today() -> int:
    """Return the number of days since 1970-01-01, UTC."""
    return int(1000 * time.time()) // DAY
