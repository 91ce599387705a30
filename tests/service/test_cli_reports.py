"""What the command line makes of a training report, also of an older one."""

import pytest

from service.cli import show
from service.cli.learning import scalars, side_by_side

REPORT = {
    "held_out": {"nDCG@10": {"b": 0.6}},
    "held_out_queries": {"test": 30, "cross_fitted": 10},
    "recipe": {"recipe": "gates", "epochs": 3, "reading": "naive", "optimism": 0.004, "skipped": ["rank", "full"]},
    "head": {"form": "bilinear", "beta": {"words": 0.25, "phrase": 0.5}, "null": [0.1, 0.2, 0.3]},
    "hop": {"chosen": 0.2},
    "examination": {"method": "swaps"},
    "train_seconds": 3.21,
}


def test_a_report_is_told_line_by_line() -> None:
    assert list(show.recipe(REPORT)) == [
        "recipe gates (epochs 3, reading naive) in 3.2 s",
        "beyond the budget: rank; full",
        "examination of places: swaps",
        "second hop: 0.2",
        "held-out queries: 30 of the test, 10 cross-fitted",
        "taken off for having chosen on them: 0.0040",
    ]


@pytest.mark.parametrize("report", [{}, {"recipe": {}, "hop": {"chosen": 0.0}, "examination": None}])
def test_of_what_a_report_does_not_have_nothing_is_told(report: dict[str, object]) -> None:
    assert list(show.recipe(report)) == []


def test_every_part_of_the_evidence_has_its_weight() -> None:
    weights = {"beta words": 0.25, "beta phrase": 0.5}
    assert scalars(REPORT) == {"form": "bilinear", **weights, "null": [0.1, 0.2, 0.3]}
    compared = side_by_side({"report": REPORT, "created_at": "2026-09-20"})
    assert compared.items() >= (weights | {"held-out nDCG@10": 0.6}).items()


def test_the_weights_of_an_older_report_stay_a_list() -> None:
    assert scalars({"head": {"beta": [0.3, 0.7]}}) == {"beta": [0.3, 0.7]}


def test_parts_that_add_nothing_are_left_out_of_a_hit(capsys: pytest.CaptureFixture[str]) -> None:
    explain = {"parts": {"title": 0.0, "coverage": 1.5, "memory": -0.25}}
    show.hits({"hits": [{"id": "d1", "position": 1, "explain": explain}]})
    assert capsys.readouterr().out.splitlines()[-1].split() == ["coverage", "1.5000", "memory", "-0.2500"]
