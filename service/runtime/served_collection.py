"""A collection as searches see it: its current generation, the model that serves, its settings and rules.

In the process that writes it is `service.runtime.collection`; in a worker, `service.workers.mirrored_collection`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TypeVar

from index.encoding.encoder import Encoder
from index.errors import DamagedKeys, EncoderMismatch
from index.generation.generation import Generation
from index.memory.click_worth import ASSUMED_WORTH, ClickWorth
from index.ranking.attention import AttentionHead, HeadConfig
from index.words.reading_options import ReadingOptions
from service.runtime.collection_settings import CollectionSettings
from service.runtime.rules import Rulebook

COMMITS_MISSING = "commits_missing"
"""The database lacks changes that an earlier process committed."""
COPY_IS_OLD = "copy_is_old"
"""A searcher does not reach the database, so later changes are unknown to it."""
RULES_UNREADABLE = "rules_unreadable"
"""A stored rule is damaged and cannot be read: searches go on without it."""
OTHER_ENCODER = "other_encoder"
"""Another encoder than the encoder of this process made the vectors of the collection. All its searches are refused."""
INDEX_BEHIND = "index_behind"
"""The index lacks committed changes, because it could not be written."""

T = TypeVar("T")


@dataclass(frozen=True)
class Serving:
    """The model that answers searches. It is replaced as a whole, so that a search uses a single version."""

    version: int
    head: AttentionHead
    degraded: tuple[str, ...] = ()
    worth: ClickWorth = ASSUMED_WORTH
    """The worth of clicks in memory, frozen with the champion."""


class ServedCollection(ABC):
    """What a search needs of a collection."""

    id: int
    name: str
    settings: CollectionSettings
    fingerprint: str
    dim: int
    serving: Serving
    rules: Rulebook
    """The documents that the owner pins and hides for some queries."""
    known_words: frozenset[str] = frozenset()
    """The words that the encoder knows. They are not corrected in queries."""
    field_columns: object = None
    """The values of filterable fields, which `service.search.field_columns` makes at the first use."""
    kept_filters: object = None
    """The documents that pass the last filters, which `service.search.kept_filters` makes at the first use."""
    is_old = False
    """Whether the copy of a searcher has not been compared with the database for some seconds."""
    behind = False
    """Whether the index lacks a change that is committed to the database."""
    documents_watermark = 0
    """The watermark of the last change of documents, in a process that follows the database."""
    missing_changes = 0
    """The number of changes that an earlier process committed and the database lacks."""

    def forget_rows(self) -> None:
        """Forget what was read by the numbers of rows, where other documents may have them now."""
        self.field_columns = self.kept_filters = None

    @property
    @abstractmethod
    def generation(self) -> Generation:
        """The generation that searches use now."""

    @property
    @abstractmethod
    def awaits_vectors(self) -> bool:
        """Whether documents are searchable by words, and their vectors are still being made."""

    @abstractmethod
    def changes_after(self, generation: Generation) -> AbstractContextManager[object]:
        """Return a context in which a change is published that the database had, and that this generation lacks."""

    @abstractmethod
    def complete(self) -> AbstractContextManager[object]:
        """Return a context in which the generation has every change that the database has."""

    @abstractmethod
    def mend(self, damaged: Generation) -> None:
        """Have the index rebuilt from the database, unless that happened since `damaged` was current."""

    @property
    def initial(self) -> HeadConfig:
        """The configuration of this collection's untrained head: model version 0, where training starts."""
        return self.settings.initial(self.dim)

    @property
    def reading(self) -> ReadingOptions:
        """How queries of this collection are read."""
        return replace(self.settings.reading, known=self.known_words)

    @property
    def degraded(self) -> tuple[str, ...]:
        """Why answers by the champion are less than they should be."""
        return self.degraded_by(self.serving)

    def degraded_by(self, serving: Serving) -> tuple[str, ...]:
        """Return why answers by this model are less than they should be."""
        missing = (COMMITS_MISSING,) if self.missing_changes else ()
        old = (COPY_IS_OLD,) if self.is_old else ()
        ruled = (RULES_UNREADABLE,) if self.rules.unreadable else ()
        return (*serving.degraded, *missing, *((INDEX_BEHIND,) if self.behind else ()), *old, *ruled)

    def degraded_under(self, encoder: Encoder) -> tuple[str, ...]:
        """Return why answers of a process with this encoder are refusals, or less than they should be."""
        return (*self.degraded, *(() if encoder.fingerprint == self.fingerprint else (OTHER_ENCODER,)))

    def require_encoder(self, encoder: Encoder) -> None:
        """Raise EncoderMismatch unless this encoder made the collection's keys."""
        if encoder.fingerprint != self.fingerprint:
            raise EncoderMismatch(
                f"the collection {self.name!r} was created with another encoder (fingerprint {self.fingerprint[:12]}, "
                f"now {encoder.fingerprint[:12]}): set SOFTSEEK_ENCODER to the encoder of the collection"
            )

    def with_sound_index(self, work: Callable[[], T]) -> T:
        """Return the result of work on the index. A damaged index is rebuilt, and the work is done again."""
        generation = self.generation
        try:
            return work()
        except DamagedKeys:
            self.mend(generation)
            return work()
