"""Whether training learns to use the context of a session: simulated sessions of the shop.

    python -m benchmarks.session_context --out benchmarks/results/session_context.json

A customer shops for a purpose, such as camping (benchmarks/carts.py). The first search of a session names a kind of
product that serves the purpose. The later searches name two of brand, series and colour, and the customer wants
products of all kinds that serve the purpose. Each search is a search of the service with a session_id, and is logged.
The customer looks at position p with probability 1 / sqrt(p), and clicks a product that meets the query with
probability WANTED if its kind serves the purpose, else OTHER. In the log `one purpose`, the purpose lasts for the
session, so that earlier clicks show the wish of the customer. In the log `other purposes`, it changes with every
search. Reported are the choice of a training run and its gain on held-out queries. Vectors come from a cache after the
first run (benchmarks/vectors.py).
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.carts import PURPOSES
from benchmarks.collections import opened
from benchmarks.result_file import add_out, publish
from benchmarks.shop import BRANDS, COLOURS, LINES, Product, products, shop
from benchmarks.vectors import CachedEncoder, converted_encoder
from benchmarks.workbench import finished, on_one_thread
from index.encoding.encoder import Encoder
from index.learning.config import FitConfig
from index.learning.fit import fit
from service.feedback.actions import take_events
from service.runtime.collection import CollectionState
from service.runtime.feedback_log import gather_feedback
from service.runtime.runtime import Runtime
from service.search.actions import answer
from service.search.schemas import SearchIn
from service.settings import Settings

SHOP_SEED = 0
SEARCHES = 3
"""Searches of a session."""
WANTED, OTHER = 0.8, 0.05
CONFIG = FitConfig(recipes=("initial", "weights"), hops=(), trees=(), priors=())


def main() -> None:
    """Run the benchmark; print the figures, and one last line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sessions", type=int, default=400)
    parser.add_argument("--seeds", default="0", help="comma-separated")
    add_out(parser)
    options = parser.parse_args()
    on_one_thread()
    encoder = CachedEncoder(converted_encoder(Settings().encoder))
    seeds = [int(seed) for seed in options.seeds.split(",")]
    logs = {
        name: [trained(encoder, options.sessions, name == "one purpose", seed) for seed in seeds]
        for name in ("one purpose", "other purposes")
    }
    figures = {"sessions": options.sessions, "logs": logs}
    Console(width=140).print_json(data=figures)
    publish(figures, seeds, options.out)


def trained(encoder: Encoder, sessions: int, lasting: bool, seed: int) -> dict[str, Any]:
    """Return the choice of a training run on the log of these sessions. lasting: whether a purpose lasts a session."""
    random = np.random.default_rng(seed)
    catalogue = {one.id: one for one in products(np.random.default_rng(SHOP_SEED))}
    with opened(shop(SHOP_SEED), encoder, ("title", "passage")) as (runtime, state):
        for number in range(sessions):
            simulate(runtime, state, catalogue, f"session {number}", lasting, random)
        runtime.impressions.flush()
        with runtime.database.read() as connection:
            feedback = gather_feedback(connection, state.id)
        fitted, _ = finished(fit(state.generation, feedback, state.serving.head, CONFIG))
    context = fitted.report["context"]
    held_out = context["held_out"]
    return {
        "lists": sum(len(one.contexts) for one in feedback),
        "chosen": context["chosen"],
        "tried": context["tried"],
        "queries": context["queries"],
        "held_out_queries": held_out["queries"] if held_out else 0,
        "gain": [round(held_out[name], 4) for name in ("difference", "low", "high")] if held_out else None,
    }


def simulate(
    runtime: Runtime,
    state: CollectionState,
    catalogue: Mapping[str, Product],
    session: str,
    lasting: bool,
    random: np.random.Generator,
) -> None:
    """Log the searches and clicks of a session."""
    names = list(PURPOSES)
    purpose = names[int(random.integers(len(names)))]
    for number in range(SEARCHES):
        purpose = purpose if lasting else names[int(random.integers(len(names)))]
        text, wish = _wish(purpose, random, names_kind=number == 0)
        found = answer(runtime, state, SearchIn(q=text, session_id=session, client_id=session, fields=[]))
        shown = [catalogue[hit["id"]] for hit in found["hits"]]
        for id in _clicked(shown, wish, PURPOSES[purpose], random):
            attributes = {"object": {"object_id": id, "object_id_field": "id"}}
            now = datetime.now(UTC).isoformat()
            event = {"action_name": "click", "query_id": found["query_id"], "session_id": session, "client_id": session}
            taken = take_events(runtime, state, [event | {"timestamp": now, "event_attributes": attributes}])
            assert not taken["rejected"], taken["rejected"]


def _wish(purpose: str, random: np.random.Generator, names_kind: bool) -> tuple[str, Mapping[str, str]]:
    """Return a query, and the fields of a product that meets it."""

    def drawn(values: Sequence[str]) -> str:
        return values[int(random.integers(len(values)))]

    if names_kind:
        kind = drawn(PURPOSES[purpose])
        return kind, {"kind": kind}
    fields = {"brand": drawn(BRANDS), "line": drawn(LINES), "colour": drawn(COLOURS)}
    del fields[drawn(list(fields))]
    return " ".join(fields.values()).lower(), fields


def _clicked(
    shown: Sequence[Product], wish: Mapping[str, str], kinds: Sequence[str], random: np.random.Generator
) -> Iterator[str]:
    """Yield the ids of the products that the customer clicks. kinds: the kinds that serve the purpose."""
    for position, product in enumerate(shown, 1):
        fields = {"kind": product.kind.name, "brand": product.brand, "line": product.line, "colour": product.colour}
        meets = all(fields[name] == value for name, value in wish.items())
        chance = (WANTED if product.kind.name in kinds else OTHER) if meets else 0.0
        if random.random() < chance / position**0.5:
            yield product.id


if __name__ == "__main__":
    main()
