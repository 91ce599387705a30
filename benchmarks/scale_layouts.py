"""Four ways to lay out a collection on machines, and what each needs for a rate of searches.

(a) one process on SQLite; (b) worker processes on one machine; (c) PostgreSQL with searchers, each with all documents;
(d) PostgreSQL with documents split over partitions, which coordinators ask. Layout (d) has assumed constants.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, floor

from benchmarks.scale_constants import Processor, value
from benchmarks.scale_model import (
    Collection,
    build_seconds,
    bytes_of_process,
    bytes_of_worker,
    bytes_scanned,
    database_bytes,
    feed_bytes,
    fixed_ms,
    growing_ms,
    index_bytes,
)

GIB = 2**30
MOST_WORKERS = 64
"""The greatest value of `SOFTSEEK_WORKERS`."""
MOST_PARTITIONS = 100_000


@dataclass(frozen=True)
class Case:
    """The searches that are wanted, and the machines that there are."""

    per_second: float = 50
    p50_ms: float = 100
    cores: int = 16
    memory_gib: float = 128
    least_copies: int = 2
    """The copies of searchers and of partitions, so that a machine may fail. Layouts (a) and (b) have one copy."""
    processor: Processor = Processor.SLOWER

    @property
    def usable_bytes(self) -> float:
        """The bytes of a machine that the processes of the service may take."""
        return self.memory_gib * GIB * value("usable share of the memory")


@dataclass(frozen=True)
class Plan:
    """What a layout needs. processes: that answer searches, in all copies. cores: busy ones with the spare share.

    process_bytes: the memory of a process, in layout (b) of the process with its workers. per_second: what the machines
    answer. part: what a process holds.
    """

    layout: str
    part: Collection
    processes: int
    machines: int
    cores: float
    process_bytes: float
    memory_bytes: float
    disk_bytes: float
    p50_ms: float
    per_second: float
    partitions: int = 1
    unmet: tuple[str, ...] = ()
    """What the layout does not reach: memory, p50, rate."""

    @property
    def build_seconds(self) -> float:
        """The seconds to build the index of a process again."""
        return build_seconds(self.part)


def one_process(one: Collection, case: Case) -> Plan:
    """Return the plan of layout (a). `SOFTSEEK_SEARCH_THREADS` is the number of cores."""
    return _on_one_machine(one, case, 1)


def workers(one: Collection, case: Case) -> Plan:
    """Return the plan of layout (b): as many processes as the rate needs, at least two."""
    return _on_one_machine(one, case, min(case.cores, MOST_WORKERS, max(2, ceil(case.per_second / process_rate()))))


def _on_one_machine(one: Collection, case: Case, processes: int) -> Plan:
    taken = bytes_of_process(one) + (processes - 1) * bytes_of_worker(one)
    plan = Plan(
        layout="workers" if processes > 1 else "one process",
        part=one,
        processes=processes,
        machines=1,
        cores=cores_busy(search_ms(one, case), case),
        process_bytes=taken,
        memory_bytes=taken,
        disk_bytes=database_bytes(one) + index_bytes(one) + (feed_bytes(one) if processes > 1 else 0),
        p50_ms=p50_ms(one, case),
        per_second=machine_rate(one, case, processes),
    )
    return _judged(plan, case)


def searchers(one: Collection, case: Case) -> Plan:
    """Return the plan of layout (c). A writer and PostgreSQL have a machine each."""
    taken = bytes_of_process(one)
    wanted = ceil(case.per_second / case.least_copies / process_rate())
    on_machine = max(1, min(wanted, floor(case.usable_bytes / taken)))
    rate = machine_rate(one, case, on_machine)
    machines = max(case.least_copies, ceil(case.per_second / rate))
    copies = machines * on_machine
    plan = Plan(
        layout="searchers",
        part=one,
        processes=copies,
        machines=machines + 2,
        cores=cores_busy(search_ms(one, case), case),
        process_bytes=taken,
        memory_bytes=(copies + 1) * taken,
        disk_bytes=(copies + 1) * (database_bytes(one) + index_bytes(one)),
        p50_ms=p50_ms(one, case),
        per_second=machines * rate,
    )
    return _judged(plan, case)


def partitions(one: Collection, case: Case) -> Plan:
    """Return the plan of layout (d). A writer, which holds no index, and PostgreSQL have a machine each."""
    count = fewest_partitions(one, case)
    part, core_ms = one.part(count), count * partition_ms(one.part(count), case)
    taken = bytes_of_process(part)
    machines = ceil(count / max(1, min(case.cores, floor(case.usable_bytes / taken))))
    seconds = machine_seconds(core_ms, bytes_scanned(one), case) / machines
    copies = max(case.least_copies, ceil(case.per_second * seconds / value("busy share of the cores")))
    asking = cores_busy(fixed_ms("search, processor"), case)
    plan = Plan(
        layout="partitions",
        part=part,
        processes=copies * count,
        partitions=count,
        machines=copies * machines + ceil(asking / case.cores) + 2,
        cores=cores_busy(core_ms, case) + asking,
        process_bytes=taken,
        memory_bytes=copies * count * taken,
        disk_bytes=database_bytes(one) + copies * (database_bytes(one) + index_bytes(one)),
        p50_ms=partitioned_p50_ms(one, case, count),
        per_second=copies * value("busy share of the cores") / seconds,
    )
    return _judged(plan, case)


def fewest_partitions(one: Collection, case: Case) -> int:
    """Return the fewest partitions that fit into a machine each, and reach the p50 where any number reaches it."""
    fitting = _first(lambda count: bytes_of_process(one.part(count)) <= case.usable_bytes)
    fast = _first(lambda count: partitioned_p50_ms(one, case, count) <= case.p50_ms)
    return max(fitting, fast if fast <= MOST_PARTITIONS else 1)


LAYOUTS = {"one process": one_process, "workers": workers, "searchers": searchers, "partitions": partitions}


def search_ms(one: Collection, case: Case) -> float:
    """Return the milliseconds of the processor that a search takes in one process."""
    return fixed_ms("search, processor") + growing_ms(one, case.processor)


def p50_ms(one: Collection, case: Case) -> float:
    """Return the milliseconds of one search in a process that does nothing else."""
    return fixed_ms("search, p50") + growing_ms(one, case.processor)


def partition_ms(part: Collection, case: Case) -> float:
    """Return the milliseconds of the processor that a search takes in one partition."""
    return value("search in a partition") + growing_ms(part, case.processor)


def partitioned_p50_ms(one: Collection, case: Case, count: int) -> float:
    """Return the milliseconds of one search that a coordinator asks of so many partitions."""
    slowest = value("slowest of the partitions") if count > 1 else 1.0
    rounds = value("rounds of a coordinator") * value("round to all partitions")
    return fixed_ms("search, p50") + slowest * partition_ms(one.part(count), case) + rounds


def process_rate() -> float:
    """Return the searches per second of which one process can do the parts in Python, which hold its lock."""
    cores = value("busy share of the cores") * value("cores that one process uses")
    return cores * 1000 / fixed_ms("search, processor")


def machine_rate(one: Collection, case: Case, processes: int) -> float:
    """Return the searches per second of a machine with so many processes, each with all documents."""
    seconds = machine_seconds(search_ms(one, case), bytes_scanned(one), case)
    return min(processes * process_rate(), value("busy share of the cores") / seconds)


def machine_seconds(core_ms: float, scanned: float, case: Case) -> float:
    """Return the seconds for which a search occupies a machine: its cores, or its memory, if that takes longer."""
    return max(core_ms / 1000 / case.cores, scanned / 1e9 / value("memory bandwidth of a machine"))


def cores_busy(core_ms: float, case: Case) -> float:
    """Return the cores for searches of so many milliseconds at the wanted rate, with the spare share."""
    return case.per_second * core_ms / 1000 / value("busy share of the cores")


def _first(is_enough: Callable[[int], bool]) -> int:
    """Return the least number of partitions that is enough; MOST_PARTITIONS + 1 if none is."""
    return 1 + bisect_left(range(1, MOST_PARTITIONS + 1), True, key=is_enough)


def _judged(plan: Plan, case: Case) -> Plan:
    """Return the plan with what it does not reach."""
    reached = {
        "memory": plan.process_bytes <= case.usable_bytes,
        "p50": plan.p50_ms <= case.p50_ms,
        "rate": plan.per_second >= case.per_second,
    }
    return replace(plan, unmet=tuple(name for name, good in reached.items() if not good))
