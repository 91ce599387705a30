"""The searches of the shop's customers: seen queries, of which the log consists, and the future queries of the test."""

from typing import ClassVar

import numpy as np

from benchmarks.collections import TestSet
from benchmarks.shop import grades, products, wishes

SEEN = 400
"""Number of query texts that the log draws from, by popularity."""
TESTED = 200
"""Number of test queries that the log draws from, and of test queries that it never draws."""


class Repeats:
    """A shop as a test set: the train queries are the seen ones, the test queries are seen and unseen ones."""

    SEEN_PREFIX: ClassVar[str] = "seen-"

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        catalogue = products(random)
        wanted = wishes(catalogue, random)
        texts = list(wanted)
        qrels = {text: grades(wanted[text], catalogue) for text in texts[: SEEN + TESTED]}
        train = {f"train-{at:04d}": text for at, text in enumerate(texts[:SEEN])}
        chosen = sorted(random.choice(SEEN, TESTED, replace=False).tolist())
        seen = {f"{self.SEEN_PREFIX}{at:04d}": texts[at] for at in chosen}
        unseen = {f"unseen-{at:04d}": text for at, text in enumerate(texts[SEEN : SEEN + TESTED])}
        queries = train | seen | unseen
        documents = [one.as_document() for one in catalogue]
        self.set = TestSet(
            "shop",
            documents,
            queries,
            {query: qrels[text] for query, text in train.items()},
            {query: qrels[text] for query, text in (seen | unseen).items()},
        )
