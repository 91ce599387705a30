"""The benchmark of the limit of memory measures when it is reached and after all past queries arrived."""

from benchmarks import memory_limit
from benchmarks.growth import DIM
from index.memory.rank import bytes_of


def test_a_small_run_measures_a_full_memory_twice() -> None:
    first, last = memory_limit.measure(60, 40 * bytes_of(DIM, 1))
    assert (first["arrived"], first["kept"], first["dropped"]) == (41, 40, 1)
    assert (last["arrived"], last["kept"], last["dropped"]) == (60, 40, 20)
