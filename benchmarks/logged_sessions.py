"""Sessions of the shop, read from a log of searches and clicks by `session_id`.

A customer with one purpose searches SEARCHES times and clicks (benchmarks/session_context.py). The service logs the
searches and the clicks, and its own reader (service/runtime/session_log.py) gives the documents of each session in the
order of time. Sessions with fewer than two documents are left out.
"""

from collections.abc import Sequence

import numpy as np

from benchmarks.session_context import SHOP_SEED, simulate
from benchmarks.shop import products
from service.runtime.collection import CollectionState
from service.runtime.feedback_log import read_sessions
from service.runtime.runtime import Runtime


def logged_sessions(
    runtime: Runtime, state: CollectionState, count: int, random: np.random.Generator
) -> list[tuple[int, ...]]:
    """Log the sessions of `count` customers of the shop; return the doc indices of each, in the order of the customers.

    The collection holds the shop.
    """
    catalogue = {one.id: one for one in products(np.random.default_rng(SHOP_SEED))}
    names = [f"session {number}" for number in range(count)]
    for name in names:
        simulate(runtime, state, catalogue, name, lasting=True, random=random)
    runtime.impressions.flush()
    return read_back(runtime, state, names)


def read_back(runtime: Runtime, state: CollectionState, names: Sequence[str]) -> list[tuple[int, ...]]:
    """Return the doc indices of the sessions with these ids that have at least two documents."""
    with runtime.database.read() as connection:
        log = read_sessions(connection, state.id)
    doc_index = {row: at for at, row in enumerate(state.generation.rows.tolist())}
    sessions = (tuple(doc_index[row] for row in log.documents(name)) for name in names)
    return [one for one in sessions if len(one) > 1]
