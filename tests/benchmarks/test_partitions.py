"""The benchmark of partitions: its tables, and keys in parts."""

from dataclasses import dataclass

from benchmarks.parted_keys import measure_parts
from benchmarks.partitions import different, judged
from benchmarks.partitions_tables import delays, kills, rates, split
from benchmarks.servers.load import NO_CONNECTION


@dataclass
class Fake:
    """An answer under load."""

    status: int
    body: bytes


def test_the_tables_have_parts_rates_delays_and_kills() -> None:
    times = {"per_second": 100, "p50_ms": 20.0, "p99_ms": 40.0}
    rounds = {"encode": 1.0, "retrieve": 12.0, "attend": 0.3, "fields": 5.0}
    figures = {
        "documents": 3000,
        "encoder": "hashing",
        "clients": 9,
        "keys": [
            {
                "keys": 1_000_000,
                "parts": 4,
                "recall": 0.999,
                "parted_recall": 1.0,
                "p50_cpu_ms": 16.0,
                "slowest_p50_cpu_ms": 4.5,
                "sum_p50_cpu_ms": 17.0,
            }
        ],
        "rates": {"writer": times, "1": times, "4": times},
        "compared": {"1": {"documents": 0, "anything": 0}, "4": {"documents": 0, "anything": 2}},
        "rounds": {"1": rounds, "4": rounds},
        "mib": {"1": [300.0], "4": [200.0, 220.0, 180.0, 200.0]},
        "delays": {"4": {"p50_ms": 50.0, "p99_ms": 90.0, "most_ms": 99.0, "repeated": 0}},
        "kills": {"kills": 5, "whole": 1000, "partial": 50, "back": True},
    }
    assert "| 1,000,000 | 4 | 16 | 4.5 | 17 | 0.999 | 1 |" in split(figures)
    assert "| four partitions | 100 | 20, 40 | 1, 12, 0.3, 5 | 0 | 2 | 200 |" in rates(figures)
    assert "| four partitions | 50 | 90 | 99 | 0 |" in delays(figures)
    assert "| 5 | 1,000 | 50 | 0 | 0 | yes |" in kills(figures)


def test_an_answer_is_whole_or_says_what_it_lacks_or_is_wrong() -> None:
    wanted = {"hits": [{"id": "a", "logit": 2.0}], "degraded": []}
    assert judged(Fake(200, b'{"hits":[{"id":"a","logit":2.0}],"degraded":[],"took_ms":3}'), wanted) == "whole"
    assert judged(Fake(200, b'{"hits":[{"id":"b","logit":2.0}],"degraded":[]}'), wanted) == "wrong"
    assert judged(Fake(200, b'{"hits":[],"degraded":["partition_away"]}'), wanted) == "partial"
    assert judged(Fake(503, b""), wanted) == "refused"
    assert judged(Fake(NO_CONNECTION, b""), wanted) == "refused"


def test_answers_differ_in_documents_or_in_anything_else() -> None:
    one = {"hits": [{"id": "a", "logit": 1.0}], "generation": 3}
    assert different([one, one], [one, one | {"generation": 4}]) == {"documents": 0, "anything": 1}
    assert different([one], [one | {"hits": []}]) == {"documents": 1, "anything": 1}


def test_keys_in_parts_are_found_as_in_one_generation() -> None:
    found = measure_parts(2000, 3)
    assert found["recall"] == found["parted_recall"] == 1.0
    assert found["slowest_p50_cpu_ms"] <= found["sum_p50_cpu_ms"]
