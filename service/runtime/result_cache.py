"""Results of searches in memory, each kept as long as a new search has the same result.

A result is of one state of a collection: its documents, its model, its settings and its rules. Another state has none
of its results. Feedback changes memory alone, and concerns the queries near a changed past query and those with its
text; all other results stay. Sees no requests: the caller makes the keys and what is kept.
"""

import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from index.generation.generation import Generation
from index.memory.changed_queries import ChangedQueries, changed_queries, merged
from index.ranking.retrieval import MEMORY_RADIUS
from index.records import Floats
from service.runtime.collection_settings import CollectionSettings
from service.runtime.rules import Rulebook
from service.runtime.served_collection import ServedCollection, Serving

MOST_CHANGED = 1024
"""Changed past queries of a collection that are kept: results that were last used before them are dropped."""
MOST_SHARE = 1 / 8
"""Share of the cache that a single result may have."""


@dataclass(frozen=True, eq=False)
class Result:
    """A result to keep.

    bare_keys, vectors (D,) each: what its search compared with past queries. A vector may be zeros, which are near
    nothing, or of a search without memory. size_bytes: an estimate.
    """

    value: Any
    bare_keys: Sequence[str]
    vectors: Sequence[Floats]
    size_bytes: int


@dataclass(frozen=True, eq=False)
class State:
    """What a result depends on."""

    generation: Generation
    serving: Serving
    settings: CollectionSettings
    rules: Rulebook
    fingerprint: str

    @classmethod
    def of(cls, collection: ServedCollection) -> "State":
        """Return the state of a collection now."""
        return cls(
            generation=collection.generation,
            serving=collection.serving,
            settings=collection.settings,
            rules=collection.rules,
            fingerprint=collection.fingerprint,
        )


class _Seen:
    """The newest state that was looked at. Its documents and words stay in memory only while others use them.

    Its past queries stay until the next search of the collection.
    """

    def __init__(self, state: State) -> None:
        generation = state.generation
        self.memory = generation.memory
        self._owner = (state.serving, state.settings, state.rules, state.fingerprint)
        self._generation = weakref.ref(generation)
        self._parts = [weakref.ref(part) for part in _parts(generation)]
        self._count, self._reading = len(generation.rows), generation.reading

    def is_of(self, generation: Generation) -> bool:
        """Return whether the state had this generation."""
        return self._generation() is generation

    def has_same_owner(self, state: State) -> bool:
        """Return whether another state has the same model, settings, rules and encoder."""
        serving, settings, rules, fingerprint = self._owner
        same = state.serving is serving and state.rules is rules and state.fingerprint == fingerprint
        return same and (state.settings is settings or state.settings == settings)

    def has_same_documents(self, generation: Generation) -> bool:
        """Return whether another generation has the same documents and words, and reads queries in the same way.

        Columns grow with their documents, and processes that follow make them anew for each generation.
        """
        if len(generation.rows) != self._count or generation.reading != self._reading:
            return False
        return all(seen() is part for seen, part in zip(self._parts, _parts(generation), strict=True))


def _parts(generation: Generation) -> tuple[object, ...]:
    """Return the parts that a generation shares with the one before, unless documents or words change."""
    return generation.key_guard, generation.alive, generation.words, generation.sealed


@dataclass(eq=False)
class _History:
    """The changes of memory of a collection since a state, with the results of this state and of later ones."""

    seen: _Seen
    changes: deque[ChangedQueries] = field(default_factory=deque)
    """The newest changes; `position` counts all."""
    position: int = 0
    changed: int = 0
    """The number of past queries in `changes`."""
    keys: set[Hashable] = field(default_factory=set)
    """The keys of its results."""
    is_over: bool = False
    """Whether another history has begun, so that this one gets no further results."""

    def follow(self, state: State) -> bool:
        """Add the change from the newest state to this one; return False if no result is known to hold any longer."""
        before, generation = self.seen, state.generation
        if not before.has_same_owner(state):
            return False
        if before.is_of(generation):
            return True
        change = changed_queries(before.memory, generation.memory) if before.has_same_documents(generation) else None
        if change is None or len(change) > MOST_CHANGED:
            return False
        self.seen = _Seen(state)
        self.changes.append(change)
        self.position += 1
        self.changed += len(change)
        while self.changed > MOST_CHANGED or len(self.changes) > MOST_CHANGED:
            self.changed -= len(self.changes.popleft())
        return True

    def holds(self, result: Result, since: int) -> bool:
        """Return whether no change after the first `since` changes concerns a result."""
        missed = self.position - since
        if not missed:
            return True
        if missed > len(self.changes):
            return False
        changes = merged(list(self.changes)[-missed:])
        return not changes.concern(result.bare_keys, result.vectors, MEMORY_RADIUS)


@dataclass(frozen=True, eq=False)
class Moment:
    """The state of a collection at the begin of a search."""

    state: State
    history: _History
    position: int


class ResultCache:
    """The results of all collections of a process. Results that were used last are kept; 0 bytes keep none."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.size_bytes = 0
        self._lock = threading.Lock()
        self._histories: dict[int, tuple[weakref.ref[ServedCollection], _History]] = {}
        """The number of a collection object -> the object and its history."""
        self._gone: deque[int] = deque()
        """The numbers of collection objects that exist no more."""
        self._entries: OrderedDict[tuple[_History, Hashable], tuple[Result, int]] = OrderedDict()
        """Results with the number of changes up to which they are known to hold."""

    def __len__(self) -> int:
        return len(self._entries)

    def moment(self, collection: ServedCollection) -> Moment:
        """Return the state of a collection now. What no longer holds is dropped."""
        with self._lock:  # the state is read inside, so that states are followed in their order
            state = State.of(collection)
            self._drop_gone()
            number = id(collection)
            if number not in self._histories:
                known = weakref.ref(collection, lambda _: self._gone.append(number))  # no lock: it may run anywhere
                self._histories[number] = known, _History(_Seen(state))
            known, history = self._histories[number]
            if not history.follow(state):
                self._end(history)
                history = _History(_Seen(state))
                self._histories[number] = known, history
            return Moment(state, history, history.position)

    def find(self, moment: Moment, key: Hashable) -> Any | None:
        """Return what is kept under a key, None if nothing is, or if it no longer holds.

        It holds in the state of the moment, and in the states that other searches have seen since.
        """
        entry = moment.history, key
        with self._lock:
            found = self._entries.get(entry)
            if found is None:
                return None
            result, since = found
            if not moment.history.holds(result, since):
                self._remove(entry)
                return None
            self._entries[entry] = result, moment.history.position
            self._entries.move_to_end(entry)
            return result.value

    def add(self, moment: Moment, key: Hashable, result: Result) -> None:
        """Keep a result that was computed from the state of a moment."""
        entry, history = (moment.history, key), moment.history
        if result.size_bytes > self.most_bytes * MOST_SHARE:
            return
        with self._lock:
            if history.is_over:
                return
            if entry in self._entries:
                self._remove(entry)
            self._entries[entry] = result, moment.position
            history.keys.add(key)
            self.size_bytes += result.size_bytes
            while self.size_bytes > self.most_bytes:
                self._remove(next(iter(self._entries)))

    def clear(self) -> None:
        """Drop all results, with the texts of their queries."""
        with self._lock:
            for _, history in self._histories.values():
                self._end(history)
            self._histories.clear()
            self._gone.clear()

    def _drop_gone(self) -> None:
        """Drop the results of collections that were deleted or loaded anew."""
        while self._gone:
            number = self._gone.popleft()
            entry = self._histories.get(number)
            if entry is not None and entry[0]() is None:
                self._end(entry[1])
                del self._histories[number]

    def _end(self, history: _History) -> None:
        history.is_over = True
        for key in list(history.keys):
            self._remove((history, key))

    def _remove(self, entry: tuple[_History, Hashable]) -> None:
        result, _ = self._entries.pop(entry)
        entry[0].keys.discard(entry[1])
        self.size_bytes -= result.size_bytes
