"""A collection in a worker: made from the frames that the process of the data directory publishes."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import structlog
from numpy.typing import NDArray

from index.errors import DamagedFile
from index.generation.generation import Generation
from index.generation.mirroring import GenerationMirror
from index.ranking.attention import AttentionHead
from index.words.word_reader import OtherCommit
from service.runtime.collection_settings import CollectionSettings
from service.runtime.model_files import load_version
from service.runtime.rule_repository import rulebook
from service.runtime.rules import Rulebook
from service.runtime.search_runtime import SearchRuntime
from service.runtime.served_collection import ServedCollection, Serving

WAIT_SECONDS = 5.0
"""Most time that a search waits for a change that is committed and not published yet."""
LOOK_SECONDS = 0.002
log = structlog.get_logger()


class NotMirrored(Exception):
    """The worker does not have the collection, or not all of it: the process of the data directory answers."""


class MirroredCollection(ServedCollection):
    """A collection of another process. `apply_facts` and `apply_documents` follow the frames of the feed."""

    def __init__(
        self, runtime: SearchRuntime, follow: Callable[[], bool], report_damage: Callable[[int], None]
    ) -> None:
        """follow: applies new frames and returns whether there were any. report_damage: has an index rebuilt."""
        self._runtime, self._follow, self._report_damage = runtime, follow, report_damage
        self.known_words = runtime.encoder.words
        self.rules = Rulebook()
        self._awaits_vectors = False
        self._change: int | None = None
        self._mirror: GenerationMirror | None = None
        self._generation: Generation | None = None
        self._is_served = False

    @property
    def is_ready(self) -> bool:
        """Whether requests that read can be answered here."""
        return self._generation is not None and self._is_served

    @property
    def generation(self) -> Generation:
        generation = self._generation
        if generation is None:
            raise NotMirrored(self.name)
        return generation

    @property
    def awaits_vectors(self) -> bool:
        return self._awaits_vectors

    def changes_after(self, generation: Generation) -> AbstractContextManager[object]:
        return self._after_change_of(generation)

    def complete(self) -> AbstractContextManager[object]:
        raise NotMirrored(self.name)  # only the process that writes knows when its changes are published

    def mend(self, damaged: Generation) -> None:
        self._report_damage(self.id)
        raise NotMirrored(self.name)

    def apply_facts(self, facts: Mapping[str, Any]) -> None:
        """Use the settings, the model and the rules of a frame."""
        self.id, self.name = facts["id"], facts["name"]
        self.settings = CollectionSettings(**facts["settings"])
        self.fingerprint, self.dim = facts["fingerprint"], facts["dim"]
        self.behind, self.missing_changes = facts["behind"], facts["missing_changes"]
        self._awaits_vectors = facts["awaits_vectors"]
        if facts["change"] != self._change:
            self._change = facts["change"]
            self._is_served = self._serve(facts["version"], facts["is_damaged"])
        if self._mirror is not None:
            self._mirror.configure(self.reading)
            self._generation = self._mirror.current

    def apply_documents(self, head: Mapping[str, Any], arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Make the next generation of a frame."""
        try:
            if "files" in head:
                self.drop_documents()
                self._mirror = GenerationMirror(head)
            if self._mirror is not None:
                self._mirror.apply(head, arrays, self.reading)
                self._generation = self._mirror.current
        except (DamagedFile, OtherCommit) as error:  # the files are gone: a later frame names others
            log.debug("not_mirrored", collection=self.name, reason=str(error))
            self.drop_documents()

    def drop_documents(self) -> None:
        """Have the process of the data directory answer, until a frame begins anew."""
        self._mirror = self._generation = None
        self.forget_rows()

    def _serve(self, version: int, is_damaged: bool) -> bool:
        """Load the champion and the rules; return False if the model cannot be read."""
        head = AttentionHead(self.initial)
        try:
            if not is_damaged:
                with self._runtime.database.read() as connection:
                    head = load_version(connection, self.id, self.initial, version)
        except DamagedFile as damage:
            log.warning("champion_not_read", collection=self.name, version=version, reason=str(damage))
            return False
        with self._runtime.database.read() as connection:
            self.rules = rulebook(connection, self.id, self.dim)
        self.serving = Serving(version, head, ("champion_damaged",) if is_damaged else ())
        return True

    @contextmanager
    def _after_change_of(self, generation: Generation) -> Iterator[None]:
        """Wait until a generation is replaced: the client of the change has no answer before that."""
        until = time.monotonic() + WAIT_SECONDS
        while self._generation is generation and time.monotonic() < until:
            if not self._follow():
                time.sleep(LOOK_SECONDS)
        yield
