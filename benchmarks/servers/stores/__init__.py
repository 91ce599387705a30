"""Vector stores behind one small contract, each in a file that only the environment of that store can import."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

DIM = 384
"""Numbers in a vector of all-MiniLM-L6-v2."""


@dataclass(frozen=True)
class Backend:
    """What is started once for all workers: where they find it, and how it is stopped."""

    address: str
    stop: Callable[[], None]


class Store(Protocol):
    """What a worker asks of a store. `serve(folder)` beside it starts the Backend that its address is of."""

    def __init__(self, address: str, model: str) -> None: ...

    def add(self, ids: list[str], texts: list[str], vectors: Sequence[Any] | None) -> None:
        """Take documents in; where vectors (n, DIM) are given, they are those that it would have made."""
        ...

    def settle(self) -> None:
        """Do what its users do once after a bulk load: compact, flush, build an index."""
        ...

    def search(self, text: str, limit: int) -> list[dict[str, Any]]:
        """Return hits with id, text and score, best first."""
        ...
