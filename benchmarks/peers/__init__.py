"""Other ways to learn from the same judgments, each in a file and a process of its own.

A peer learns from train queries with their grades, and then ranks the whole collection for the test queries, whose
grades never reach it (benchmarks/peers/material.py). What a peer chooses, it chooses inside the train queries.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from benchmarks.peers.material import Material
from index.records import Ints

DEPTH = 100
"""Documents that a peer returns per query."""


@dataclass(frozen=True)
class Task:
    """What a peer is given besides the material: a seed, the encoder's name, and a limit for fine-tuning.

    fine_tuning_pairs: most pairs per epoch, 0 for all of them.
    """

    seed: int = 0
    encoder: str = ""
    fine_tuning_pairs: int = 1000


class Peer(Protocol):
    """What every peer does, in this order. The first two are timed: together they are the seconds until it is live."""

    def __init__(self, material: Material, task: Task) -> None: ...

    def learn(self) -> dict[str, Any]:
        """Fit on the train queries; return what was chosen, for the report."""
        ...

    def publish(self) -> None:
        """Do what has to be done to the collection before the first search, such as embedding it anew."""
        ...

    def rank(self) -> dict[str, Ints]:
        """Return system -> places of documents (S, DEPTH) for the S test queries, best first."""
        ...


@dataclass(frozen=True)
class Listed:
    """A peer by name: its class, the systems that it reports, whether a seed moves it, whether it learns, threads."""

    where: str
    """module:class"""
    systems: tuple[str, ...]
    seeded: bool
    learns: bool = True
    threads: int = 1


PEERS = {
    "bm25s": Listed("words:Words", ("bm25s",), seeded=False, learns=False),
    "lambdamart": Listed("lambdamart:LambdaMart", ("lambdamart",), seeded=True),
    "lambdamart-sequence": Listed("lambdamart:InSequence", ("lambdamart-sequence",), seeded=True),
    "lambdamart-uncounted": Listed("lambdamart:Uncounted", ("lambdamart-uncounted",), seeded=True),
    "adapter": Listed("adapter:Adapter", ("adapter",), seeded=True),
    "kernel": Listed("kernel:Kernel", ("kernel",), seeded=False),
    "fine-tuning": Listed("fine_tuning:FineTuning", ("fine-tuned", "fine-tuned + words"), seeded=True, threads=2),
}
