"""Growth on paper: bytes and times grow, every constant has a source, and every row says what is extrapolated."""

import json
import sys
from dataclasses import replace
from itertools import pairwise

import pytest

from benchmarks import scale_tables
from benchmarks.result_file import RESULTS, load_result
from benchmarks.scale import default_collection, figures, main, parse_counts
from benchmarks.scale_constants import Kind, Processor, constants, field, line, points, value
from benchmarks.scale_layouts import LAYOUTS, Case, p50_ms, partitioned_p50_ms, partitions
from benchmarks.scale_model import (
    Collection,
    bytes_in_memory,
    bytes_of_process,
    database_bytes,
    index_bytes,
    past_queries_within,
)
from benchmarks.scale_rows import DRIVERS
from benchmarks.tables import ROOT, with_tables

COLLECTION = replace(default_collection(), documents=1_000_000)
TWO_CORES = Case(cores=2, per_second=5)
"""A machine as large as the measured one, with few searches."""


@pytest.mark.parametrize("name", LAYOUTS)
def test_more_documents_never_need_less(name: str) -> None:
    plans = [LAYOUTS[name](COLLECTION.with_documents(10**zeros), Case()) for zeros in range(4, 10)]
    for smaller, larger in pairwise(plans):
        assert smaller.memory_bytes < larger.memory_bytes
        assert smaller.disk_bytes < larger.disk_bytes
        assert smaller.cores < larger.cores
        assert smaller.machines <= larger.machines


def test_more_partitions_are_faster_and_hold_less_each() -> None:
    times = [partitioned_p50_ms(COLLECTION, Case(), count) for count in (2, 4, 8)]
    assert times == sorted(times, reverse=True)
    assert bytes_of_process(COLLECTION.part(8)) < bytes_of_process(COLLECTION.part(4))


def test_every_partition_holds_all_past_queries() -> None:
    whole, part = bytes_in_memory(COLLECTION), bytes_in_memory(COLLECTION.part(10))
    assert part["past queries"] == whole["past queries"]
    assert part["keys"] == whole["keys"] / 10


def test_a_wider_target_needs_fewer_partitions() -> None:
    large = COLLECTION.with_documents(10**8)
    assert partitions(large, Case(p50_ms=400)).partitions < partitions(large, Case(p50_ms=100)).partitions


def test_the_bytes_of_ten_documents_are_those_calculated_by_hand() -> None:
    ten = Collection(documents=10, keys_each=2, words=100, past_queries=3)
    found = bytes_in_memory(ten)
    assert found["keys"] == 20 * 384 * 4
    assert found["values"] == 10 * 384 * 4
    assert found["codes"] == 20 * (384 / 4 + 8)
    # of a key: kind, start, end, checksum, owner; of a document: row, checksum, first key, first word, title words, id
    assert found["columns"] == 20 * 5 * 8 + 10 * (6 * 8 + 24)
    assert found["words"] == 10 * 100 * (4 + 3)
    assert found["past queries"] == 3 * 8300
    assert database_bytes(ten) == pytest.approx(10 * (value("row of a document") + 600) + 30 * 2048)
    assert index_bytes(ten) == 30 * 1536 + 20 * 104 + (20 * 4 * 8 + 10 * 72) + 7000


def test_the_default_limit_of_memory_holds_as_many_past_queries_as_documented() -> None:
    assert round(past_queries_within(6144), -3) == 776_000


def test_codes_and_columns_agree_with_the_measured_memory_of_a_start() -> None:
    one = bytes_in_memory(Collection(1_000_000, keys_each=1, words=0, past_queries=0))
    calculated = (one["codes"] + one["columns"]) / 1_000_000 - value("owner of a key")
    assert calculated == pytest.approx(field("growth", "figures/sizes/2/start_bytes_per_key"), rel=0.1)


def test_the_model_agrees_with_the_measured_search_of_100_000_documents() -> None:
    made = Collection(100_000, keys_each=2, words=53, past_queries=0)
    for processes in field("workers_of_many", "figures/processes"):
        assert p50_ms(made, Case()) == pytest.approx(processes["loads"]["1"]["p50_ms"], rel=0.1)


def test_a_line_goes_through_the_measured_points_and_on() -> None:
    scan = f"scan, {Processor.SLOWER}"
    (_, _), (before, less), (last, most) = points(scan)
    assert line(scan, last) == most
    assert line(scan, 2 * last - before) == pytest.approx(2 * most - less)


@pytest.mark.parametrize("one", constants(), ids=lambda one: f"{one.name} {one.at or ''}")
def test_every_constant_names_its_source_and_the_source_exists(one) -> None:
    assert one.unit
    assert one.source
    if one.kind is Kind.MEASURED:
        result, path = one.source.split(".json: ")
        assert field(result, path) == one.value
    elif ".json: " in one.source:
        assert (RESULTS / one.source.partition(": ")[0]).is_file()
    elif one.source.startswith(("index/", "service/")):
        assert (ROOT / one.source.partition(":")[0]).is_file()


def test_an_unknown_constant_and_one_of_several_sizes_have_no_single_value() -> None:
    for name in ("price of tea", f"scan, {Processor.FASTER}"):
        with pytest.raises(KeyError):
            value(name)


def test_rows_within_the_measured_sizes_have_no_mark() -> None:
    found = figures([50_000], case=TWO_CORES)
    for one in found["layouts"]["slower"][:3]:
        assert one["beyond"] == {}
        assert set(one["basis"].values()) == {"measured range"}
    assert found["sizes"][0]["beyond"] == {}


def test_rows_beyond_the_measured_sizes_say_what_is_extrapolated_and_how_far() -> None:
    found = figures([10_000_000], case=TWO_CORES)
    slower, faster = (found["layouts"][name][0] for name in ("slower", "faster"))
    assert slower["beyond"] == {"indexed keys": 20, "scanned keys": 20, "documents": 100}
    assert faster["beyond"] == {"indexed keys": 20, "scanned keys": 2, "documents": 100}
    assert set(slower["basis"].values()) == {"extrapolated"}
    assert "| 348 (e) |" in scale_tables.layouts("slower")(found)


def test_more_cores_than_measured_extrapolate_the_rate_and_not_the_time_of_a_search() -> None:
    one = figures([50_000])["layouts"]["slower"][0]
    assert one["basis"]["p50_ms"] == "measured range"
    assert one["basis"]["per_second"] == one["basis"]["cost"] == "extrapolated"


def test_all_numbers_of_partitions_are_assumed() -> None:
    one = figures([50_000])["layouts"]["slower"][3]
    assert one["layout"] == "partitions"
    assert one["basis"] == dict.fromkeys(DRIVERS, "assumed")


def test_a_layout_says_what_it_does_not_reach_and_its_limit_reaches_all() -> None:
    found = figures([100_000_000], case=TWO_CORES)
    assert found["layouts"]["slower"][0]["unmet"] == ["memory", "p50", "rate"]
    most = figures([], case=TWO_CORES)["limits"]["slower"]["one process"]["documents"]
    assert LAYOUTS["one process"](COLLECTION.with_documents(most), TWO_CORES).unmet == ()
    assert LAYOUTS["one process"](COLLECTION.with_documents(round(1.1 * most)), TWO_CORES).unmet != ()


def test_the_stored_result_is_what_the_constants_give() -> None:
    stored = load_result(RESULTS / "scale.json")["figures"]
    wanted = "python -m benchmarks.scale --out benchmarks/results/scale.json, then python -m benchmarks.tables"
    assert json.loads(json.dumps(figures())) == stored, wanted


def test_the_tables_of_the_page_are_those_of_the_stored_result() -> None:
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    assert with_tables(page) == page
    assert "Calculated on" in page
    assert scale_tables.limits(load_result(RESULTS / "scale.json")["figures"]) in page


def test_the_command_prints_tables_and_one_last_line_of_json(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["scale.py", "--documents", "20k", "--words", "300"])
    main()
    *tables, last = capsys.readouterr().out.splitlines()
    assert json.loads(last)["figures"]["case"]["words"] == 300
    assert any(line.startswith("| 20,000 | (d) partitions |") for line in tables)


def test_numbers_of_documents_have_units() -> None:
    assert parse_counts("500,100k,1.5M,1B") == [500, 100_000, 1_500_000, 1_000_000_000]
