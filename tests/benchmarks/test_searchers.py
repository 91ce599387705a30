"""The tables of the benchmark of searchers."""

from benchmarks.searchers_tables import NAMES, delays, kills, rates


def test_the_tables_have_rates_delays_and_kills() -> None:
    figures = {
        "documents": 100,
        "encoder": "hashing",
        "clients": 9,
        "rates": {name: {"per_second": 200, "p50_ms": 3.0, "p99_ms": 9.0} for name in NAMES},
        "compared": {name: {"wrong": int(name == "2"), "weights": 0.001} for name in ("writer", "1", "2", "3")},
        "delays": {name: {"p50_ms": 7.0, "p99_ms": 20.0, "most_ms": 30.0, "repeated": 0} for name in "13"},
        "kills": {"kills": 5, "answers": 1000, "wrong": 0, "refused": 12, "other": 0, "weights": 0.0},
    }
    assert "| one searcher | 200 | 3, 9 | 0 | 0.001 |" in rates(figures)
    assert "| three searchers | 200 | 3, 9 | 1 | 0.001 |" in rates(figures)
    assert "| three searchers | 7 | 20 | 30 | 0 |" in delays(figures)
    assert "| 5 | 1,000 | 0 | 12 | 0 | 0 |" in kills(figures)
