"""What is the result cache worth? Searches of which some repeat, with and without clicks, with and without the cache.

    python -m benchmarks.repeated_searches --data ../shared/data --out benchmarks/results/repeated_searches.json

10,000 documents of two sets, as in `benchmarks.workers`, and the converted encoder. Clients search in a closed loop. A
share of the searches has one of HEAD texts, drawn with a frequency of 1 / rank, like frequent queries of a search box;
the others have new texts, made of halves of two queries. A click follows a share of the searches, sent by the next
free client. It is on one of the first hits of that text, for new texts of another text, and memory learns it. Loads
with the cache and without it take turns, each in a service of its own on a copy of the same directory.
"""

import argparse
import json
import random
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.repeated_tables import loads
from benchmarks.result_file import add_out, publish
from benchmarks.servers.http1 import request
from benchmarks.servers.load import Asked, ask
from benchmarks.service_process import ServiceProcess, started
from benchmarks.vectors import CACHE
from benchmarks.workers import (
    DATA,
    FACTS,
    SEARCH,
    new_text,
    processor_seconds_of_each,
    wait_until_ready,
    write_prepared,
)
from service.settings import Settings
from service.storage.database import ENCODERS

EVENTS = "/v1/collections/default/events"
HEAD = 500
"""Texts of repeated searches."""
FIRST_HITS = 3
"""Hits of which one is clicked."""
MOST_PER_SECOND = 6_000
CACHE_MIB = Settings.model_fields["result_cache_mib"].default


@dataclass(frozen=True)
class Mix:
    """repeated: the share of the searches that have one of HEAD texts. clicks: for each search."""

    repeated: float
    clicks: float


MIXES = [Mix(0.0, 0.0), *(Mix(repeated, clicks) for repeated in (0.5, 0.9) for clicks in (0.0, 0.1, 0.3))]


def main() -> None:
    """Measure; print a table and a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with one folder per test set")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=15, help="duration of each load")
    parser.add_argument("--repeats", type=int, default=2)
    add_out(parser)
    options = parser.parse_args()
    found: dict[tuple[Mix, int], list[dict[str, float]]] = {(mix, mib): [] for mix in MIXES for mib in (0, CACHE_MIB)}
    with tempfile.TemporaryDirectory() as temporary:
        prepared = Path(temporary) / "prepared"
        write_prepared(prepared, options.data, None)
        shutil.copytree(CACHE / ENCODERS, prepared / DATA / ENCODERS, dirs_exist_ok=True)  # not converted for each load
        facts = json.loads((prepared / FACTS).read_text())
        for repeat in range(options.repeats):
            for mix in MIXES:
                for mib in (0, CACHE_MIB) if repeat % 2 == 0 else (CACHE_MIB, 0):
                    data = Path(temporary) / "copy"
                    shutil.copytree(prepared / DATA, data)
                    arguments = ("--port", "0", "--workers", str(options.processes))
                    with started(data, None, Path(temporary) / "log", *arguments, cache_mib=mib) as service:
                        port = service.port()
                        wait_until_ready(port, options.processes)
                        load = Load(service, port, facts["texts"], mix, random.Random(f"{repeat} {mix}"))
                        found[mix, mib].append(load.measured(options.clients, options.seconds))
                    shutil.rmtree(data)
    figures = {
        "documents": facts["documents"],
        "clients": options.clients,
        "processes": options.processes,
        "head": HEAD,
        "cache_mib": CACHE_MIB,
        "loads": [
            {"repeated": mix.repeated, "clicks": mix.clicks, "cache_mib": mib, "runs": runs}
            for (mix, mib), runs in found.items()
        ],
    }
    print(loads(figures))
    publish(figures, [], options.out)


class Load:
    """A load on a service. It is made before the clients start."""

    def __init__(self, service: ServiceProcess, port: int, texts: Sequence[str], mix: Mix, rng: random.Random) -> None:
        self._service, self._port, self._mix, self._rng = service, port, mix, rng
        self._texts = texts
        self._head = rng.sample(list(texts), HEAD)
        self._weights = list(accumulate(1 / rank for rank in range(1, HEAD + 1)))

    def measured(self, clients: int, seconds: float) -> dict[str, float]:
        """Return the figures of the load."""
        first = ask(self._port, [request("POST", SEARCH, {"q": text, "log": False}) for text in self._head], 1, 600)
        hits = {
            self._head[one.place]: [hit["id"] for hit in json.loads(one.body)["hits"][:FIRST_HITS]]
            for one in first.asked
        }
        requests, is_search = self._requests(hits, int(MOST_PER_SECOND * seconds))
        before = sum(processor_seconds_of_each(self._service))
        found = ask(self._port, requests, clients, seconds)
        spent = sum(processor_seconds_of_each(self._service)) - before
        assert {one.status for one in found.asked} <= {200, 202}, {one.status for one in found.asked}
        searches = [one for one in found.asked if is_search[one.place]]
        milliseconds = np.asarray([1000 * one.seconds for one in searches])
        return {
            "searches_per_second": len(searches) / found.seconds,
            "p50_ms": float(np.percentile(milliseconds, 50)),
            "p99_ms": float(np.percentile(milliseconds, 99)),
            "processor_ms": 1000 * spent / len(searches),
            "cached": sum(map(_is_cached, searches)) / len(searches),
        }

    def _requests(self, hits: dict[str, list[str]], count: int) -> tuple[list[bytes], list[bool]]:
        """Return requests, and which of them are searches. A click follows its search."""
        requests, is_search = [], []
        while len(requests) < count:
            is_repeated = self._rng.random() < self._mix.repeated
            if is_repeated:
                (text,) = self._rng.choices(self._head, cum_weights=self._weights)
            else:
                text = new_text(self._texts, self._rng)
            requests.append(request("POST", SEARCH, {"q": text}))
            is_search.append(True)
            if self._rng.random() < self._mix.clicks:
                clicked = hits[text] if is_repeated else hits[self._rng.choice(self._head)]
                requests.append(request("POST", EVENTS, self._click(text, self._rng.choice(clicked))))
                is_search.append(False)
        return requests, is_search

    def _click(self, text: str, document: str) -> dict[str, Any]:
        return {
            "action_name": "click",
            "user_query": text,
            "client_id": f"client {self._rng.randrange(10**6)}",
            "event_attributes": {"object": {"object_id": document, "object_id_field": "id"}},
        }


def _is_cached(one: Asked) -> bool:
    return b'"cache":' in one.body[-400:]


if __name__ == "__main__":
    main()
