"""The number of trees is chosen on queries that neither the head nor the trees were fitted to."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.generation.generation import Generation
from index.learning.config import FitConfig, Recipe
from index.learning.examples import Feedback
from index.learning.fit import Fitted, fit
from index.learning.model_selection import Selection
from index.learning.trainer import Trial
from index.learning.tree_selection import TreeChoice
from index.ranking.attention import AttentionHead, HeadConfig
from index.ranking.trees import no_trees
from tests.index.fixtures import ENCODER, generation_of, vector_of, written
from tests.index.learning_fixtures import finished
from tests.index.ranking.attention_by_hand import only

COUNT = 90
CONFIG = FitConfig(recipes=("initial",), hops=(), trees=(40,), cross_validation_queries=1000, error_share=1.0)
HEAD = AttentionHead(HeadConfig(dim=ENCODER.dim, beta=only(words=1.0), inverse_temperature=3.0))
"""A head that puts the two documents of a pair before all others."""


def collection(directory: Path) -> Generation:
    """Return documents in pairs with the same words, one short and one with twenty further words."""
    documents = []
    for at in range(COUNT):
        documents.append(written(2 * at, f"subject{at} report"))
        documents.append(written(2 * at + 1, f"subject{at} report " + "and further words " * 7))
    return generation_of(directory, documents)


def feedback(right: int) -> list[Feedback]:
    """Return a query for each pair; right: 0 the short document is right, 1 the long one, 2 either by chance."""
    chance = np.random.default_rng(0).integers(0, 2, COUNT)
    asked = []
    for at in range(COUNT):
        text = f"subject{at}"
        row = 2 * at + (int(chance[at]) if right == 2 else right)
        asked.append(Feedback(text, text, vector_of(text), {row: 3.0}))
    return asked


def fitted(directory: Path, right: int) -> Fitted:
    return finished(fit(collection(directory), feedback(right), HEAD, CONFIG))[0]


def test_trees_learn_that_long_documents_are_right(tmp_path: Path) -> None:
    found = fitted(tmp_path, right=1)
    assert found.report["trees"]["chosen"] == 40
    assert found.head.config.trees == 40
    assert found.decision.promote, found.decision.reasons


@pytest.mark.parametrize(("reading", "trees"), [("averaged", 40), ("graded", 40), ("debiased", 0)])
def test_trees_learn_from_clicks_where_a_reading_grades_them(tmp_path: Path, reading: str, trees: int) -> None:
    clicked = [
        replace(one, gains={row: 20.0}, shown={row - 1: {1: 20}, row: {2: 20}}, clicks={row: {2: 20}})
        for one in feedback(right=1)
        for row in one.gains
    ]
    config = replace(CONFIG, interpretations=(reading,))
    found = finished(fit(collection(tmp_path), clicked, HEAD, config))[0]
    assert found.report["recipe"]["reading"] == reading
    assert found.report["trees"]["chosen"] == trees


def test_trees_are_left_out_where_chance_decides(tmp_path: Path) -> None:
    found = fitted(tmp_path, right=2)
    assert found.report["trees"]["chosen"] == 0
    assert not found.decision.promote


def test_a_run_from_a_champion_with_trees_starts_without_them(tmp_path: Path) -> None:
    champion = fitted(tmp_path / "first", right=1).head
    again, _ = finished(fit(collection(tmp_path / "second"), feedback(1), champion, CONFIG))
    assert again.head.config.trees == 40
    assert again.report["held_out"]["nDCG@10"]["difference"] == pytest.approx(0, abs=1e-6)


def test_trees_are_not_tried_where_the_configuration_has_none(tmp_path: Path) -> None:
    config = replace(CONFIG, trees=())
    found, _ = finished(fit(collection(tmp_path), feedback(1), HEAD, config))
    assert found.report["trees"] == {"chosen": 0, "validation_ndcg": {}, "optimism": 0.0}


def test_folds_that_share_a_trial_share_it_after_hop_and_trees() -> None:
    trials = [Trial(HEAD, 1, {}) for _ in range(4)]
    selection = Selection(Recipe("weights"), {fold: trials[fold % 4] for fold in range(8)}, {}, 0, {}, ())
    choice = TreeChoice(no_trees(3), dict.fromkeys(range(8), no_trees(3)), {}, rounds=40, optimism=0.0)
    changed = choice.applied(selection.with_hop(0.3))
    assert len({id(trial) for trial in changed.trials.values()}) == 4
    assert all(trial.head.config.trees == 3 and trial.head.hops for trial in changed.trials.values())
