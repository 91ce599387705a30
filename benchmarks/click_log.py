"""A log of simulated searchers in a service: impressions, clicks, and the grades that peers get from the clicks.

The untrained service ranks the train queries, without memory or with the memory of the clicks before. Simulated
searchers (benchmarks/simulator.py) see lists of ten, of popular queries more often. In a share of the lists documents
change ranks, as they do when an index grows or a model is replaced. The clicks are posted as events. The same seed
gives the same log, however many parts it grows in.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from typing import Any

import numpy as np
from sqlalchemy import insert

from benchmarks.collections import BATCH, TestSet, document_ids
from benchmarks.ours import MAX_QUERY_CHARACTERS
from benchmarks.simulator import Impression, Searchers, simulate
from index.learning.click_model import estimate_clicks, held_out_gains
from index.learning.examples import Feedback
from index.memory.query_key import as_query_key
from index.ranking.retrieval import Query as Asked
from index.ranking.search import search
from index.records import Floats
from service.feedback.actions import take_events
from service.runtime.collection import CollectionState
from service.runtime.runtime import Runtime
from service.storage.database import first_id, rfc3339
from service.storage.tables import QUERIES

SHOWN = 10
DEPTH = 15
"""Number of best documents of a query that a shuffled list draws from."""
SHUFFLE = 2.0
"""Standard deviation of the noise that a shuffled list adds to each rank."""
DRAWN = 1000
"""Number of queries in a draw."""
Grades = dict[str, dict[int, int]]
"""Query key -> row of a document -> grade; 0 for a document that was shown and is not relevant."""


@dataclass(frozen=True)
class Traffic:
    """The searchers, the popularity of queries, and the shuffling of lists."""

    searchers: Searchers = field(default_factory=Searchers)
    shuffled: float = 0.3
    """Share of the lists in which documents change ranks."""
    popularity: float = 1.0
    """Exponent of the Zipf law of query popularity."""
    remembers: bool = False
    """Whether lists follow the clicks before, as those of a live service do."""


class ClickLog:
    """A log that grows in a collection of a service."""

    def __init__(self, runtime: Runtime, state: CollectionState, one: TestSet, traffic: Traffic, seed: int) -> None:
        self._runtime, self._state, self._one, self._traffic = runtime, state, one, traffic
        self._untrained = (state.generation, state.serving.head, document_ids(runtime, state))  # without memory
        self._vectors: dict[str, Floats] = {}
        self._impressions = self._shown(np.random.default_rng(seed))
        self._acts = np.random.default_rng([seed, 1])
        self._first = datetime.now(UTC) - timedelta(days=1)
        self._qrels = {one.queries[query]: grades for query, grades in one.train.items()}
        self._best = max(grade for grades in one.train.values() for grade in grades.values())
        self.size, self.clicks = 0, 0

    def grow(self, size: int) -> None:
        """Show lists and post the clicks of searchers, until there are `size` impressions."""
        while self.size < size:  # a list that follows clicks needs the clicks on the list before
            part = list(islice(self._impressions, 1 if self._traffic.remembers else min(BATCH, size - self.size)))
            with self._runtime.database.write() as connection:
                rows = [_row(self._state, each, self._time(at)) for at, each in enumerate(part, self.size)]
                connection.execute(insert(QUERIES), rows)
            events = list(simulate(self._traffic.searchers, part, self._qrels, self._acts, self._best))
            for start in range(0, len(events), BATCH):
                taken = take_events(self._runtime, self._state, events[start : start + BATCH])
                assert not taken["rejected"], taken["rejected"][:3]
            self.size += len(part)
            self.clicks += len(events)

    def _time(self, number: int) -> datetime:
        """Return the time of an impression. All differ, because lists are read in the order of time."""
        return self._first + timedelta(milliseconds=number)

    def _shown(self, random: np.random.Generator) -> Iterator[Impression]:
        """Yield lists of the service: queries by popularity, some lists shuffled."""
        one, traffic = self._one, self._traffic
        texts = [one.queries[query] for query in sorted(one.train)]
        texts = [text for text in texts if len(text) <= MAX_QUERY_CHARACTERS]
        order = random.permutation(len(texts))
        popularity = np.arange(1, len(texts) + 1) ** -traffic.popularity
        ranked: dict[int, list[str]] = {}
        ids = (first_id(self._time(number)) for number in count())
        while True:
            for at in order[random.choice(len(texts), DRAWN, p=popularity / popularity.sum())].tolist():
                if at not in ranked or traffic.remembers:
                    ranked[at] = self._best_of(texts[at])
                ranks = np.arange(len(ranked[at]), dtype=np.float64)
                if random.random() < traffic.shuffled:
                    ranks += SHUFFLE * random.normal(size=len(ranks))
                shown = [ranked[at][rank] for rank in np.argsort(ranks, kind="stable")[:SHOWN]]
                yield Impression(next(ids), texts[at], shown)

    def _best_of(self, text: str) -> list[str]:
        """Return the best documents of a query: at the start of the log, or now if lists follow clicks."""
        generation, head, ids = self._untrained
        if self._traffic.remembers:
            generation = self._state.generation
        if text not in self._vectors:
            self._vectors[text] = self._runtime.encoder.encode_queries([text])[0]
        ranking = search(generation, head, Asked(text, self._vectors[text]))
        return [ids[row] for row in generation.rows[ranking.doc_indices[:DEPTH]].tolist()]


def _row(state: CollectionState, one: Impression, time: datetime) -> dict[str, Any]:
    shown = [{"id": name, "position": p, "logit": 0.0, "score": 0.0} for p, name in enumerate(one.documents, 1)]
    return {
        "query_id": one.query_id,
        "collection_id": state.id,
        "text": one.text,
        "query_key": as_query_key(one.text),
        "client_id": None,
        "session_id": None,
        "request": {},
        "shown": shown,
        "null_weight": 0.0,
        "model_version": 0,
        "generation": state.generation.watermark,
        "created_at": rfc3339(time),
    }


def graded(feedback: Sequence[Feedback]) -> Grades:
    """Return the grades of our click model (`index.learning.click_model`)."""
    model = estimate_clicks(feedback)
    return {one.query_key: held_out_gains(one, model) for one in feedback}


def naive(feedback: Sequence[Feedback]) -> Grades:
    """Return grade 1 for every document that was clicked for the query, the usual choice without a click model."""
    shown = {one.query_key: dict.fromkeys(one.shown or {}, 0) for one in feedback}
    return {
        one.query_key: shown[one.query_key] | {row: 1 for row, gain in one.gains.items() if gain > 0}
        for one in feedback
    }


PEER_INTERPRETATIONS: dict[str, Callable[[Sequence[Feedback]], Grades]] = {"graded": graded, "naive": naive}
"""The click interpretations for peers, which need grades."""


def as_judged(one: TestSet, grades: Grades, ids: Mapping[int, str]) -> TestSet:
    """Return the set with these grades instead of the judgments, restricted to train queries with a positive grade."""
    queries = {as_query_key(one.queries[query]): query for query in sorted(one.train, reverse=True)}
    train = {
        queries[query_key]: {ids[row]: grade for row, grade in listed.items()}
        for query_key, listed in grades.items()
        if any(grade > 0 for grade in listed.values())
    }
    return replace(one, train=train)
