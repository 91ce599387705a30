"""Other ways to learn from the same judgments, each in a separate file and process.

A peer learns from train queries with their grades, and then ranks the whole collection for the test queries. It never
sees the grades of test queries (benchmarks/peers/material.py), and makes its choices within the train queries.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from benchmarks.peers.material import Material
from index.records import Ints

DEPTH = 100
"""Number of documents that a peer returns per query."""


@dataclass(frozen=True)
class Task:
    """The parameters of a peer: a seed, the encoder's name, and a limit for fine-tuning.

    fine_tuning_pairs: maximum number of pairs per epoch, 0 for all.
    """

    seed: int = 0
    encoder: str = ""
    fine_tuning_pairs: int = 1000


class Peer(Protocol):
    """The steps of a peer, in this order. The time of `learn` and `publish` is the time until it is live."""

    def __init__(self, material: Material, task: Task) -> None: ...

    def learn(self) -> dict[str, Any]:
        """Fit on the train queries; return the choices, for the report."""
        ...

    def publish(self) -> None:
        """Prepare the collection for the first search, for example encode it anew."""
        ...

    def rank(self) -> dict[str, Ints]:
        """Return system -> doc indices (S, DEPTH) for the S test queries, best first."""
        ...


@dataclass(frozen=True)
class Listed:
    """A registered peer: its class, its systems, whether it depends on a seed, whether it learns, its threads."""

    where: str
    """module:class"""
    systems: tuple[str, ...]
    seeded: bool
    learns: bool = True
    threads: int = 1


PEERS = {
    "bm25s": Listed("bm25_library:Bm25Library", ("bm25s",), seeded=False, learns=False),
    "lambdamart": Listed("lambdamart:LambdaMart", ("lambdamart",), seeded=True),
    "lambdamart-sequence": Listed("lambdamart:InSequence", ("lambdamart-sequence",), seeded=True),
    "lambdamart-uncounted": Listed("lambdamart:Uncounted", ("lambdamart-uncounted",), seeded=True),
    "adapter": Listed("adapter:Adapter", ("adapter",), seeded=True),
    "kernel": Listed("kernel:Kernel", ("kernel",), seeded=False),
    "fine-tuning": Listed("fine_tuning:FineTuning", ("fine-tuned", "fine-tuned + words"), seeded=True, threads=2),
}
