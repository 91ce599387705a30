"""Training on clicks: graded, debiased and naive interpretations, and the grades of held-out queries with clicks."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from index.generation.generation import Generation
from index.learning.click_model import (
    BEST_GRADE,
    ClickModel,
    among_shown,
    estimate_clicks,
    held_out_qrels,
    highest_hash,
)
from index.learning.examples import Feedback
from index.learning.fit import Fitted, _interpret, fit
from index.learning.held_out import ranked_rows
from index.learning.model_selection import ClickInterpretations
from index.memory.click_worth import ASSUMED_CURVE
from index.ranking.attention import AttentionHead
from index.ranking.checkpoint import head_bytes
from tests.index.learning_fixtures import CONFIG, COUNT, INITIAL, QUICK, asked, collection_of, finished, run

TIMES = 10
"""Impressions of every list."""
RECIPES = (QUICK[0], QUICK[2])


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Generation:
    return collection_of(tmp_path_factory.mktemp("collection"))


def clicked(one: Feedback, rows: Sequence[int]) -> Feedback:
    """Return the clicks of users for whom a single document is relevant, clicked at every examination."""
    (relevant,) = one.gains
    shown = {row: {position: TIMES} for position, row in enumerate(dict.fromkeys(rows), 1)}
    examinations = TIMES * float(ASSUMED_CURVE[next(iter(shown[relevant])) - 1])
    return replace(one, gains={relevant: float(round(examinations))}, shown=shown)


def shuffled(shifted: bool = True, seed: int = 3) -> list[Feedback]:
    """Return queries whose lists have the relevant document at a random position among ten."""
    random = np.random.default_rng(seed)
    lists = [(one, [*one.gains, *random.choice(COUNT, 9).tolist()]) for one in asked(shifted)]
    return [clicked(one, random.permutation(rows).tolist()) for one, rows in lists]


@pytest.fixture(scope="module")
def learned(collection: Generation) -> Fitted:
    """The fit on clicks in shuffled lists."""
    return run(collection, shuffled())[0]


def read(collection: Generation, feedback: Sequence[Feedback]) -> ClickInterpretations:
    return finished(_interpret(collection, feedback, INITIAL, estimate_clicks(feedback), CONFIG))[0]


# --- Learning from clicks ---


def test_training_learns_from_clicks_as_from_judgments(learned: Fitted) -> None:
    assert learned.report["recipe"]["reading"] == "averaged"
    assert learned.report["held_out"]["nDCG@10"]["difference"] > 0.3
    assert learned.report["examination"]["attraction"]["noise"] < learned.report["examination"]["attraction"]["worth"]


def test_click_rates_are_estimated_by_the_bound_on_the_whole_log(
    collection: Generation, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds = []

    def estimate(feedback: Sequence[Feedback], highest: int | None = None) -> ClickModel:
        bounds.append((sum(one.is_silent for one in feedback), highest))
        return estimate_clicks(feedback, highest)

    none = np.empty(0, np.float32)
    silent = [Feedback(f"silent {n}", "", none, {}, {1: {1: 1}}, {}, frozenset()) for n in range(30)]
    monkeypatch.setattr("index.learning.click_model.MAX_SILENT", len(silent))
    monkeypatch.setattr("index.learning.fit.estimate_clicks", estimate)
    next(fit(collection, [*shuffled(), *silent], AttentionHead(INITIAL), CONFIG))
    ((learned, highest),) = bounds
    assert (learned < len(silent), highest) == (True, highest_hash(silent))


def test_many_clicked_queries_are_all_held_out_once_and_decide(collection: Generation, learned: Fitted) -> None:
    clicks, judged = learned.report, run(collection, asked(shifted=True))[0].report
    assert clicks["held_out_queries"]["cross_fitted"] == clicks["queries"]["train"] == judged["queries"]["train"]
    assert clicks["held_out_queries"]["cross_fitted"] > 4 * judged["held_out_queries"]["cross_fitted"] > 0


def test_training_learns_from_lists_shown_once(collection: Generation) -> None:
    once = [replace(one, shown={row: {1 + row % 10: 1} for row in range(10)} | {next(iter(one.gains)): {1: 1}})
            for one in asked(shifted=True)]  # fmt: skip
    fitted, _ = run(collection, once, recipes=RECIPES)
    assert fitted.report["held_out"]["nDCG@10"]["queries"] > 20
    assert fitted.report["held_out"]["nDCG@10"]["difference"] > 0.3


def test_the_debiased_interpretation_depends_on_positions(collection: Generation) -> None:
    by_place = [
        clicked(one, [*one.gains, *((7 * number + at) % COUNT for at in range(9))])
        for number, one in enumerate(asked(shifted=True))
    ]
    all_first = [replace(one, shown={row: {1: TIMES} for row in one.shown or {}}) for one in by_place]
    config = replace(CONFIG, interpretations=("debiased",), error_share=-1e9)
    heads = [run(collection, clicks, config, recipes=RECIPES)[0].head for clicks in (by_place, all_first)]
    one, other = (head.parameters_by_name() for head in heads)
    assert any(not np.array_equal(value, other[name]) for name, value in one.items() if name != "null")


def test_a_run_with_only_the_naive_interpretation_makes_no_other_trial(collection: Generation) -> None:
    fitted, _ = run(collection, shuffled(), replace(CONFIG, interpretations=("naive",)), recipes=RECIPES)
    tried = fitted.report["recipe"]
    assert tried["reading"] == "naive"
    assert list(tried["validation_ndcg"]) == ["initial, naive", "projection, learning_rate 0.02, naive"]


def test_with_only_judgments_there_is_one_interpretation(collection: Generation) -> None:
    feedback = asked(shifted=True)
    plain, _ = run(collection, feedback, recipes=RECIPES)
    naive, _ = run(collection, feedback, replace(CONFIG, interpretations=("naive",)), recipes=RECIPES)
    assert head_bytes(plain.head) == head_bytes(naive.head)
    for fitted in (plain, naive):
        assert fitted.report["recipe"]["reading"] == "graded"
        assert fitted.report["examination"] is None
        assert list(fitted.report["recipe"]["validation_ndcg"]) == ["initial", "projection, learning_rate 0.02"]


# --- Interpretations ---


def test_judgments_have_the_same_examples_in_all_interpretations(collection: Generation) -> None:
    feedback = asked(shifted=True)[:10]
    interpretations = read(collection, feedback)
    assert list(interpretations.examples) == ["graded"]
    assert [one.feedback for one in interpretations.examples["graded"]] == feedback


def test_graded_clicks_have_all_candidates_and_other_interpretations_only_shown_documents(
    collection: Generation,
) -> None:
    clicks, judged = shuffled()[:30], asked(shifted=True)[30:40]
    interpretations = read(collection, [*clicks, *judged]).examples
    assert {name: len(examples) for name, examples in interpretations.items()} == dict.fromkeys(
        ("graded", "debiased", "naive"), 40
    )
    of_clicks = {one.query_key: len(one.shown or {}) for one in clicks}
    for name, examples in interpretations.items():
        for one in examples:
            shown = of_clicks.get(one.feedback.query_key, COUNT)
            assert len(one.gains) == (COUNT if name == "graded" else shown)
            assert not one.log_propensity.any() or (name == "debiased" and shown < COUNT)
    assert any(one.log_propensity.any() for one in interpretations["debiased"])
    graded = [one.gains for one in interpretations["graded"] if one.feedback.query_key in of_clicks]
    assert all(1 <= gains.max() <= BEST_GRADE for gains in graded)
    assert max(float(one.gains.max()) for one in interpretations["naive"]) == TIMES  # clicks, not grades


# --- Held-out queries ---


def test_only_shown_documents_of_a_query_with_clicks_are_ranked(collection: Generation) -> None:
    judged = asked(shifted=True)[0]
    everything = ranked_rows(collection, AttentionHead(INITIAL), judged)
    assert len(everything) == COUNT
    shown = {int(row): {position: 1} for position, row in enumerate(everything[::-7], 1)}
    clicks = replace(judged, shown=shown)
    (condensed,) = among_shown({clicks.query_key: everything}, [clicks], 100).values()
    assert condensed == [row for row in everything if int(row) in shown]
    assert len(condensed) == len(shown)


def test_held_out_queries_are_judged_by_the_rates_of_the_log() -> None:
    log = shuffled()
    model: ClickModel = estimate_clicks(log)
    qrels = held_out_qrels(log, model)
    for judged, one in zip(asked(shifted=True), log, strict=True):
        (relevant,) = judged.gains
        grades = qrels[one.query_key]
        assert set(grades) == {str(row) for row in one.shown or {}}
        assert grades[str(relevant)] >= 1
        assert sum(grades.values()) == grades[str(relevant)]
