"""The tables of the benchmark of a cluster."""

from typing import Any

from benchmarks.cluster_tables import encoding, keys, scaling, starts, training


def work(seconds: float, used: float) -> dict[str, float]:
    return {"seconds": seconds, "cpu_seconds": used}


def figures() -> dict[str, Any]:
    rate = {"per_second": 40.0, "p50_ms": 20.0, "p99_ms": 31.0}
    return {
        "documents": 1000,
        "start": 20_000,
        "work": {
            "service": {"encoding": work(20, 38), "training": work(9, 8), "equal": True},
            "1": {"encoding": work(40, 4), "training": work(15, 6), "equal": True},
            "2": {"encoding": work(30, 4.5), "training": work(14, 6), "equal": False},
        },
        "starts": {"rows": 12.34, "file": 2.5, "bytes": 50 * 2**20, "equal": True},
        "scaling": {"clients": 16, "coordinators": 3, "seconds": 41.2, "statuses": {"200": 5000}},
        "keys": [{"keys": 1_000_000, **{name: {"4": value} for name, value in _of_four(rate).items()}}],
    }


def _of_four(rate: dict[str, float]) -> dict[str, Any]:
    return {"ready": 90.0, "rates": rate, "rounds": {"retrieve": 12.0}, "mib": [800, 900]}


def test_the_work_of_a_cluster_stands_beside_that_of_the_service() -> None:
    assert "| a cluster with one core | 40 | 4 | yes |" in encoding(figures())
    assert "| a cluster with two cores | 14 | 6 | no |" in training(figures())


def test_starts_and_keys_have_their_rows() -> None:
    assert "| 20,000 | 12.3 | 2.5 | 50 | yes |" in starts(figures())
    assert "| 3 | 16 | 41.2 | 5,000 with 200 |" in scaling(figures())
    assert "| 1,000,000 | 4 | 90 | 40 | 20, 31 | 12 | 850 |" in keys(figures())
