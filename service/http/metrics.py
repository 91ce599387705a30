"""The Prometheus metrics of the service."""

import json
import time
from collections import Counter as Sum
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import Metric

REGISTRY = CollectorRegistry()
SEARCH_SECONDS = Histogram(
    "softseek_search_seconds",
    "Time from the arrival of a search to its answer.",
    ["mode"],
    registry=REGISTRY,
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
)
REQUESTS = Counter("softseek_requests_total", "Requests answered, by status class.", ["status"], registry=REGISTRY)

ENDS = ("", "_bucket", "_count", "_sum", "_total")
"""What the name of a sample has after the name of its metric."""


@contextmanager
def observed_search(mode: str) -> Iterator[None]:
    """Count a search with its seconds when the block ends without an exception.

    A search that fails, that its client leaves or that a worker passes on is not counted: another process answers it.
    """
    started = time.perf_counter()
    yield
    SEARCH_SECONDS.labels(mode=mode).observe(time.perf_counter() - started)


def samples() -> dict[str, float]:
    """Return the counts of this process: name and labels, as JSON -> number."""
    return {
        json.dumps([sample.name, sample.labels]): sample.value
        for family in REGISTRY.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def exposition(others: Iterable[Mapping[str, float]]) -> bytes:
    """Return the metrics in the text format of Prometheus, with the `samples` of other processes added."""
    total: Sum[str] = Sum()
    for counts in (samples(), *others):
        total.update(counts)
    registry = CollectorRegistry()
    registry.register(_Total(total))
    return generate_latest(registry)


class _Total:
    """A collector of the sums of all processes."""

    def __init__(self, total: Mapping[str, float]) -> None:
        self._total = [(*json.loads(key), value) for key, value in total.items()]

    def collect(self) -> Iterator[Metric]:
        for family in REGISTRY.collect():
            found = Metric(family.name, family.documentation, family.type)
            names = {family.name + end for end in ENDS}
            for name, labels, value in self._total:
                if name in names:
                    found.add_sample(name, labels, value)
            yield found
