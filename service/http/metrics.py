"""The Prometheus metrics of the service."""

from prometheus_client import CollectorRegistry, Counter, Histogram

REGISTRY = CollectorRegistry()
SEARCH_SECONDS = Histogram(
    "softseek_search_seconds",
    "Time from the arrival of a search to its answer.",
    ["mode"],
    registry=REGISTRY,
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
)
REQUESTS = Counter("softseek_requests_total", "Requests answered, by status class.", ["status"], registry=REGISTRY)
