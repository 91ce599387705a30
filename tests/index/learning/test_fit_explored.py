"""A run that learns from explored lists alone: what it learns, what it needs, and that it is repeatable."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.errors import NotEnoughFeedback
from index.learning.config import EXPLORED
from index.learning.examples import Feedback
from index.learning.explored_examples import make_explored_examples
from index.learning.slates import SLATE, Slate
from index.ranking.attention import AttentionHead
from index.ranking.search import project
from tests.index.learning_fixtures import CONFIG, COUNT, INITIAL, asked, collection_of, run

LISTS = 20
WARM = AttentionHead(replace(INITIAL, inverse_temperature=3.0))
"""An untrained head whose own samples are not far from a random order."""
REINFORCE = replace(CONFIG, interpretations=(EXPLORED,), min_explored=200)


def explored(feedback: Sequence[Feedback], lists: int = LISTS, seed: int = 5) -> list[Feedback]:
    """Return the queries with lists in random order, in which the confirmed document is clicked where it is shown."""
    random = np.random.default_rng(seed)
    chances = tuple(1 / (COUNT - position) for position in range(SLATE))
    found = []
    for one in feedback:
        slates = []
        for _ in range(lists):
            rows = random.permutation(COUNT)[:SLATE].tolist()
            clicked = tuple(row in one.gains for row in rows)
            slates.append(Slate(tuple(rows), (False,) * SLATE, chances, clicked))
        found.append(replace(one, explored=tuple(slates)))
    return found


def test_a_head_learns_the_documents_that_are_clicked_in_explored_lists(tmp_path: Path) -> None:
    generation = collection_of(tmp_path)
    fitted, steps = run(generation, explored(asked(shifted=True)), REINFORCE, WARM)
    assert fitted.report["recipe"]["reading"] == EXPLORED
    ndcg = fitted.report["held_out"]["nDCG@10"]
    assert ndcg["b"] > ndcg["a"] + 0.2
    assert fitted.decision.promote
    assert fitted.report["queries"]["explored_lists"] > 200
    assert any(step.figures.get("recipe") == "projection" for step in steps)


def test_the_same_seed_gives_the_same_bits(tmp_path: Path) -> None:
    generation, feedback = collection_of(tmp_path), explored(asked(shifted=True, count=60))
    quick = replace(REINFORCE, epochs=2)
    first, again = (run(generation, feedback, quick)[0].head.parameters_by_name() for _ in range(2))
    assert all(first[name].tobytes() == again[name].tobytes() for name in first)


def test_a_run_needs_explored_lists(tmp_path: Path) -> None:
    with pytest.raises(NotEnoughFeedback, match="explored lists of training queries") as caught:
        run(collection_of(tmp_path), explored(asked(shifted=True), lists=1), REINFORCE)
    assert caught.value.need == 200


def test_explored_lists_change_nothing_in_other_runs(tmp_path: Path) -> None:
    generation, feedback = collection_of(tmp_path), asked(shifted=True, count=60)
    quick = replace(CONFIG, epochs=1)
    heads = [run(generation, each, quick)[0].head.parameters_by_name() for each in (feedback, explored(feedback))]
    assert all(heads[0][name].tobytes() == heads[1][name].tobytes() for name in heads[0])


def test_a_list_with_a_document_that_is_gone_is_left_out(tmp_path: Path) -> None:
    generation = collection_of(tmp_path)
    [one] = explored(asked(shifted=False, count=1), lists=1)
    gone = Slate((COUNT + 5,), (False,), (0.5,), (True,))
    untrained = AttentionHead(INITIAL)
    both = replace(one, explored=(*one.explored, gone))
    [example] = make_explored_examples(generation, [both], lambda vector: project(untrained, vector), 5)
    assert example.slates is not None
    assert len(example.slates.query) == 1
    found = generation.rows[example.candidates.doc_indices[example.slates.places[0]]].tolist()
    assert tuple(found) == one.explored[0].rows
    alone = replace(one, explored=(gone,))
    assert make_explored_examples(generation, [alone], lambda vector: project(untrained, vector), 5) == []
