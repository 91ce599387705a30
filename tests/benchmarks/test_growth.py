"""The benchmark of growth agrees with brute force, and its filters keep the rows that they name."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from benchmarks.growth import DIM, QUERIES, SHARES, WANTED, Truth, blocks, kept, measure_growth, parse_sizes, queries
from benchmarks.plot import GROWTH, Panel, draw, short
from benchmarks.speed_tables import growth, growth_plot

SVG = "{http://www.w3.org/2000/svg}"


def test_sizes_are_parsed_with_their_units() -> None:
    assert parse_sizes("500,10k,1M,2.5M") == [500, 10_000, 1_000_000, 2_500_000]


def test_parts_of_a_collection_are_always_the_same_vectors() -> None:
    parts = list(blocks(25, size=10))
    assert [(first, part.shape) for first, part in parts] == [(0, (10, DIM)), (10, (10, DIM)), (20, (5, DIM))]
    assert np.array_equal(parts[1][1], list(blocks(40, size=10))[1][1])
    assert np.allclose(np.linalg.norm(parts[0][1], axis=1), 1, atol=1e-5)


def test_the_nearest_rows_of_parts_are_those_of_the_whole() -> None:
    asked, truth = queries(), Truth(queries())
    parts = list(blocks(1_500, size=400))
    for first, part in parts:
        truth.see(first, part)
    whole = np.concatenate([part for _, part in parts])
    for name, share in SHARES.items():
        left = np.flatnonzero(kept(np.arange(1_500), share))
        assert abs(len(left) - 1_500 * share) < 60
        for query, found in zip(asked[:5], truth.nearest()[name], strict=False):
            expected = left[np.argsort(-(whole[left] @ query))[:WANTED]]
            assert set(expected) <= set(found)


def test_a_size_is_measured_and_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    (figures,) = measure_growth([600])
    assert (figures["keys"], figures["index"]) == (600, "Int8Index")
    assert figures["recall"] > 0.99
    assert figures["half_recall"] > 0.99
    assert figures["disk_bytes_per_key"] > 4 * DIM
    assert json.loads(json.dumps(figures)) == figures
    assert len(queries()) == QUERIES
    assert growth_plot({"sizes": [figures]}).count("<g ") == len(GROWTH)
    assert "8 bits, refined" in growth({"sizes": [figures]})


def test_a_plot_has_a_panel_for_each_measure_and_a_dot_for_each_size() -> None:
    figures = [{"a": 1.0, "b": 0.25}, {"a": 4.0, "b": 0.5}]
    drawn = ET.fromstring(draw("keys", [10, 1000], figures, [Panel("a", "this & that"), Panel("b", "other")]))
    panels = drawn.findall(f"{SVG}g")
    assert len(panels) == 2
    texts = [[text.text for text in panel.iter(f"{SVG}text")] for panel in panels]
    assert {"this & that", "1", "4", "10", "1k", "keys"} <= set(texts[0])
    assert {"other", "0.25", "0.5"} <= set(texts[1])
    dots = [(float(dot.get("cx", "")), float(dot.get("cy", ""))) for dot in panels[0].iter(f"{SVG}circle")]
    assert dots[0][0] < dots[1][0]
    assert dots[0][1] > dots[1][1]


@pytest.mark.parametrize(("size", "text"), [(7, "7"), (10_000, "10k"), (2_500_000, "2.5M")])
def test_sizes_on_the_axis_are_short(size: int, text: str) -> None:
    assert short(size) == text
