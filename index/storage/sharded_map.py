"""A persistent map with texts as keys: a changed map shares all shards that the change does not concern."""

from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

SHARDS = 1024
"""A change of one text copies about 1 / SHARDS of the map."""
NOTHING: dict[str, Any] = {}
V = TypeVar("V")


class ShardedMap(Mapping[str, V], Generic[V]):
    """An immutable map in SHARDS dicts. A map that is being read never changes."""

    def __init__(self, shards: tuple[dict[str, V], ...] = (NOTHING,) * SHARDS, count: int = 0) -> None:
        self._shards = shards
        self._count = count

    def __getitem__(self, text: str) -> V:
        return self._shards[hash(text) % SHARDS][text]

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        for shard in self._shards:
            yield from shard

    def changed(self, values: Mapping[str, V | None]) -> "ShardedMap[V]":
        """Return a map with these values; None removes a text."""
        shards, copied, count = list(self._shards), dict[int, dict[str, V]](), self._count
        for text, value in values.items():
            at = hash(text) % SHARDS
            shard = copied.get(at)
            if shard is None:
                shard = shards[at] = copied[at] = dict(shards[at])
            count -= len(shard)
            if value is None:
                shard.pop(text, None)
            else:
                shard[text] = value
            count += len(shard)
        return ShardedMap(tuple(shards), count)
