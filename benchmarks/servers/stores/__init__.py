"""Vector stores behind a small contract, each in a file that only the environment of the store can import."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

DIM = 384
"""Width of a vector of all-MiniLM-L6-v2."""


@dataclass(frozen=True)
class Backend:
    """A process that all workers share: its address, and a function that stops it."""

    address: str
    stop: Callable[[], None]


class Store(Protocol):
    """The contract of a store. `serve(folder)` in the same file starts the Backend with its address."""

    def __init__(self, address: str, model: str) -> None: ...

    def add(self, ids: list[str], texts: list[str], vectors: Sequence[Any] | None) -> None:
        """Add documents. vectors (n, DIM): precomputed vectors of the texts, or None."""
        ...

    def settle(self) -> None:
        """Finish a bulk load: compact, flush, build an index."""
        ...

    def search(self, text: str, limit: int) -> list[dict[str, Any]]:
        """Return hits with id, text and score, best first."""
        ...
