"""Predicted fields are measured on a set without metadata of its own."""

import json

import pytest

from benchmarks import quality_tables
from benchmarks.prediction import fields_of, measure_set, measures
from index.encoding.encoder import HashingEncoder
from tests.benchmarks.sets import animals


def test_every_system_is_measured_and_shown() -> None:
    found = measure_set(animals(), HashingEncoder(), queries=4, seed=0)
    assert found["queries"] == 4
    assert found["groups"] == 6
    assert all(0 <= one["accuracy"] <= 1 and 0 <= one["Brier"] <= 2 for one in found["systems"].values())
    shown = quality_tables.prediction(json.loads(json.dumps({"sets": {"animals": found}})))
    assert [name for name in ("most common", "nearest ten", "attention") if f"| {name} |" not in shown] == []


def test_a_group_is_the_title_where_titles_repeat_and_its_first_word_otherwise() -> None:
    repeated = [{"id": str(at), "title": "Two words", "text": "a b c"} for at in range(8)]
    assert fields_of(repeated)["0"] == {"group": "Two words", "words": 3}
    distinct = [{"id": str(at), "title": f"Brand {at}", "text": "a"} for at in range(8)]
    assert fields_of(distinct)["0"] == {"group": "brand", "words": 1}


def test_measures_compare_a_guess_with_the_truth() -> None:
    row = (({"red": 1.0}, 10.0), {"guess": {"red": 0.6, "green": 0.4}}, {"guess": 7.0})
    assert measures("guess", [row]) == {"accuracy": 1.0, "Brier": pytest.approx(0.32), "error": 3.0}
