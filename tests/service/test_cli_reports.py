"""The command line shows training reports, including reports of earlier versions."""

import pytest

from service.cli import reports, show
from service.cli.models import held_out, side_by_side

REPORT = {
    "held_out": {"nDCG@10": {"b": 0.6, "queries": 30, "subtracted": 0.0061}, "R@100": {"b": 0.9, "queries": 30}},
    "held_out_queries": {"test": 30, "cross_fitted": 10},
    "recipe": {"recipe": "gates", "epochs": 3, "reading": "naive", "optimism": 0.004, "skipped": ["rank", "full"]},
    "head": {"form": "bilinear", "beta": {"words": 0.25, "phrase": 0.5}, "null": [0.1, 0.2, 0.3], "hop": 0.2},
    "hop": {"chosen": None},
    "trees": {"chosen": 40},
    "priors": {
        "chosen": 1.0,
        "documents": 9,
        "fields": [
            {"field": "sold", "knots": [[1.0, -0.25], [50.0, 0.5], [1200.0, 0.25]], "effect": 0.75},
            {"field": "brand", "value": "oak", "effect": -0.3},
        ],
    },
    "context": {"chosen": 0.5},
    "examination": {"method": "estimated"},
    "train_seconds": 3.21,
}


def test_a_report_has_a_line_for_each_fact() -> None:
    assert list(reports.recipe(REPORT)) == [
        "recipe gates (epochs 3, click interpretation naive) in 3.2 s",
        "recipes skipped because of the budget: rank; full",
        "estimate of position bias: estimated",
        "second hop: 0.2",
        "trees: 40",
        "documents with a prior: 9",
        "preferred on any query: sold 50 over 1 +0.75; brand oak -0.30",
        "context: 0.5",
        "held-out queries: 30 test, 10 cross-fitted",
        "subtracted for choices on the same queries: nDCG@10 0.0061",
    ]


@pytest.mark.parametrize("report", [{}, {"recipe": {}, "head": {"hop": 0.0}, "examination": None}])
def test_a_missing_fact_has_no_line(report: dict[str, object]) -> None:
    assert list(reports.recipe(report)) == []


def test_every_part_of_the_evidence_is_shown_with_its_weight() -> None:
    weights = {"beta words": 0.25, "beta phrase": 0.5}
    assert reports.scalars(REPORT) == {"form": "bilinear", **weights, "null": [0.1, 0.2, 0.3], "hop": 0.2}
    compared = side_by_side({"report": REPORT, "created_at": "2026-09-20"})
    assert compared.items() >= (weights | {"held-out nDCG@10": 0.6}).items()


@pytest.mark.parametrize(("queries", "shown"), [(30, "0.6000 (+0.0200)"), (0, None)])
def test_a_measure_without_queries_is_not_shown(queries: int, shown: str | None) -> None:
    found = {"b": 0.6 if queries else 0.0, "difference": 0.02 if queries else 0.0, "queries": queries}
    model = {"report": {"held_out": {"nDCG@10": found}}, "created_at": "2026-09-20"}
    assert held_out(model, "nDCG@10") == shown
    assert ("held-out nDCG@10" in side_by_side(model)) == (shown is not None)


def test_only_the_model_that_was_never_trained_is_shown_as_untrained() -> None:
    assert side_by_side({"lineage": {"kind": "birth"}, "created_at": "2026-09-20"})["kind"] == "untrained"
    report = {"recipe": {"recipe": "initial"}, "trees": {"chosen": 40}}
    assert list(reports.recipe(report)) == ["recipe initial weights", "trees: 40"]


def test_the_weights_in_a_report_of_an_earlier_version_stay_a_list() -> None:
    assert reports.scalars({"head": {"beta": [0.3, 0.7]}}) == {"beta": [0.3, 0.7]}


def test_parts_that_are_zero_are_left_out_of_a_hit(capsys: pytest.CaptureFixture[str]) -> None:
    explain = {"parts": {"title": 0.0, "coverage": 1.5, "memory": -0.25}}
    show.hits({"hits": [{"id": "d1", "position": 1, "explain": explain}]})
    assert capsys.readouterr().out.splitlines()[-1].split() == ["coverage", "1.5000", "memory", "-0.2500"]
