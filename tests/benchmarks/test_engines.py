"""The tables of the benchmark of the engines of the database."""

from benchmarks.engines_tables import NAMES, failover, moves, rates


def test_the_tables_have_engines_moves_and_failovers() -> None:
    times = {"put_p50_ms": 3.0, "put_p99_ms": 9.0, "search_p50_ms": 5.0, "search_p99_ms": 7.0}
    figures = {
        "documents": 100,
        "encoder": "hashing",
        "clients": 8,
        "engines": {name: {"documents_per_second": 50, "searches_per_second": 200, **times} for name in NAMES},
        "moves": {"rows": 1234, "there_seconds": 2.0, "back_seconds": 3.0, "equal": True},
        "failovers": [{"acknowledged": 150, "lost": 0, "promoted_seconds": 0.1, "writes_seconds": 0.25}],
    }
    assert "| PostgreSQL | 50 | 3, 9 | 5, 7 | 200 |" in rates(figures)
    assert "| 1,234 | 2 | 3 | equal |" in moves(figures)
    assert "| 150 | 0 | 0.1 | 0.25 |" in failover(figures)
