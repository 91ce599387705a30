"""The mix of requests of `benchmarks.mixed`: draws a request, and reads its answer. Sends nothing and knows no time.

The number of documents stays the same on average: as many new documents are put as are deleted, and only documents that
the mix itself put, and the service confirmed, are deleted. Clicks are on documents of the topic of the query, at the
`query_id` of a logged search, without its text: an event is rejected if the service lost the search.
"""

import json
import random
from collections import Counter, deque
from datetime import UTC, datetime
from typing import Any, NamedTuple

from benchmarks.made_texts import document, query, topic_of
from benchmarks.servers.http1 import request

COLLECTION = "/v1/collections/default"
SHARES = {"search": 0.9, "put": 0.02, "batch": 0.005, "delete": 0.03, "events": 0.045}
"""Kind -> its share of the requests. Half of the puts replace a document. A batch has BATCH new documents."""
BATCH = 4
POOL = 400
"""Queries that come again and again, in every second search. Clicks are on them alone, so that memory has a bound."""
CLIENTS = 20
NOISE = 0.1
"""Share of the clicks on a document of any topic."""
MOST_WAITING = 50
"""Searches that wait for a click, at most. The bodies of further answers are not read."""


class Wanted(NamedTuple):
    """A request: its kind, its bytes, and what its answer concerns (ids of documents, or the topic of a query)."""

    kind: str
    content: bytes
    about: Any = None


class Mix:
    """Draws requests by SHARES. `documents` is the number of documents that stay; ids of others begin with `name`."""

    def __init__(self, seed: int, documents: int, name: str = "new") -> None:
        self.seed = seed
        self.accepted = 0
        self.rejections: Counter[str] = Counter()
        self._rng = random.Random(seed)
        self._documents = documents
        self._pool = [query(random.Random(number)) for number in range(POOL)]
        self._name = name
        self._made = 0
        self._own: deque[str] = deque()
        self._clicks: deque[dict[str, Any]] = deque()

    def next(self) -> Wanted:
        """Return the next request. Where nothing can be deleted or clicked yet, it is a put or a search."""
        (kind,) = self._rng.choices(list(SHARES), list(SHARES.values()))
        if kind == "delete" and not self._own:
            kind = "put"
        if kind == "events" and not self._clicks:
            kind = "search"
        wanted: Wanted = getattr(self, kind)()
        return wanted

    def search(self) -> Wanted:
        """Return a search: every second one is of the pool, and may be clicked."""
        text, topic = self._rng.choice(self._pool) if self._rng.random() < 0.5 else (query(self._rng)[0], None)
        client = f"client {self._rng.randrange(CLIENTS)}"
        content = {"q": text, "client_id": client, "fields": ["title"]}
        return Wanted("search", request("POST", f"{COLLECTION}/search", content), topic and (topic, client))

    def put(self) -> Wanted:
        """Return a put of a new document, or of one that is replaced."""
        is_new = self._rng.random() < 0.5
        made = self._new() if is_new else document(self._rng, self._rng.randrange(self._documents))
        return Wanted("put", request("PUT", f"{COLLECTION}/documents/{made['id']}", made), [made["id"]] * is_new)

    def batch(self) -> Wanted:
        """Return a post of a few new documents."""
        made = [self._new() for _ in range(BATCH)]
        content = request("POST", f"{COLLECTION}/documents?wait=60", {"documents": made})
        return Wanted("batch", content, [one["id"] for one in made])

    def delete(self) -> Wanted:
        """Return the deletion of the oldest document of the mix."""
        return Wanted("delete", request("DELETE", f"{COLLECTION}/documents/{self._own.popleft()}"))

    def events(self) -> Wanted:
        """Return the click of a search that was answered."""
        return Wanted("events", request("POST", f"{COLLECTION}/events", self._clicks.popleft()))

    def see(self, wanted: Wanted, status: int, body: bytes) -> None:
        """Note what an answer makes possible: documents to delete, searches to click; and count events."""
        if wanted.kind in ("put", "batch") and status in (200, 201):
            self._own.extend(wanted.about)
        elif wanted.kind == "search" and status == 200 and wanted.about and len(self._clicks) < MOST_WAITING:
            self._look(json.loads(body), *wanted.about)
        elif wanted.kind == "events" and status == 202:
            answer = json.loads(body)
            self.accepted += answer["accepted"]
            self.rejections.update(one["code"] for one in answer["rejected"])

    def _look(self, answer: dict[str, Any], topic: str, client: str) -> None:
        """Note the click on the first hit of the topic; a share of the clicks is on any hit."""
        ids = [hit["id"] for hit in answer["hits"]]
        wanted = ids if self._rng.random() < NOISE else [one for one in ids if topic_of(one) == topic]
        if wanted:
            clicked = wanted[0] if wanted is not ids else self._rng.choice(ids)
            attributes = {"object": {"object_id": clicked}, "position": {"ordinal": ids.index(clicked) + 1}}
            stamp = datetime.now(UTC).isoformat()
            about = {"query_id": answer["query_id"], "client_id": client, "timestamp": stamp}
            self._clicks.append({"action_name": "click", **about, "event_attributes": attributes})

    def _new(self) -> dict[str, Any]:
        self._made += 1
        return document(self._rng, self._made, self._name)
