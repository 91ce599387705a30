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
CACHED_RESULTS = Counter("softseek_cached_results_total", "Searches answered from the result cache.", registry=REGISTRY)
LOST_IMPRESSIONS = Counter(
    "softseek_lost_impressions_total", "Impressions of answered searches that could not be stored.", registry=REGISTRY
)
REQUESTS = Counter("softseek_requests_total", "Requests answered, by status class.", ["status"], registry=REGISTRY)

GAUGES = {
    "softseek_documents": "Searchable documents of a collection.",
    "softseek_newest_snapshot_timestamp_seconds": "Time of the newest snapshot in seconds since 1970, 0 without one.",
    "softseek_searcher_age_seconds": "Seconds since the last look at the database; +Inf before the first.",
    "softseek_searcher_epoch": "Epoch of the history of the database that was copied.",
    "softseek_searcher_number": "Number of the last change of the database that was copied.",
    "softseek_searcher_impressions_waiting": "Files of impressions that are not delivered to the database.",
    "softseek_searcher_partitions": "Partitions of a coordinator.",
    "softseek_searcher_partitions_away": "Partitions that do not answer a coordinator.",
}
"""The names and meanings of values that are read when the metrics are asked for."""
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


def gauge(name: str, values: Mapping[str, float | None], label: str = "") -> bytes:
    """Return one of GAUGES in the text format of Prometheus. values: value of the label -> value; None is unknown."""
    lines = [f"# HELP {name} {GAUGES[name]}", f"# TYPE {name} gauge"]
    for named, value in values.items():
        labels = f'{{{label}="{named}"}}' if label else ""
        lines.append(f"{name}{labels} {'+Inf' if value is None else value}")
    return "\n".join([*lines, ""]).encode()


def metric_names() -> set[str]:
    """Return the names of all metrics of the processes of the service."""
    families = (family.name + ("_total" if family.type == "counter" else "") for family in REGISTRY.collect())
    return {*GAUGES, *families}


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
